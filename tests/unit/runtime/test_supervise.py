"""The agent's end is noticed and it is started again, later each time."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.runtime.agent_process import EXIT_FAILURE
from meshwatchd.runtime.boot import Refusal, encode
from meshwatchd.runtime.supervise import (
    BACKOFF_FIRST_NS,
    BACKOFF_LAST_NS,
    BOOT_FD,
    Spawn,
    Supervisor,
    spawn_agent,
    succeed,
)
from tests.support.engine_node import no_agent, python_agent
from tests.support.pump import pump


class _Watched:
    def __init__(self, spawn: Spawn) -> None:
        self.poller = Poller()
        self.links: list[socket.socket] = []
        self.exits: list[int] = []
        self.supervisor = Supervisor(
            spawn=spawn, poller=self.poller, on_start=self.links.append, on_exit=self.exits.append
        )

    def close(self) -> None:
        for end in self.links:
            end.close()
        self.supervisor.stop()
        self.poller.close()


@pytest.fixture
def watch() -> Iterator[Callable[[Spawn], _Watched]]:
    """Makes supervised agents; stops them at the end."""
    made: list[_Watched] = []

    def make(spawn: Spawn) -> _Watched:
        made.append(_Watched(spawn))
        return made[-1]

    yield make
    for watched in made:
        watched.close()


def test_agent_gets_its_end_of_the_link(watch):
    """It can speak, and its exit status is told."""
    watched = watch(python_agent("import socket; socket.socket(fileno=3).send(b'hello'); raise SystemExit(7)"))
    watched.supervisor.advance(monotonic_ns())
    assert watched.supervisor.deadline() is None
    assert watched.supervisor.pid

    pump(watched.poller, lambda: bool(watched.exits))

    assert [7] == watched.exits
    assert b"hello" == watched.links[0].recv(10)
    assert b"" == watched.links[0].recv(10)


def test_agent_killed_by_a_signal_is_told_as_such(watch):
    """Minus the signal's number, as everywhere in Python."""
    watched = watch(python_agent("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    watched.supervisor.advance(monotonic_ns())
    pump(watched.poller, lambda: bool(watched.exits))

    assert [-9] == watched.exits
    assert watched.supervisor.pid is None


def test_an_agent_takes_the_place_of_one_that_was_left_behind(tmp_path, capfd):
    """Its engine was killed; it has closed its link and hangs on its way out."""
    script = "import sys, time; from pathlib import Path; from meshwatchd.runtime.supervise import succeed"
    script += "; succeed(Path(sys.argv[1])); print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as hung:
        assert hung.stdout is not None
        assert b"\n" == hung.stdout.readline()
        hung.send_signal(signal.SIGSTOP)
        succeed(tmp_path)
        assert -signal.SIGKILL == hung.wait(10)

    assert f'"agent.killed","level":"warning","pid":{hung.pid}' in capfd.readouterr().err


def test_restarts_are_put_off_longer_each_time(watch, capfd):
    """0.2 s, doubled, at most 30 s; also for an agent that cannot be started at all. Said once, in the end."""
    watched = watch(no_agent)
    now_ns, waits = monotonic_ns(), []
    for _ in range(11):
        watched.supervisor.advance(now_ns)
        due_ns = watched.supervisor.deadline()
        waits.append(due_ns - now_ns)
        now_ns = due_ns

    assert [min(BACKOFF_FIRST_NS << attempt, BACKOFF_LAST_NS) for attempt in range(11)] == waits
    assert 1 == capfd.readouterr().err.count("agent.failing")
    assert [] == watched.links


def test_agent_is_started_when_due_and_not_before(watch):
    """Until then nothing happens."""
    watched = watch(no_agent)
    now_ns = monotonic_ns()
    watched.supervisor.advance(now_ns)
    due_ns = watched.supervisor.deadline()
    watched.supervisor.advance(due_ns - 1)

    assert due_ns == watched.supervisor.deadline()


def test_stopping_waits_for_an_agent_that_ends_with_its_link(watch):
    """The orderly way: no signal is sent, so its exit handlers run."""
    watched = watch(python_agent("import socket; socket.socket(fileno=3).recv(1)"))
    watched.supervisor.advance(monotonic_ns())
    pid = watched.supervisor.pid
    watched.links[0].close()
    watched.supervisor.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [] == watched.exits


def test_stopping_ends_an_agent_that_does_not(watch, monkeypatch):
    """It is asked, then made to."""
    monkeypatch.setattr("meshwatchd.runtime.supervise._STOP_STEPS", ((None, 1_000_000), (15, 1_000_000), (9, None)))
    watched = watch(python_agent("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"))
    watched.supervisor.advance(monotonic_ns())
    pid = watched.supervisor.pid
    watched.supervisor.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_real_agent_is_told_its_descriptors(watch, capfd):
    """The command line of the real agent is accepted by the real agent: it finds what it is to run on."""
    fd = os.memfd_create("refusal", os.MFD_CLOEXEC)
    os.write(fd, encode(Refusal(reason="nothing to run on")))
    above = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, BOOT_FD + 1)
    watched = watch(spawn_agent(above))
    watched.supervisor.advance(monotonic_ns())
    pump(watched.poller, lambda: bool(watched.exits))

    os.close(fd)
    os.close(above)
    assert [EXIT_FAILURE] == watched.exits
    assert "nothing to run on\n" == capfd.readouterr().err
