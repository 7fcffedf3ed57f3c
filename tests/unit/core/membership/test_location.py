"""A location has one name on all nodes, and keeps it when its leader changes."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.location import BIRTH_NS, DISAGREEMENT_NS, HomeKeeper, addresses, place
from meshwatchd.model.discovery import Basis
from meshwatchd.model.ids import NodeName
from tests.support import hellos


def _peers(*names, **more):
    return {NodeName(name): hellos.hello(name, **more) for name in names}


def test_the_operator_has_the_last_word():
    """A pin needs no second opinion."""
    keeper = HomeKeeper(NodeName("a1"), pinned="cellar")
    assert ("cellar", Basis.OPERATOR) == keeper.decide(hellos.view("a1", location="onprem"), {}, 0)


def test_a_source_names_the_location_whatever_was_remembered():
    """Kilo's graph knows better than we do."""
    keeper = HomeKeeper(NodeName("a1"), remembered="site-a2")
    assert ("onprem", Basis.SOURCE) == keeper.decide(hellos.view("a1", location="onprem"), {}, 0)
    assert ("onprem", Basis.DERIVED) == keeper.decide(hellos.view("a1"), {}, 1)


def test_a_leader_makes_a_name_when_it_has_listened_in_vain():
    """Two seconds are enough for everybody who is there."""
    keeper = HomeKeeper(NodeName("a1"))
    assert ("", Basis.NONE) == keeper.decide(hellos.view("a1"), {}, 5)
    assert 5 + BIRTH_NS == keeper.deadline()
    assert ("site-a1", Basis.DERIVED) == keeper.decide(hellos.view("a1"), {}, 5 + BIRTH_NS)


def test_a_member_never_makes_a_name():
    """It waits for its leader, however long."""
    keeper = HomeKeeper(NodeName("a3"))
    assert ("", Basis.NONE) == keeper.decide(hellos.view("a3"), {}, 0)
    assert ("", Basis.NONE) == keeper.decide(hellos.view("a3"), {}, 100 * BIRTH_NS)
    assert keeper.deadline() is None
    assert "site-a1" == keeper.decide(hellos.view("a3"), _peers("a1"), 101 * BIRTH_NS)[0]


def test_the_name_survives_a_change_of_leader():
    """The new leader and its members go on as before, and so does one that starts afterwards."""
    leaders = {"a": "a2", "b": "b1"}
    keeper = HomeKeeper(NodeName("a2"), remembered="site-a1")
    newcomer = HomeKeeper(NodeName("a3"))

    assert "site-a1" == keeper.decide(hellos.view("a2", leaders=leaders), {}, 10 * BIRTH_NS)[0]
    peers = _peers("a2", leaders=leaders)
    assert "site-a1" == newcomer.decide(hellos.view("a3", leaders=leaders), peers, 0)[0]


def test_a_new_leader_without_a_memory_takes_its_followers_name():
    """A machine that was installed anew must not rename the site."""
    keeper = HomeKeeper(NodeName("a1"))
    assert "site-a9" == keeper.decide(hellos.view("a1"), _peers("a2", "a3", home="site-a9"), 0)[0]


def test_nodes_of_full_granularity_are_a_location_each():
    """Each leads itself, and follows nobody."""
    keeper = HomeKeeper(NodeName("a2"))
    view = hellos.view("a2", leaders={"a": "a2"}, leader="", granularity="full")
    peers = _peers("a3", seen={"leader": hellos.overlay_ip("a2")})

    keeper.decide(view, peers, 0)
    assert "site-a2" == keeper.decide(view, peers, BIRTH_NS)[0]


def test_a_moved_node_follows_its_leader_after_a_minute():
    """For less, it is an election that is seen from the side."""
    keeper = HomeKeeper(NodeName("a3"), remembered="site-b1")
    view, peers = hellos.view("a3"), _peers("a1")
    assert "site-b1" == keeper.decide(view, peers, 0)[0]
    assert "site-b1" == keeper.decide(view, peers, DISAGREEMENT_NS - 1)[0]
    assert DISAGREEMENT_NS == keeper.deadline()
    assert "site-a1" == keeper.decide(view, peers, DISAGREEMENT_NS)[0]


def test_a_short_disagreement_is_forgotten():
    """The minute begins anew each time."""
    keeper = HomeKeeper(NodeName("a3"), remembered="site-b1")
    keeper.decide(hellos.view("a3"), _peers("a1"), 0)
    keeper.decide(hellos.view("a3", leaders={}), _peers("a1"), DISAGREEMENT_NS // 2)
    assert "site-b1" == keeper.decide(hellos.view("a3"), _peers("a1"), DISAGREEMENT_NS)[0]


def test_members_follow_a_leader_whose_name_comes_from_a_source():
    """Only the leader may reach Kilo's graph; the location must not fall apart when it does."""
    told = _peers("a1", home="onprem", basis=Basis.SOURCE) | _peers("a2", "a3")
    assert {"a1": "onprem", "a2": "onprem", "a3": "onprem"} == place(told)


@pytest.mark.parametrize("basis", [Basis.SOURCE, Basis.OPERATOR])
def test_a_name_that_is_well_founded_follows_nobody(basis):
    """Two names from sources are two locations."""
    told = _peers("a1", home="onprem", basis=Basis.SOURCE) | _peers("a2", home="attic", basis=basis)
    assert {"a1": "onprem", "a2": "attic"} == place(told)


def test_a_node_without_name_and_leader_is_nowhere():
    """Nothing is guessed."""
    assert {} == place(_peers("a3", home=""))


def test_the_tunnel_address_belongs_to_who_leads():
    """Former leaders keep it on a device that is down."""
    former = hellos.hello("a1", leaders={"a": "a2"}, seen={"wireguard_ip": "10.4.0.2"})
    told = {NodeName("a1"): former, NodeName("a2"): hellos.hello("a2", leaders={"a": "a2"})}
    assert "a2" == addresses(told)["10.4.0.2"]
    assert "a1" == addresses(_peers("a1"))["10.4.0.2"]
