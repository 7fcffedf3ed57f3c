"""One turn: looks, decides and acts; what fails stops what rests on it, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest

from meshwatchkube.actions import Pin, Remember, SetConditions, SetMark, SetTaint, Tell
from meshwatchkube.api import Clocks
from meshwatchkube.memory import Memory, Phase
from meshwatchkube.run import Loop
from meshwatchkube.settings import (
    DaemonSettings,
    DrainSettings,
    GatingSettings,
    LeaderKind,
    Mode,
    PromotionSettings,
    Settings,
)
from tests.support.kube import NOW_S, SECOND, Log, accusing, cluster, mesh, node

SETTINGS = Settings(
    daemon=DaemonSettings(read_interval=SECOND // 5),
    promotion=PromotionSettings(mode=Mode.ENFORCE),
    gating=GatingSettings(mode=Mode.ENFORCE),
)
BROKEN = mesh(active="a1-b2", reports=accusing("b1", "b2", "b3"))


class _Sides:
    """Both sides, as a test wants them, and the clock."""

    def __init__(self):
        self.mesh, self.cluster, self.memory = BROKEN, cluster(), Memory()
        self.now_s = 0
        self.failing: tuple[type, ...] = ()
        self.done: list[object] = []
        self.looks, self.asked_for = 0, ""
        self.fits: list[bool] = []
        self.renewed: Callable[[], object] = lambda: None
        self.stopped = threading.Event()

    @property
    def clocks(self):
        return Clocks(monotonic=lambda: self.now_s * SECOND, unix=lambda: (NOW_S + self.now_s) * SECOND)

    def steer(self, action):
        self.done.append(action)

    def remember(self, memory):
        if Remember in self.failing:
            return False
        self.memory = memory
        return True

    def write(self, action):
        if isinstance(action, self.failing):
            return False
        self.done.append(action)
        return True


class _Control:
    def __init__(self, sides):
        self._sides = sides

    def look(self):
        self._sides.looks += 1
        if self._sides.looks >= 3:
            self._sides.stopped.set()
        return self._sides.mesh

    def steer(self, action):
        self._sides.steer(action)


class _Api:
    def __init__(self, sides):
        self._sides = sides
        self.remember, self.write = sides.remember, sides.write

    def look(self, node, *, is_fit):
        self._sides.asked_for = node
        self._sides.fits.append(is_fit)
        if len(self._sides.fits) > 1:
            self._sides.renewed()
        return self._sides.cluster, self._sides.memory


@pytest.fixture
def sides():
    """A mesh with a broken leader, and a cluster that is well."""
    return _Sides()


@pytest.fixture
def log():
    """What is logged."""
    return Log()


def _loop(sides, log, settings=SETTINGS):
    return Loop(settings, _Control(sides), _Api(sides), say=log, clocks=sides.clocks)


def _turn(loop, sides, at_s):
    sides.now_s, sides.done = at_s, []
    loop.turn()
    return [type(each) for each in sides.done]


def test_a_failover_is_made_to_last_and_each_thing_written_is_logged(sides, log):
    """The step is remembered before anything is done."""
    loop = _loop(sides, log)
    assert [SetConditions, Tell] == _turn(loop, sides, 0)
    sides.cluster = cluster(*_with_conditions())
    assert [Tell, SetTaint] == _turn(loop, sides, 300)
    assert [Phase.DETOUR] == [change.phase for change in sides.memory.changes]
    assert [SetMark, SetTaint] == _turn(loop, sides, 320)
    assert ("lease.taken", "cluster.written") == (log.events()[0], log.events()[-1])
    assert {"level": "info", "what": "set_mark"}.items() <= log.lines[-2][1].items()


def _with_conditions():
    known = node("b1")
    bad = tuple(
        msgspec.structs.replace(known.condition(kind), status="True") for kind in ("MeshDegraded", "OverlayUnavailable")
    )
    return [msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, conditions=bad))]


def test_a_step_that_cannot_be_written_down_is_not_taken(sides, log):
    """Nobody would know of it."""
    loop = _loop(sides, log)
    _turn(loop, sides, 0)
    sides.cluster, sides.failing = cluster(*_with_conditions()), (Remember,)
    assert [] == _turn(loop, sides, 300)
    assert Memory() == sides.memory
    sides.failing = ()
    assert [Tell, SetTaint] == _turn(loop, sides, 302)


def test_an_event_that_fails_hinders_nothing(sides, log):
    """It is for people."""
    sides.failing = (Tell,)
    assert [SetConditions] == _turn(_loop(sides, log), sides, 0)


def test_a_relay_pins_without_the_lease(sides, log):
    """By what the Lease says."""
    loop = _loop(sides, log)
    _turn(loop, sides, 0)
    _turn(loop, sides, 300)
    sides.mesh, sides.cluster = mesh(at="b2", active="a1-b2"), cluster(is_writer=False, is_fresh=False)
    assert [Pin] == _turn(loop, sides, 302)
    assert "lease.lost" == log.events()[-1]


def test_without_the_daemon_no_wait_goes_on(sides, log):
    """What stood before it went away is not known to have stood since."""
    loop = _loop(sides, log)
    _turn(loop, sides, 0)
    sides.mesh = None
    assert [] == _turn(loop, sides, 150)
    sides.mesh = BROKEN
    _turn(loop, sides, 300)
    assert Memory() == sides.memory


def test_another_cluster_is_reported_once_as_an_error(sides, log):
    """A kubeconfig that leads elsewhere."""
    loop, sides.cluster = _loop(sides, log), type(cluster())(is_fresh=True, is_writer=True)
    assert [] == _turn(loop, sides, 0) + _turn(loop, sides, 2)
    assert [{"level": "error", "why": "this API has no node a3"}] == [
        fields for event, fields in log.lines if event == "cluster.mistaken"
    ]


def test_a_drain_that_follows_a_node_of_another_name_is_an_error_without_the_lease(sides, log):
    """Nobody else would say that this one is never drained; the Node is asked for by the name that the daemon has."""
    loop, sides.cluster = _loop(sides, log, Settings(drain=DrainSettings(follow=True))), type(cluster())(is_fresh=True)
    _turn(loop, sides, 0)
    assert "a3" == sides.asked_for
    assert ["this API has no node a3"] == [fields["why"] for event, fields in log.lines if event == "cluster.mistaken"]


@pytest.mark.parametrize(("script", "works"), [("exit 0", True), ("echo no >&2; exit 3", False), (None, False)])
def test_a_hook_that_fails_is_called_again(sides, log, tmp_path, *, script, works):
    """It gets the location and both nodes; what it says on failing is logged."""
    hook = tmp_path / "hook"
    if script is not None:
        hook.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\n{script}\n')
        hook.chmod(0o755)
    promotion = PromotionSettings(mode=Mode.ENFORCE, kind=LeaderKind.HOOK, hook=str(hook))
    loop = _loop(sides, log, Settings(promotion=promotion))
    _turn(loop, sides, 0)
    _turn(loop, sides, 300)
    _turn(loop, sides, 320)
    phases = [change.phase for change in sides.memory.changes]
    assert [Phase.CHANGED if works else Phase.DETOUR] == phases
    assert works != ("hook.failed" in log.events())
    if script is not None:
        assert "cloud b1 b2\n" == (tmp_path / "called").read_text()


def test_it_goes_round_until_it_is_told_to_stop(sides, log):
    """With the interval between two looks."""
    _loop(sides, log).run(sides.stopped)
    assert 3 == sides.looks


def test_who_has_had_no_daemon_for_as_long_as_a_lease_lasts_says_so(sides, log):
    """A restart of the daemon is over by then; one that takes itself for the broken one is none to decide by."""
    loop, ill = _loop(sides, log), mesh(is_reliable=False)
    for at_s, seen in ((0, None), (5, ill), (10, BROKEN), (15, None), (40, ill), (45, ill), (50, BROKEN)):
        sides.mesh = seen
        _turn(loop, sides, at_s)
    assert [False, False, True, True, True, False, True] == sides.fits


def test_the_lease_is_renewed_while_a_hook_runs(sides, log, tmp_path):
    """Else what it has done could not be written down, and it would be called again and again."""
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done\nprintf '\\377' >&2\n")
    hook.chmod(0o755)
    promotion = PromotionSettings(mode=Mode.ENFORCE, kind=LeaderKind.HOOK, hook=str(hook))
    loop = _loop(sides, log, Settings(promotion=promotion))
    _turn(loop, sides, 0)
    _turn(loop, sides, 300)
    sides.renewed = (tmp_path / "go").touch
    sides.fits.clear()
    _turn(loop, sides, 320)
    assert [True, True] == sides.fits, "one look of the turn, one of the wait"
    assert [Phase.CHANGED] == [change.phase for change in sides.memory.changes]
