"""The leader is found out, not chosen: late, never twice, and never lost for a transient."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from meshwatchd.core.membership.leader import SETTLE_NS, LeaderKeeper, claimant
from meshwatchd.core.membership.location import addresses
from meshwatchd.model.settings import MS
from tests.support import hellos

NAMES: Any = ("a1", "a2", "a3")


def _told(claims, following, since=None):
    """Hellos of one location: who says to lead, and whom the others follow."""
    told = {}
    for name in NAMES:
        seen = {"is_leader": name in claims, "leader": hellos.overlay_ip(following.get(name, name))}
        told[name] = hellos.hello(name, seen=seen, leads_since_ns=(since or {}).get(name, 0))
    return told


def _booting(name, told):
    """The same, but a node has no device yet but a wg0 of its administrators, by which it leads itself."""
    view = msgspec.structs.replace(told[name].view, granularity="full")
    return {**told, name: msgspec.structs.replace(told[name], view=view)}


def _keeper() -> Any:
    """Names are plain words here."""
    return LeaderKeeper()


def _claimant(told, alive=NAMES):
    return claimant(NAMES, told, alive, addresses(told))


@pytest.mark.parametrize(
    ("told", "alive", "leader"),
    [
        (_told([], {"a2": "a1", "a3": "a1"}), NAMES, None),
        (_told(["a1"], {"a2": "a1", "a3": "a1"}), NAMES, "a1"),
        (_told(["a1", "a2"], {"a3": "a2"}), NAMES, "a2"),
        (_told(["a1", "a2"], {"a3": "a1"}), NAMES, "a1"),
        (_told(["a1", "a2"], {"a3": "a1"}), ("a2", "a3"), "a2"),
        (_told(["a1", "a2"], {}, since={"a1": 5, "a2": 9}), NAMES, "a2"),
        (_told(["a1", "a2"], {}), NAMES, "a1"),
        (_told(["a1"], {"a2": "a1"}), (), "a1"),
        (_booting("a2", _told(["a1", "a2"], {}, since={"a1": 5, "a2": 9})), NAMES, "a1"),
        (_booting("a2", _told(["a2"], {})), NAMES, "a2"),
    ],
    ids=[
        *("nobody", "one", "votes", "votes the other way", "the living", "the later", "by name", "all silent"),
        *("a node that boots", "it alone"),
    ],
)
def test_of_all_that_say_so_one_leads(told, alive, leader):
    """The living before the dead, who leads others before who leads itself, the followed before the lonely, the later
    before the earlier.
    """
    assert leader == _claimant(told, alive)


def test_the_first_leader_is_believed_at_once():
    """There is nobody to be faithful to."""
    assert {"x": "a1"} == _keeper().settle({"x": "a1"}, NAMES, 0)


def test_a_new_leader_is_believed_when_it_has_held_for_a_moment():
    """The deadline tells when to look again."""
    keeper = _keeper()
    keeper.settle({"x": "a1"}, NAMES, 0)

    assert {"x": "a1"} == keeper.settle({"x": "a2"}, NAMES, 10)
    assert 10 + SETTLE_NS == keeper.deadline()
    assert {"x": "a1"} == keeper.settle({"x": "a2"}, NAMES, 9 + SETTLE_NS)
    assert {"x": "a2"} == keeper.settle({"x": "a2"}, NAMES, 10 + SETTLE_NS)
    assert keeper.deadline() is None


@pytest.mark.parametrize("meanwhile", [None, "a2"])
def test_the_restart_of_an_agent_changes_nothing(meanwhile):
    """kilo0 is down for 0.2 s; somebody else may even say that it leads."""
    keeper = _keeper()
    keeper.settle({"x": "a1"}, NAMES, 0)
    keeper.settle({"x": meanwhile}, NAMES, 10)
    keeper.settle({"x": "a1"}, NAMES, 10 + 200 * MS)

    assert {"x": "a1"} == keeper.settle({"x": "a1"}, NAMES, 10 * SETTLE_NS)
    assert keeper.deadline() is None


def test_two_challengers_one_after_the_other_both_have_to_wait():
    """The time of one is not counted for the other."""
    keeper = _keeper()
    keeper.settle({"x": "a1"}, NAMES, 0)
    keeper.settle({"x": "a2"}, NAMES, 0)

    assert {"x": "a1"} == keeper.settle({"x": "a3"}, NAMES, SETTLE_NS)


def test_nobody_is_deposed_without_a_successor():
    """A location whose leader is down has a leader that is down."""
    keeper = _keeper()
    keeper.settle({"x": "a1"}, NAMES, 0)

    assert {"x": "a1"} == keeper.settle({"x": None}, NAMES, 100 * SETTLE_NS)


def test_a_forgotten_leader_leads_no_more():
    """Nor does that of a location that is gone."""
    keeper = _keeper()
    keeper.settle({"x": "a1", "y": "b1"}, (*NAMES, "b1"), 0)

    assert {} == keeper.settle({"x": None}, ("a2", "a3"), 1)


def test_a_challenge_in_a_location_that_is_gone_is_waited_for_no_more():
    """A deadline in the past would keep a core busy for ever."""
    keeper = _keeper()
    keeper.settle({"x": "a1"}, NAMES, 0)
    keeper.settle({"x": "a2"}, NAMES, 1)
    keeper.settle({}, NAMES, 2)

    assert keeper.deadline() is None


@pytest.mark.parametrize("alive", [NAMES, ("a2", "a3"), ()])
def test_of_nodes_that_lead_themselves_the_first_by_name_stands_for_all(alive):
    """Dead or alive, and whoever began last: nothing goes by way of it, and another one would begin all anew."""
    seen = {"profiles": ("cilium-clustermesh", "cilium"), "is_leader": True, "granularity": "full"}
    told = {name: hellos.hello(name, seen=seen, leads_since_ns=number) for number, name in enumerate(NAMES)}

    assert "a1" == _claimant(told, alive)
