"""What the engine process asks for itself: priority, descriptors, a quiet heap, to be the only one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import resource
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

WANTED_FILES: Final = 8192
"""Each outstanding fresh probe is an open socket, and the usual soft limit is 1024."""

NICENESS: Final = 10
"""A tenth of the processor where others want all of it; all of it where they do not."""

LOCK_NAME: Final = "engine.lock"
AGENT_LOCK_NAME: Final = "agent.lock"
"""In the runtime directory."""
MAX_EPOCH: Final = 2**63
GRACE_S: Final = 3.0
"""What a process has to end by itself, and again to end once it was killed."""
_LOOK_S: Final = 0.02
_LOCK_MODE: Final = 0o640

SMAPS: Final = Path("/proc/self/smaps")
_MADV_DONTNEED: Final = 4
_CAP_IPC_LOCK: Final = 14
_CAP_SYS_NICE: Final = 23
_MCL_CURRENT: Final = 1
_MCL_FUTURE: Final = 2
_MCL_ONFAULT: Final = 4
_CPUCLOCK_SCHED: Final = 2
"""asm-generic/mman-common.h and mman.h."""


def go_realtime() -> bool:
    """Run before all ordinary processes: under full load timers stay within 0.6 ms instead of 24.

    Children start with ordinary priority again. False when that is not allowed (no CAP_SYS_NICE, no
    RLIMIT_RTPRIO); a real-time policy that systemd has set is kept.
    """
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in {os.SCHED_RR, os.SCHED_FIFO}:
        return True
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        return False
    return True


def give_way() -> bool:
    """Run after the work of others: what Kilo's agent does at that moment is what its own traffic waits for.

    False where a wireguard-go that is started from here could not be preferred again: that one carries traffic.
    """
    if not _has_capability(_CAP_SYS_NICE) and not resource.getrlimit(resource.RLIMIT_RTPRIO)[0]:
        return False
    os.nice(NICENESS)
    return True


def raise_file_limit() -> int:
    """Allow as many open descriptors as wanted, or as the hard limit permits; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def settle_memory() -> None:
    """Take everything alive out of the garbage collector's sight and stop it: a full collection is a stall.

    Cycles made from here on (an exception's traceback, mostly) wait for `collect_young`.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


def release_memory() -> int:
    """Give back to the kernel what only the start has needed; returns the bytes that were let go.

    The heap's free pages go first. Then the pages of program files, of which importing and OpenSSL's start have
    touched some 7 MiB: they are dropped, and what the loop really runs on comes back by itself, from the page
    cache, within its first turns. Only mappings that were never written to are dropped, so nothing can be lost; where
    the kernel does not tell which those are (CONFIG_PROC_PAGE_MONITOR, or a hidden smaps), none is.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.malloc_trim(0)
    try:
        smaps = SMAPS.read_text().splitlines()
    except OSError:
        return 0
    released = 0
    for start, end in _clean_file_mappings(smaps):
        size = end - start
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_DONTNEED) == 0:
            released += size
    return released


def _clean_file_mappings(smaps: list[str]) -> Iterator[tuple[int, int]]:
    """Start and end of each mapping of a file that is read-only and has no private copy of any page (proc(5))."""
    span, is_candidate = (0, 0), False
    for line in smaps:
        fields = line.split()
        if not fields[0].endswith(":"):
            start, _, end = fields[0].partition("-")
            span = int(start, 16), int(end, 16)
            is_candidate = len(fields) > 5 and fields[5].startswith("/") and "w" not in fields[1]
        elif fields[0] == "Anonymous:" and is_candidate and fields[1] == "0":
            yield span


def lock_memory() -> bool:
    """Keep what is resident, and whatever becomes so, from being paged out: a page fault is a stall.

    On fault only: locking everything that is mapped would bring in all of OpenSSL and of the interpreter, more than
    the whole engine weighs. False when that is not allowed without limit (LimitMEMLOCK=infinity or CAP_IPC_LOCK):
    under a limit, mappings would fail later on.
    """
    is_unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if not is_unlimited and not _has_capability(_CAP_IPC_LOCK):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0)


def unlock_memory() -> None:
    """Let pages go again: those that are locked cannot be given back."""
    ctypes.CDLL(None, use_errno=True).munlockall()


def _has_capability(number: int) -> bool:
    """Whether this process may do what a capability of linux/capability.h permits (proc(5): CapEff, hexadecimal)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)


def collect_young() -> None:
    """Collect what was made lately; some 100 us, for idle moments."""
    gc.collect(0)


class InstanceLock:
    """One process of a kind for each runtime directory: a file, locked while it lives, with its pid in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> int | None:
        """Lock the file.

        Returns:
            None when it is ours, or the pid of the process that has it (0 when it has not written it yet).

        Raises:
            OSError: the file cannot be opened or made.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _LOCK_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).strip()
            os.close(fd)
            return int(holder) if holder.isdigit() else 0
        # Where the file system is full nobody is told who has the lock, and it is had all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.write(fd, b"%d\n" % os.getpid())
        self._fd = fd
        return None

    def take_over(self, grace_s: float = GRACE_S) -> int | None:
        """Lock the file for the one process that may have it: another one that does not end in time is killed.

        Returns:
            The pid of the process that was killed, if any. One that does not even end then keeps the lock.

        Raises:
            OSError: as `acquire`.
        """
        limit_s = time.monotonic() + grace_s
        while (holder := self.acquire()) is not None and time.monotonic() < limit_s:
            time.sleep(_LOOK_S)
        if not holder:
            return None
        try:
            pidfd = os.pidfd_open(holder)
        except ProcessLookupError:
            self.acquire()
            return None
        try:
            # A process that has the lock still is the one that wrote its pid: the number was not given to another.
            if self.acquire() != holder:
                return None
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [], GRACE_S)
        finally:
            os.close(pidfd)
        self.acquire()
        return holder

    def release(self) -> None:
        """Unlock it. The file stays: removing it would let two processes lock two files of one name."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of an `InstanceLock` at that path; nothing is made or changed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_used_ns(pid: int) -> int:
    """CPU time of all threads of a child that has not been waited for.

    By the clock that clock_getcpuclockid(3) names, one system call instead of a dozen files.
    Source: linux/posix-timers_types.h, make_process_cpuclock() with CPUCLOCK_SCHED.
    """
    return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)


def is_runnable(pid: int) -> bool:
    """Whether a thread of a child that has not been waited for runs or waits for a CPU.

    Source: proc_pid_stat(5): state is field 3; the name in field 2 may hold anything.
    """
    return any(_stat_fields(task)[:1] == ["R"] for task in Path("/proc", str(pid), "task").iterdir())


def read_resident_bytes(pid: int) -> int:
    """The memory that a process holds, program files that it shares included; 0 where there is no such process.

    Source: proc_pid_statm(5): the second field, in pages.
    """
    try:
        return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * resource.getpagesize()
    except (FileNotFoundError, ProcessLookupError):
        return 0


def read_processor_ns(pids: Iterable[int]) -> int | None:
    """The processor time of these processes together, to a hundredth of a second; None where one is gone.

    Source: proc_pid_stat(5): utime and stime are fields 14 and 15.
    """
    found = [_stat_fields(Path("/proc", str(pid))) for pid in pids]
    return sum(map(_used_ns, found)) if all(found) else None


def _used_ns(fields: Sequence[str]) -> int:
    """The processor time in the fields of a process."""
    return (int(fields[11]) + int(fields[12])) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _stat_fields(folder: Path) -> list[str]:
    """The fields behind the name; none for a thread that has ended meanwhile."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def next_epoch(path: Path) -> tuple[int, bool]:
    """The boot epoch of this process: greater than that of any before, also when the wall clock is set back.

    Returns:
        The epoch (nanoseconds since 1970 where nothing was odd), and whether it could be recorded. An
        unrecorded one is still greater than the last recorded one.
    """
    try:
        last = int(path.read_text())
    except (OSError, ValueError):
        last = 0
    # Beyond the year 2262 is a digit that a disk has turned over: packets have 64 bits for it, and none may be 0.
    epoch = max(time.time_ns(), last + 1 if last < MAX_EPOCH else 0)
    try:
        _replace(path, f"{epoch}\n")
    except OSError:
        return epoch, False
    return epoch, True


def _replace(path: Path, text: str) -> None:
    """Write a file so that a crash leaves the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A fixed name: the instance lock leaves one writer, and a remnant of a crash is written over.
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
