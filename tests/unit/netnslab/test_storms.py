"""Storms are drawn by the seed alone, and what they begin is ended."""

import os
import random
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netnslab import storms
from netnslab.daemons import Process
from netnslab.storms import BEGIN, END, FAULTS, GO_ON, HURTS, STOP, Performer, Trouble, course, draw

MS = 1_000_000
NODES = ("a1", "a2", "a3", "b1", "b2", "b3")
RELAYS = ("a1", "a2", "b1", "b2")


def _drawn(seed, count):
    rng = random.Random(seed)
    return [draw(rng, NODES, RELAYS) for _ in range(count)]


def test_a_seed_tells_the_same_storms_again():
    """What the daemons do has no part in what strikes them: both modes meet the same."""
    assert _drawn(7, 20) == _drawn(7, 20)
    assert _drawn(7, 20) != _drawn(8, 20)


def test_storms_draw_from_everything_there_is():
    """Each kind of trouble comes up, no node has two of a sort, and each storm breaks some network."""
    storms_drawn = _drawn(1, 300)
    kinds = {(trouble.kind, trouble.process) for storm in storms_drawn for trouble in storm}
    assert kinds == {(kind, "") for kind in FAULTS} | set(HURTS)
    for storm in storms_drawn:
        broken = [trouble.node for trouble in storm if trouble.is_fault]
        hurt = [trouble.node for trouble in storm if not trouble.is_fault]
        assert 1 <= len(broken) == len(set(broken)) <= storms.MOST_FAULTS
        assert len(hurt) == len(set(hurt)) <= storms.MOST_HURTS
        assert set(broken) <= set(RELAYS)


def test_the_course_of_a_storm_is_in_the_order_of_time():
    """Whatever overlaps; each trouble begins once and ends once, at its own time."""
    for storm in _drawn(2, 50):
        instants = course(storm)
        assert instants == sorted(instants, key=lambda each: each.at_ns)
        for trouble in storm:
            own = [(each.at_ns, each.what) for each in instants if each.trouble is trouble]
            assert (trouble.after_ns, BEGIN) == own[0]
            assert (trouble.until_ns, END) == own[-1]
            assert [BEGIN, END] == [what for _, what in own if what in (BEGIN, END)]


def test_the_starved_have_a_fifth_of_the_time():
    """A second of it: nine whole slices between the stops, 20 ms each."""
    trouble = Trouble(kind="starve", node="a1", process="engine", after_ns=0, lasts_ns=1_000 * MS)
    told = [(each.what, each.at_ns) for each in course([trouble])]
    ran = [at for what, at in told if what == GO_ON]
    stopped = [at for what, at in told if what == STOP]
    assert 9 == len(ran) == len(stopped)
    assert {20 * MS} == {stop - run for run, stop in zip(ran, stopped, strict=True)}
    assert {80 * MS} == {run - stop for run, stop in zip(ran, [0, *stopped[:-1]], strict=True)}


class _Daemons:
    """One engine, which is a process that sleeps, and no agent."""

    def __init__(self, pid: int) -> None:
        self.pid, self.told = pid, list[str]()

    def engine_pid(self, _node: str) -> int:
        return self.pid

    def has_agent(self, _node: str) -> bool:
        return False

    def kill(self, node: str, process: Process = Process.ENGINE) -> None:
        self.told.append(f"kill {process} {node}")

    def start(self, node: str) -> None:
        self.told.append(f"start {node}")


@pytest.fixture
def sleeper():
    """A process that can be stopped."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _state(pid):
    return (Path("/proc") / str(pid) / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]


def _performer(pid):
    lab: Any = SimpleNamespace()
    daemons: Any = _Daemons(pid)
    return Performer(lab, daemons), daemons


def _trouble(kind, process):
    return Trouble(kind=kind, node="a1", process=process, after_ns=0, lasts_ns=100 * MS)


def test_the_frozen_go_on_when_a_storm_is_cleared(sleeper):
    """A lab that fails in the middle of a storm leaves no daemon stopped."""
    performer, _ = _performer(sleeper.pid)
    performer.perform(course([_trouble("freeze", "engine")])[0])
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert "T" == _state(sleeper.pid)
    performer.clear()
    os.waitid(os.P_PID, sleeper.pid, os.WCONTINUED | os.WNOWAIT)

    assert "T" != _state(sleeper.pid)


def test_who_has_ended_meanwhile_is_not_signalled(sleeper):
    """An engine ends an agent that is stopped for long; going on with it is no error."""
    performer, _ = _performer(sleeper.pid)
    begin, end = course([_trouble("freeze", "engine")])
    performer.perform(begin)
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    performer.perform(end)


def test_a_killed_engine_is_started_at_the_end_of_its_trouble():
    """Not before, and not twice: clearing up afterwards finds nothing to start."""
    performer, daemons = _performer(0)
    begin, end = course([_trouble("kill", "engine")])
    performer.perform(begin)
    assert ["kill engine a1"] == daemons.told
    performer.perform(end)
    performer.clear()

    assert ["kill engine a1", "start a1"] == daemons.told


def test_an_agent_between_two_lives_is_left_alone():
    """There is nothing to end or to stop."""
    performer, daemons = _performer(0)
    for kind in ("kill", "freeze", "starve"):
        for instant in course([_trouble(kind, "agent")]):
            performer.perform(instant)
    performer.clear()

    assert [] == daemons.told
