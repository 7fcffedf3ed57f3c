"""wireguard-go: started so that it outlives us, and ended for certain.

It is fail-static's weakest part: a device carried by a process is gone with the process. So it gets a session of its
own, no pipe of ours that could break, and no signal when this process or its parent ends. (systemd must be told, too:
KillMode=process.)
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
from pathlib import Path

import msgspec

from meshwatchd.model.errors import KernelError

PROGRAM = "wireguard-go"
START_TIMEOUT_S = 5.0
PRIORITY = 2
"""The engine probes at real-time priority 1, and a probe's answer must not wait for the next probe."""

NICENESS = -10
GRACE_S = 2.0
"""How long it may take to obey SIGTERM before it gets SIGKILL."""

_SESSION_FIELD, _START_TIME_FIELD = 6, 22
"""Positions in /proc/PID/stat, counted from 1 (proc(5))."""


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A process of this boot: its id, and its start time in clock ticks, which a successor of that id cannot have."""

    pid: int
    start_ticks: int


def identify(pid: int) -> ProcessId | None:
    """The identity of a running process, or None when there is none of that id."""
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return ProcessId(pid=pid, start_ticks=int(fields[_START_TIME_FIELD - 3]))


async def start(device: str) -> ProcessId:
    """Start wireguard-go for a device that does not exist yet; it has made the device when this returns.

    It opens the device and its control socket, then puts itself into the background with nothing of ours open; without
    LOG_LEVEL the background process is silent, while what goes wrong before is told on stderr. It may use half of the
    processors: it runs before all else, and looks at every route that anybody changes on the node, which takes twice as
    long where its threads hand each other the work.

    Raises:
        KernelError: it is not installed, or could not make the device.
    """
    operation, cpus = f"start {PROGRAM} {device}", os.sched_getaffinity(0)
    try:
        launcher = await asyncio.create_subprocess_exec(
            PROGRAM,
            device,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            preexec_fn=_prefer,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GOMAXPROCS": str(max(1, len(cpus) // 2))},
        )
    except OSError as error:
        text = f"{PROGRAM} cannot be run ({error.strerror}); install it or load the kernel's wireguard module"
        raise KernelError(operation, error.errno or errno.ENOENT, text) from error
    try:
        output, _ = await asyncio.wait_for(launcher.communicate(), START_TIMEOUT_S)
    except TimeoutError as error:
        # It may have ended just now: on a busy machine what it said is read later.
        with contextlib.suppress(ProcessLookupError):
            launcher.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(launcher.wait(), GRACE_S)
        raise KernelError(operation, errno.ETIMEDOUT, "it neither failed nor went on") from error
    child = _member_of_session(launcher.pid)
    if launcher.returncode != 0 or child is None:
        lines = [line for line in output.decode(errors="replace").splitlines() if "ERROR" in line]
        raise KernelError(operation, errno.EIO, lines[-1] if lines else f"exit status {launcher.returncode}")
    return child


def _prefer() -> None:
    """Run before other work: packets of a kernel device would not wait for processes either."""
    # Without CAP_SYS_NICE or an RLIMIT_RTPRIO that allows it, it stays an ordinary process.
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


async def end(process: ProcessId) -> None:
    """End a process: SIGTERM, then SIGKILL. One that runs no more, or is another by now, is left alone.

    Raises:
        KernelError: it is another user's, or no descriptor is left.
    """
    try:
        await _end(process)
    except ProcessLookupError:
        return
    except OSError as error:
        number = error.errno or errno.EIO
        raise KernelError(f"end process {process.pid}", number, os.strerror(number)) from error


async def _end(process: ProcessId) -> None:
    handle = os.pidfd_open(process.pid)
    try:
        # The handle is open before the start time is compared, so the signal cannot hit a successor.
        if identify(process.pid) != process:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if await asyncio.to_thread(_has_ended, handle, GRACE_S):
                return
    finally:
        os.close(handle)


def _has_ended(handle: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _member_of_session(session: int) -> ProcessId | None:
    """The process that stayed in a session after its leader ended."""
    for entry in os.listdir("/proc"):  # noqa: PTH208  # names are all that is needed
        if entry.isdigit():
            fields = _stat(int(entry))
            if fields is not None and int(fields[_SESSION_FIELD - 3]) == session and fields[0] not in "ZX":
                return identify(int(entry))
    return None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; the second, the name, may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
