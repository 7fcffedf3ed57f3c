"""Runs an extension service as Talos would: usage: python -m tests.support.talos_service SPEC.json

SPEC holds `root` (the container's), `service` (its description) and `files` (configuration files, each written already:
path in the container to path outside). What a description does not say is containerd's default for Linux containers
(pkg/oci: mounts.go, spec.go) with what Talos adds (internal/app/machined: services/extension.go, runner/containerd):
namespaces of its own for mounts, processes and the host name, the network of whoever runs this, all capabilities but
two, no new privileges. Not played are seccomp, SELinux and cgroups.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from netnslab import syscalls

MS_RDONLY, MS_REMOUNT, MS_STRICTATIME = 1, 1 << 5, 1 << 24
CLONE_NEWPID = 0x2000_0000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
DROPPED = (16, 22)
"""CAP_SYS_MODULE and CAP_SYS_BOOT (linux/capability.h): Talos' DefaultDroppedCapabilities."""
QUIET = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC

DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
DEFAULT_MOUNTS: tuple[tuple[str, str, int, str], ...] = (
    ("/proc", "proc", QUIET, ""),
    ("/dev", "tmpfs", syscalls.MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k"),
    ("/dev/shm", "tmpfs", QUIET, "mode=1777,size=65536k"),
    ("/sys", "sysfs", QUIET | MS_RDONLY, ""),
    ("/run", "tmpfs", syscalls.MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k"),
)
HOST_FILES = ("/etc/hosts", "/etc/resolv.conf")
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
MADE_MODE = 0o700
"""Of what is missing to be mounted."""

_libc = ctypes.CDLL(None, use_errno=True)


class Mount(TypedDict):
    """One of a description's mounts."""

    source: str
    destination: str
    type: str
    options: Sequence[str]


class Security(TypedDict):
    """What a description says of it here."""

    readonlyPaths: Sequence[str]


class Container(TypedDict):
    """A description's container."""

    entrypoint: str
    args: Sequence[str]
    environment: Sequence[str]
    mounts: Sequence[Mount]
    security: Security


def main() -> int:
    """Run it to its end; SIGTERM goes to everybody in it (containerd's WithKillAll). Returns its exit status."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for mount in spec["service"]["container"]["mounts"]:
        Path(mount["source"]).mkdir(mode=MADE_MODE, parents=True, exist_ok=True)
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        become(Path(spec["root"]), spec["service"]["container"], spec["files"])
    signal.signal(signal.SIGTERM, lambda number, _: tell(everybody(child), number))
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


def everybody(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for each in found:
        with contextlib.suppress(FileNotFoundError):
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text(encoding="ascii").split())
    return found


def tell(pids: Sequence[int], number: int) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def become(root: Path, container: Container, files: Mapping[str, str]) -> None:
    """Turn this process, the first of its namespace, into the service."""
    syscalls.set_propagation(syscalls.MS_PRIVATE)
    syscalls.mount(str(root), str(root), flags=syscalls.MS_BIND | syscalls.MS_REC)
    for target, kind, flags, data in DEFAULT_MOUNTS:
        (root / target[1:]).mkdir(exist_ok=True)
        syscalls.mount(kind, str(root / target[1:]), kind, flags, data=data)
    for name in DEVICES:
        bind(f"/dev/{name}", root / "dev" / name)
    for path in HOST_FILES:
        bind(path, root / path[1:], read_only=True)
    for mount in container["mounts"]:
        bind(mount["source"], root / mount["destination"][1:], read_only="ro" in mount["options"])
    for path, source in files.items():
        bind(source, root / path[1:], read_only=True)
    restrict(root, container["security"]["readonlyPaths"])
    enter(root)
    for number in DROPPED:
        _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    environment = dict(each.split("=", 1) for each in container["environment"])
    os.execve(container["entrypoint"], [container["entrypoint"], *container["args"]], environment)


def bind(source: str, target: Path, *, read_only: bool = False) -> None:
    """Mount a file or a folder; its place is made where the image has none."""
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    syscalls.mount(source, str(target), flags=syscalls.MS_BIND | syscalls.MS_REC)
    if read_only:
        freeze(target)


def freeze(target: Path) -> None:
    """Make what is mounted there read-only."""
    syscalls.mount("", str(target), flags=syscalls.MS_BIND | MS_REMOUNT | MS_RDONLY)


def restrict(root: Path, read_only: Sequence[str]) -> None:
    """Mask what nobody should read, and freeze what nobody should write: that, and the root."""
    for path in (root / name[1:] for name in MASKED):
        if path.is_dir():
            syscalls.mount("tmpfs", str(path), "tmpfs", MS_RDONLY)
        elif path.exists():
            syscalls.mount("/dev/null", str(path), flags=syscalls.MS_BIND)
    for path in (root / name[1:] for name in read_only):
        if path.exists():
            syscalls.mount(str(path), str(path), flags=syscalls.MS_BIND | syscalls.MS_REC)
            freeze(path)
    freeze(root)


def enter(root: Path) -> None:
    """Leave the machine's files behind: pivot_root(2) onto itself, and the old root is dropped."""
    os.chdir(root)
    if _libc.syscall(ctypes.c_long(pivot_root_number()), b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    syscalls.unmount(".", syscalls.MNT_DETACH)
    os.chdir("/")


def pivot_root_number() -> int:
    """The system call's (asm/unistd.h)."""
    return {"x86_64": 155, "aarch64": 41}[os.uname().machine]


if __name__ == "__main__":
    sys.exit(main())
