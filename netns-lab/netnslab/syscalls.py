"""The four Linux calls that namespaces need and Python 3.11 does not offer.

Flag values are those of linux/sched.h (CLONE_*) and linux/mount.h (MS_*, MNT_*).
"""

from __future__ import annotations

import ctypes
import os

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


def _bytes(text: str) -> bytes | None:
    return os.fsencode(text) if text else None


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
