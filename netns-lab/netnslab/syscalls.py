"""The four Linux calls that namespaces need and Python 3.11 does not offer.

Flag values are those of linux/sched.h (CLONE_*) and linux/mount.h (MS_*, MNT_*).
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path

CLONE_FS = 0x0000_0200
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 1 << 12
MS_REC = 1 << 14
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19

MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Give the calling thread namespaces of its own; other threads of the process keep theirs.

    CLONE_NEWNS is legal in a thread because it implies only CLONE_FS (check_unshare_flags() in
    kernel/fork.c).
    """
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(descriptor: int, flags: int) -> None:
    """Move the calling thread into the namespace an open /proc/PID/ns file or its bind mount stands for."""
    _check(_libc.setns(descriptor, flags), f"setns({flags:#x})")


def mount(source: str, target: str, kind: str = "", flags: int = 0, *, data: str = "") -> None:
    """Mount, rebind or change a mount's flags; empty strings are passed as null pointers."""
    result = _libc.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    _check(result, f"mount {source or kind or 'flags'} on {target}")


def unmount(target: str, flags: int = MNT_DETACH | UMOUNT_NOFOLLOW) -> None:
    """umount2(2). By default lazy, so that a busy namespace file leaves the tree at once."""
    _check(_libc.umount2(_bytes(target), flags), f"unmount {target}")


def chroot(path: str) -> None:
    """Change the root directory of the calling thread, and of those that share its file system attributes."""
    _check(_libc.chroot(_bytes(path)), f"chroot {path}")


def set_propagation(flag: int) -> None:
    """Set how mounts of this namespace propagate, all of them.

    In a chroot whose root is a folder and no mount point there is no handle on the mount below it: that one keeps the
    propagation that was chosen when the chroot was made.

    Args:
        flag: MS_PRIVATE or MS_SLAVE.
    """
    if not _changes_mount("/", flag | MS_REC):
        for point in _mount_points():
            _changes_mount(point, flag)  # one that another mount covers is reached by nobody


def _changes_mount(target: str, flags: int) -> bool:
    """Whether the target is a mount point; its flags are set if it is."""
    try:
        mount("", target, flags=flags)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def _mount_points() -> list[str]:
    """Those that are seen from this thread's root (proc_pid_mountinfo(5), fifth field, with octal escapes)."""
    lines = Path("/proc/thread-self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines]


def _bytes(text: str) -> bytes | None:
    return os.fsencode(text) if text else None


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
