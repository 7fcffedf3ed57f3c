"""Processes identified by id and start time, so that a recycled id is never mistaken for ours."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

GRACE_S = 2.0
"""How long a process may take to obey SIGTERM before it gets SIGKILL."""

PRIORITY = 2
"""Real-time, and above the daemons' own 1."""

_START_TIME_FIELD = 22
"""Position of starttime in /proc/PID/stat, counted from 1 (proc(5))."""


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A process of one boot: its id and its start time in clock ticks since that boot."""

    pid: int
    start_ticks: int


def boot_id() -> str:
    """The kernel's name for the running boot; process ids and start times mean nothing beyond it."""
    return BOOT_ID.read_text(encoding="ascii").strip()


def identify(pid: int) -> ProcessId | None:
    """The identity of a running process, or None when there is none of that id (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = stat.rpartition(")")[2].split()  # the name may hold spaces and parentheses; fields from 3 follow it
    if after_name[0] in "ZX":
        return None
    return ProcessId(pid=pid, start_ticks=int(after_name[_START_TIME_FIELD - 3]))


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def inside_network(inodes: Iterable[int]) -> list[ProcessId]:
    """Every other process whose network namespace is one of these."""
    wanted = {f"net:[{inode}]" for inode in inodes}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            namespace = str((entry / "ns" / "net").readlink())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        process = identify(int(entry.name)) if namespace in wanted else None
        if process is not None:
            found.append(process)
    return found


def put_first(pid: int) -> None:
    """Let all threads of a process run before ordinary processes and before the daemons, where that is allowed."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(PRIORITY))


@contextlib.contextmanager
def being_first() -> Iterator[None]:
    """The same for the calling thread, and all that it starts meanwhile."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, policy, parameters)


def keep_to(pid: int, cpus: Iterable[int]) -> None:
    """Let all threads of a process, and what it will start, run on these CPUs only; an ended one is passed over."""
    allowed = tuple(cpus)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), allowed)


def end(processes: Iterable[ProcessId], *, grace_s: float = GRACE_S) -> None:
    """End processes: SIGTERM to all, SIGKILL to whoever is left after the grace time.

    A pidfd is opened before the start time is compared, so the signal cannot hit a successor of the same id.
    """
    handles = [handle for handle in map(_open, processes) if handle is not None]
    try:
        for handle in handles:
            _signal(handle, signal.SIGTERM)
        stubborn = _wait(handles, grace_s)
        for handle in stubborn:
            _signal(handle, signal.SIGKILL)
        _wait(stubborn, grace_s)
    finally:
        for handle in handles:
            os.close(handle)


def _open(process: ProcessId) -> int | None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if identify(process.pid) == process:
        return handle
    os.close(handle)
    return None


def _signal(handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return  # it ended by itself in the meantime


def _wait(handles: list[int], timeout_s: float) -> list[int]:
    """Wait until all have ended; returns those that have not."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    running, deadline = set(handles), time.monotonic() + timeout_s
    while running and (left_s := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(left_s * 1000):
            poll.unregister(handle)
            running.discard(handle)
    return sorted(running)


def children_of(pid: int) -> list[int]:
    """The children of a process; none of one that is gone. A look through all of /proc takes several milliseconds."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return _children_by_parent(pid)


def _children_by_parent(pid: int) -> list[int]:
    """The same where the kernel keeps no such list (proc(5): field 4 of stat is the parent)."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace") if entry.name.isdigit() else ""
            if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found
