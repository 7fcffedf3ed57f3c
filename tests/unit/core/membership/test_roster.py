"""From hellos to a mesh in time: swarms settle, the dead stay, the forgotten go, and nothing is lost by a reboot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from meshwatchd.core.membership.cadence import SILENT_NS
from meshwatchd.core.membership.leader import SETTLE_NS
from meshwatchd.core.membership.location import BIRTH_NS
from meshwatchd.core.membership.roster import (
    ESTABLISHED_NS,
    FIRST_LIMIT_NS,
    FIRST_QUIET_NS,
    LIMIT_NS,
    MAX_NODES,
    QUIET_NS,
    Roster,
)
from meshwatchd.model.discovery import Candidate, Finding, Hello
from meshwatchd.model.settings import MINUTE, MS, SECOND, DaemonSettings, DiscoverySettings, MeshSettings, Settings
from tests.support import hellos
from tests.support.lab_mesh import declared_mesh

NAMES = ("a1", "a2", "a3", "b1", "b2", "b3")
OTHERS = NAMES[1:]


def _roster(settings, **more) -> Any:
    """Its mesh and its hello are asked for only where they must be there."""
    return Roster(settings, **more)


def _settings(node="a1", mesh=None, **discovery):
    return Settings(
        daemon=DaemonSettings(node=node), mesh=mesh or MeshSettings(), discovery=DiscoverySettings(**discovery)
    )


def _advance(roster, now, until):
    """Let time pass from deadline to deadline; returns the instants at which the mesh changed."""
    changes: list[int] = []
    for _ in range(500):
        due = roster.deadline()
        if due is None or due > until:
            return changes
        now = max(now, due)
        if roster.own is not None:
            roster.tell(roster.own, now)
        if roster.review(now):
            changes.append(now)
    raise AssertionError("a deadline that is met has to pass")


def _started(node="a1", **discovery):
    """A roster that has heard the others and come to a mesh."""
    roster = _roster(_settings(node, **discovery), former=hellos.hello(node))
    roster.tell(hellos.hello(node), 0)
    for name in NAMES:
        roster.hear(hellos.hello(name), 0)
    _advance(roster, 0, FIRST_LIMIT_NS)
    assert roster.mesh is not None
    return roster


def _leader(roster, location="site-a1"):
    return next(each.leader for each in roster.mesh.location if each.name == location)


def _standbys(roster, location="site-a1"):
    return next(each.standbys for each in roster.mesh.location if each.name == location)


def test_a_mesh_is_told_when_nothing_has_changed_for_a_moment():
    """Six daemons that start together are one change, not five."""
    roster = _roster(_settings(), former=hellos.hello("a1"))
    roster.tell(hellos.hello("a1"), 0)
    changes: list[int] = []
    for number, name in enumerate(OTHERS, 1):
        at = number * 300 * MS
        changes += _advance(roster, at - 300 * MS, at)
        roster.hear(hellos.hello(name), at)
        roster.review(at)
    changes += _advance(roster, 1500 * MS, 20 * SECOND)

    assert [1500 * MS + FIRST_QUIET_NS] == changes
    assert 6 == len(roster.mesh.node)


def test_a_single_location_is_told_when_nobody_else_turns_up():
    """A mesh of one location has paths to nobody, but its overlay is watched."""
    roster = _roster(_settings(), former=hellos.hello("a1"))
    roster.tell(hellos.hello("a1"), 0)
    roster.hear(hellos.hello("a2"), 0)

    assert [FIRST_LIMIT_NS] == _advance(roster, 0, 20 * SECOND)


def test_a_new_mesh_gets_a_name_without_anybody_having_one():
    """The first start of all: the leader names its location, and its members follow."""
    roster = _roster(_settings())
    roster.tell(hellos.hello("a1"), 0)
    _advance(roster, 0, BIRTH_NS)

    assert "site-a1" == roster.own.home
    member = _roster(_settings("a3"))
    member.tell(hellos.hello("a3", home=""), 0)
    member.hear(roster.own, 1)
    member.tell(hellos.hello("a3", home=""), 1)
    assert "site-a1" == member.own.home


def test_a_repeated_hello_is_no_news_and_costs_nothing():
    """A thousand nodes repeat themselves twice a minute."""
    roster = _started()

    assert not roster.hear(hellos.hello("b1"), 30 * SECOND)
    assert not roster.review(30 * SECOND)
    assert not roster.tell(hellos.hello("a1"), 30 * SECOND)


def test_a_change_of_leader_is_followed_within_a_second():
    """The member says so, the new leader says so, the old one has stopped to say so."""
    roster, at = _started("b3"), 60 * SECOND
    leaders = {"a": "a2", "b": "b1"}
    for name in ("a1", "a2", "a3"):
        # A former leader goes on telling its address on the tunnel, until it is no relay.
        seen = {"wireguard_ip": "10.4.0.2"} if name == "a1" else {}
        roster.hear(hellos.hello(name, leaders=leaders, seen=seen), at)
    roster.review(at)
    (changed_at,) = _advance(roster, at, at + 20 * SECOND)

    assert SETTLE_NS <= changed_at - at < SECOND
    assert ("a2", ("a1",)) == (_leader(roster), _standbys(roster))
    assert "site-a1" == roster.mesh.location[0].name


def test_the_restart_transient_of_the_agent_changes_nothing():
    """kilo0 is down for 0.2 s on its leader; even the address on it is missing for that long."""
    roster, at = _started("a1"), 60 * SECOND
    before = roster.mesh
    down = hellos.view("a1", is_leader=False, wireguard_ip="", leader="")
    roster.tell(hellos.hello("a1", leads_since_ns=0), at)
    roster.tell(msgspec.structs.replace(hellos.hello("a1"), view=down), at)
    roster.review(at)
    roster.tell(hellos.hello("a1"), at + 200 * MS)

    assert [] == _advance(roster, at + 200 * MS, at + 20 * SECOND)
    assert before == roster.mesh


def test_a_dead_node_stays_until_it_is_forgotten():
    """A dead node is a fault; one that is silent for three days was removed."""
    roster = _started("a1", forget=10 * MINUTE)
    _advance(roster, 0, 9 * MINUTE)
    assert 6 == len(roster.mesh.node)

    for name in ("a2", "a3", "b1", "b2"):
        roster.hear(hellos.hello(name), 9 * MINUTE)
    _advance(roster, 9 * MINUTE, 12 * MINUTE)
    assert ["a1", "a2", "a3", "b1", "b2"] == [node.name for node in roster.mesh.node]


def test_a_node_is_unheard_once_its_hellos_are_overdue_and_others_are_heard():
    """A node that hears nobody may be at fault itself; one that was never heard is not known to be dead."""
    roster = _started("a1")
    assert frozenset() == roster.unheard(SILENT_NS)
    assert frozenset() == roster.unheard(SILENT_NS + 1), "nobody is heard"

    for name in OTHERS[1:]:
        roster.hear(hellos.hello(name), SILENT_NS)
    assert frozenset() == roster.unheard(SILENT_NS)
    assert {"a2"} == roster.unheard(SILENT_NS + 1)
    later = SILENT_NS + 36 * SECOND
    assert frozenset() == roster.unheard(later), "the others have been silent for longer than one greeting as well"
    roster.hear(hellos.hello("a2"), later)
    assert frozenset() == roster.unheard(later)


def test_a_node_that_an_earlier_process_has_heard_is_unheard_when_this_one_has_listened_for_long():
    """The daemon was stopped for an hour: all nodes are silent until they have had time to greet."""
    roster, began = _roster(_settings(), former=hellos.hello("a1")), 3600 * SECOND
    for name in ("a2", "a3"):
        roster.restore(hellos.hello(name), 0)
    assert frozenset() == roster.unheard(began)
    roster.tell(hellos.hello("a1"), began)
    roster.hear(hellos.hello("a3"), began + SILENT_NS)

    assert frozenset() == roster.unheard(began + SILENT_NS)
    assert {"a2"} == roster.unheard(began + SILENT_NS + 1)


def test_a_silent_backup_is_replaced_and_comes_back():
    """A standby path over a dead relay protects nobody."""
    roster = _started("a1")
    for at in (0, 60 * SECOND):
        for name in ("a3", "b1", "b2", "b3"):
            roster.hear(hellos.hello(name), at)
    _advance(roster, 60 * SECOND, SILENT_NS + 10 * SECOND)
    assert ("a3",) == _standbys(roster)

    roster.hear(hellos.hello("a2"), SILENT_NS + 10 * SECOND)
    _advance(roster, SILENT_NS + 10 * SECOND, SILENT_NS + 20 * SECOND)
    assert ("a2",) == _standbys(roster)


def test_a_rebooted_node_knows_the_mesh_with_everybody_down():
    """No peer answers, and even its own overlay is not up yet."""
    before = _started("a1")
    roster = _roster(_settings(), former=before.own, leaders=before.leaders)
    for heard in before.peers.values():
        roster.restore(heard.hello, -10 * SECOND)
    bare = msgspec.structs.replace(
        hellos.view("a1"), profiles=(), pod_cidr="", overlay_ip="", overlay_device="", is_leader=False, leader=""
    )
    roster.tell(Hello(view=bare, mode="enforce", standby_public_key=hellos.KEYS["a1"]), 0)

    assert roster.review(0)
    assert [node.name for node in before.mesh.node] == [node.name for node in roster.mesh.node]
    assert "flannel.1" == roster.mesh.overlay_device


@pytest.mark.parametrize(("is_shown", "lasts"), [(True, "10.244.1.0/24"), (False, "")])
def test_pods_that_a_kernel_has_shown_last_and_those_of_an_agent_end_with_it(is_shown, lasts):
    """In memory and on disk: what an agent has said of prefixes must not outlive it."""
    roster = _roster(_settings(), former=hellos.hello("a1", seen={"is_pod_cidr_in_kernel": is_shown}))
    for now in (0, SECOND):
        bare = hellos.view("a1", pod_cidr="", is_pod_cidr_in_kernel=False)
        roster.tell(Hello(view=bare, mode="enforce", standby_public_key=hellos.KEYS["a1"]), now)
        told = roster.own.view
        assert (lasts, is_shown) == (told.pod_cidr, told.is_pod_cidr_in_kernel)


def test_pods_that_a_kernel_has_shown_last_when_their_bridge_is_gone_and_an_agent_goes_on_saying_so():
    """A bridge that was deleted is a fault of this node, and then a route that is wrong another one."""
    roster = _started("a1")
    for pods in ("10.244.1.0/24", ""):
        roster.tell(hellos.hello("a1", seen={"pod_cidr": pods, "is_pod_cidr_in_kernel": False}), SECOND)
        assert ("10.244.1.0/24", True) == (roster.own.view.pod_cidr, roster.own.view.is_pod_cidr_in_kernel)
    roster.tell(hellos.hello("a1", seen={"pod_cidr": "10.99.0.0/24", "is_pod_cidr_in_kernel": False}), SECOND)
    assert ("10.99.0.0/24", False) == (roster.own.view.pod_cidr, roster.own.view.is_pod_cidr_in_kernel)


FOUR, FIVE = ["site-a1", "site-b1", "x", "y"], ["added", "site-a1", "site-b1", "x"]


def _of_four():
    """A node of a mesh of as many locations as can be watched; all go on telling."""
    roster = _started("a1")
    for number, home in enumerate(("x", "y")):
        roster.hear(hellos.lone(number, home), FIRST_LIMIT_NS)
    _advance(roster, FIRST_LIMIT_NS, FIRST_LIMIT_NS + 5 * SECOND)
    assert FOUR == _locations(roster)
    return roster


def _locations(roster):
    return [location.name for location in roster.mesh.location]


@pytest.mark.parametrize(("after_ns", "expected"), [(MINUTE, FIVE), (ESTABLISHED_NS + MINUTE, FOUR)])
def test_a_fifth_location_pushes_out_none_that_is_established(after_ns, expected):
    """In the first minutes it is chance who was heard first: then all go by the names."""
    roster = _of_four()
    _advance(roster, FIRST_LIMIT_NS + 5 * SECOND, after_ns)
    roster.hear(hellos.lone(2, "added"), after_ns)
    _advance(roster, after_ns, after_ns + MINUTE)

    assert expected == _locations(roster)


def test_what_was_established_is_so_after_a_restart():
    """The fifth is known from the beginning."""
    before = _of_four()
    _advance(before, FIRST_LIMIT_NS + 5 * SECOND, ESTABLISHED_NS + MINUTE)
    roster = _roster(_settings(), former=before.own, leaders=before.leaders, watched=before.watched)
    for heard in before.peers.values():
        roster.restore(heard.hello, -10 * SECOND)
    roster.hear(hellos.lone(2, "added"), 0)
    roster.tell(hellos.hello("a1"), 0)
    _advance(roster, 0, FIRST_LIMIT_NS + MINUTE)

    assert FOUR == _locations(roster)


def test_the_last_good_mesh_stays_when_nothing_can_be_told_any_more():
    """Losing knowledge must not stop the watching."""
    roster = _started("a1")
    before = roster.mesh
    roster._former = None
    roster.tell(hellos.hello("a1", seen={"pod_cidr": ""}), 60 * SECOND)

    assert not roster.review(60 * SECOND)
    assert before == roster.mesh
    assert any("pod_cidr" in problem for problem in roster.problems)


def test_a_device_that_vanished_leaves_the_node_in_the_mesh():
    """A node whose overlay is gone has a fault, and must be seen to have it."""
    roster = _started("a1")
    roster.tell(hellos.hello("a1", seen={"overlay_ip": "", "overlay_device": "", "pod_cidr": ""}), 60 * SECOND)

    assert ("10.244.1.0", "flannel.1") == (roster.own.view.overlay_ip, roster.own.view.overlay_device)


def test_a_forbidden_node_is_not_heard():
    """Whatever it says, and whatever was kept of it."""
    roster = _roster(_settings("a1", forbid=("b3",)))
    roster.restore(hellos.hello("b3"), 0)

    assert not roster.hear(hellos.hello("b3"), 0)
    assert not roster.hear(hellos.hello("a1"), 0)
    assert {} == roster.peers


def test_a_declared_mesh_is_taken_as_it_is():
    """From the first moment, and whatever is heard."""
    declared = declared_mesh()
    roster = _roster(_settings("a1", mesh=declared))
    assert declared == roster.mesh
    roster.tell(hellos.hello("a1"), 0)
    roster.hear(hellos.hello("b3", leaders={"b": "b3"}), 0)

    assert [] == _advance(roster, 0, 20 * SECOND)
    assert declared == roster.mesh


def test_what_is_another_nodes_own_business_is_not_kept():
    """Neither of what is heard nor of what an earlier version has kept; nothing else bounds it."""
    more = {
        "candidates": (Candidate(address=""),) * 92,
        "why": (Finding(source="", text=""),),
        "contradictions": ("",),
    }
    wordy, roster = hellos.hello("b1", seen=more), _roster(_settings())
    assert roster.hear(wordy, 0)
    assert hellos.hello("b1") == roster.peers["b1"].hello
    assert not roster.hear(wordy, 1)
    roster.restore(wordy, 0)
    assert hellos.hello("b1") == roster.peers["b1"].hello


def test_nodes_are_bounded():
    """Whoever holds the key may invent names; memory is not theirs."""
    roster = _roster(_settings())
    for number in range(MAX_NODES + 5):
        roster.hear(hellos.hello("b1", seen={"node": f"n{number}"}), 0)

    assert MAX_NODES == len(roster.peers)
    assert f"n{MAX_NODES}" not in roster.peers


def test_a_newcomer_takes_the_place_of_who_has_been_silent_for_longest():
    """Nodes that come and go fill the roster long before they are forgotten; the living are not pushed out."""
    roster = _roster(_settings())
    for number in range(MAX_NODES):
        roster.hear(hellos.hello("b1", seen={"node": f"n{number}"}), number)
    roster.hear(hellos.hello("b1", seen={"node": "n0"}), SILENT_NS)

    assert not roster.hear(hellos.hello("b1", seen={"node": "early"}), SILENT_NS + 1)
    assert roster.hear(hellos.hello("b1", seen={"node": "late"}), SILENT_NS + 2)
    assert {"n0", "late"} <= roster.peers.keys()
    assert "n1" not in roster.peers


@pytest.mark.parametrize("pin", [{"location": "cellar"}, {}])
def test_the_pinned_location_is_told(pin):
    """Members of a pinned leader follow its word."""
    roster = _roster(_settings("a1", **pin), former=hellos.hello("a1"))
    roster.tell(hellos.hello("a1"), 0)

    assert pin.get("location", "site-a1") == roster.own.home


def test_changes_that_never_end_are_told_at_the_limit():
    """A mesh under construction is watched as it is."""
    roster, at, changes = _started("a1"), 60 * SECOND, []
    for number in range(20):
        at += QUIET_NS // 2
        roster.hear(hellos.hello("b3", seen={"overlay_ip": f"10.99.{number}.0"}), at)
        if roster.review(at):
            changes.append(at)

    assert changes
    assert LIMIT_NS >= changes[0] - 60 * SECOND - QUIET_NS
