import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys

import pytest

from meshwatchd.adapters.wireguard import process
from meshwatchd.adapters.wireguard.process import ProcessId, end, identify, start
from meshwatchd.model.errors import KernelError

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); [signal.pause() for _ in 'ab']",
]


def test_a_process_is_told_from_its_successor():
    """The start time cannot repeat under one id."""
    mine = identify(os.getpid())

    assert mine is not None
    assert os.getpid() == mine.pid
    assert identify(2**22 + 1) is None


def test_ending_spares_a_successor():
    """Same id, another start time: somebody else."""
    with subprocess.Popen(SLEEPER) as child:
        asyncio.run(end(ProcessId(pid=child.pid, start_ticks=1)))

        assert child.poll() is None
        child.terminate()


def test_ending_obeys_and_insists(monkeypatch):
    """SIGTERM first; whoever ignores it is killed."""
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        victim = identify(child.pid)
        assert victim is not None

        asyncio.run(end(victim))

        assert -signal.SIGKILL == child.wait()
    asyncio.run(end(victim))


def test_a_process_that_may_not_be_ended_is_an_error(monkeypatch):
    """A daemon of another user has started it."""

    def refuse(_handle, _number):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    mine = identify(os.getpid())
    assert mine is not None
    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    with pytest.raises(KernelError, match=f"end process {mine.pid}: Operation not permitted"):
        asyncio.run(end(mine))


def program(tmp_path, monkeypatch, script):
    """Put a stand-in for wireguard-go on PATH."""
    path = tmp_path / process.PROGRAM
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_the_process_that_stays_is_found(tmp_path, monkeypatch):
    """It daemonises: the one we started ends, its child goes on in the same session."""
    program(tmp_path, monkeypatch, "sleep 60 </dev/null >/dev/null 2>&1 &")

    child = asyncio.run(start("mw0"))

    assert child == identify(child.pid)
    assert os.getsid(child.pid) != os.getsid(0)
    asyncio.run(end(child))


def test_it_runs_before_the_engine_that_probes_through_it(tmp_path, monkeypatch):
    """Above real-time priority 1; where that is not allowed, before ordinary processes."""
    told = tmp_path / "told"
    program(
        tmp_path, monkeypatch, f"cut -d ' ' -f 18,19,40,41 /proc/$$/stat >{told}; sleep 60 </dev/null >/dev/null 2>&1 &"
    )
    is_allowed = not os.geteuid() or resource.getrlimit(resource.RLIMIT_RTPRIO)[0] >= process.PRIORITY

    asyncio.run(end(asyncio.run(start("mw0"))))

    _, _, priority, policy = map(int, told.read_text(encoding="ascii").split())
    assert ((process.PRIORITY, os.SCHED_RR) if is_allowed else (0, os.SCHED_OTHER)) == (priority, policy)


def test_it_leaves_half_of_the_processors_to_others(tmp_path, monkeypatch):
    """One at least: nobody is faster than it, and an agent that rewrites routes keeps it busy."""
    told = tmp_path / "told"
    program(tmp_path, monkeypatch, f"echo $GOMAXPROCS >{told}; sleep 60 </dev/null >/dev/null 2>&1 &")

    asyncio.run(end(asyncio.run(start("mw0"))))

    assert max(1, len(os.sched_getaffinity(0)) // 2) == int(told.read_text(encoding="ascii"))


class _Launcher:
    """One that is given up, and has ended when it is to be killed: a busy loop sees that too late."""

    is_waited_for = False

    async def communicate(self):
        await asyncio.Event().wait()

    def kill(self):
        raise ProcessLookupError

    async def wait(self):
        self.is_waited_for = True


def test_one_that_does_not_say_that_it_is_done_is_given_up(tmp_path, monkeypatch):
    """It neither fails nor puts itself into the background."""
    program(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(process, "START_TIMEOUT_S", 0.2)

    with pytest.raises(KernelError, match="start wireguard-go mw0: it neither failed nor went on"):
        asyncio.run(start("mw0"))


def test_one_that_is_given_up_is_waited_for_even_where_it_has_just_ended(monkeypatch):
    """The error of its kill took the agent down, and nobody else takes leave of a child."""
    launcher = _Launcher()

    async def launch(*_arguments, **_options):
        return launcher

    monkeypatch.setattr(process, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", launch)

    with pytest.raises(KernelError, match="start wireguard-go mw0: it neither failed nor went on"):
        asyncio.run(start("mw0"))

    assert launcher.is_waited_for


def test_what_goes_wrong_is_told_in_its_words(tmp_path, monkeypatch):
    """The last line with ERROR says why."""
    program(tmp_path, monkeypatch, "echo banner; echo 'ERROR: (mw0) no tun here' >&2; exit 1")

    with pytest.raises(KernelError, match=r"start wireguard-go mw0: ERROR: .mw0. no tun here"):
        asyncio.run(start("mw0"))


def test_a_missing_program_is_told_with_the_remedy(tmp_path, monkeypatch):
    """Install it, or load the module."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(KernelError, match="install it or load the kernel's wireguard module"):
        asyncio.run(start("mw0"))
