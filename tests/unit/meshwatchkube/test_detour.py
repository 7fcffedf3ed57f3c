"""Which path a change of leaders leaves alone, and who moves traffic there."""

from __future__ import annotations

import pytest

from meshwatchkube.actions import Pin, Unpin
from meshwatchkube.detour import detour, is_on, steer
from meshwatchkube.memory import Change, Memory, Phase
from tests.support.kube import mesh, pair

CHANGE = Change(location="cloud", remote="onprem", leader="b2", former="b1", via=("a2", "b2"))


@pytest.mark.parametrize(
    ("seen", "via"),
    [
        (pair(active="a1-b2"), ("a1", "b2")),
        (pair(active="a2-b2"), ("a2", "b2")),
        (pair(active="a2-b1"), ("a2", "b2")),
        (pair(active="a1-b2", bad=("a1-b2",)), ("a2", "b2")),
        (pair(active="a1-b2", bad=("a1-b2", "a2-b2")), ()),
        (pair(bad=("a2-b2",)), ("a1", "b2")),
        (pair(paths=("a1-b2", "a2-b2", "a1-b1", "a2-b1", "a1-b2"), active="a1-b2"), ("a2", "b2")),
        (pair(paths=("a1-b2", "a1-b1", "a1-b2", "a2-b1", "a2-b2"), active="a1-b2"), ("a2", "b2")),
        (pair(paths=("a1-b1",)), ()),
    ],
)
def test_traffic_stays_where_it_goes_around_the_node_and_from_home_takes_a_path_around_both_leaders(seen, via):
    """The way there and the way back: b1 is broken, or has been until lately."""
    assert via == detour(seen, "b1", {"b1", "b2", "b3"})


@pytest.mark.parametrize("at", ["a2", "b2"])
def test_both_relays_pin_and_nobody_else(at):
    """The daemon that is asked second says that a move is under way, and is asked again."""
    (action,) = steer(mesh(at=at, active="a1-b2"), Memory(changes=(CHANGE,)))
    remote = "cloud" if at == "a2" else "onprem"
    assert Pin(remote=remote, rank=3, reason="b2 is to lead cloud instead of b1") == action
    assert [] == list(steer(mesh(at="a3", active="a1-b2"), Memory(changes=(CHANGE,))))


def test_a_pin_that_stands_is_left_alone_until_the_change_stands():
    """Also while the marks are set."""
    pinned = mesh(at="a2", active="a2-b2", pins=("cloud",))
    for phase in (Phase.DETOUR, Phase.CHANGED):
        assert [] == list(steer(pinned, Memory(changes=(CHANGE.entering(phase, 0),))))
    assert [Unpin(remote="cloud")] == list(steer(pinned, Memory(changes=(CHANGE.entering(Phase.STANDS, 0),))))
    assert [Unpin(remote="cloud")] == list(steer(pinned, Memory()))


def test_changes_of_other_locations_and_without_detour_move_nothing():
    """Nor do paths that have gone meanwhile."""
    elsewhere = Change(location="x", remote="y", leader="x2", former="x1", via=("a2", "b2"))
    without = Change(location="cloud", remote="onprem", leader="b2", former="b1")
    gone = Change(location="cloud", remote="onprem", leader="b2", former="b1", via=("a2", "b9"))
    for change in (elsewhere, without, gone):
        assert [] == list(steer(mesh(at="a2", active="a1-b2"), Memory(changes=(change,))))


def test_traffic_is_on_a_detour_by_its_standby_link_alone():
    """The primary path may have the same relays."""
    assert is_on(pair(active="a2-b2"), ("b2", "a2"))
    assert not is_on(pair(active="a1-b2"), ("a2", "b2"))
    assert not is_on(pair(active="a1-b1"), ("a1", "b1"))


def test_a_change_that_stands_at_the_other_end_hides_none():
    """a2 leads for a1 since yesterday, and b1 breaks today."""
    other = Change(location="onprem", remote="cloud", leader="a2", former="a1", phase=Phase.STANDS)
    both = Memory(changes=(other, CHANGE))
    assert [Pin] == [type(each) for each in steer(mesh(at="b2", active="a1-b2"), both)]
    assert [] == list(steer(mesh(at="b2", active="a2-b2", pins=("onprem",)), both))
