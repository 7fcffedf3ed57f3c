"""From sessions and legs to evidence."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.legs import leg
from meshwatchd.core.diagnosis.pair_evidence import RECENT_NS
from meshwatchd.core.diagnosis.peer_views import KEY_NEWS_NS, KEY_PROOF_NS, View, encode
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.events import Banner, OtherKeySeen
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.settings import MS, SECOND
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World
from tests.support.bench import RTT_NS, Bench, primary_is_silent, ready
from tests.support.lab_mesh import direct_settings, direct_snapshot

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("a1", {0: {"b2", "b3"}, 1: {"b3"}, 2: set(), 3: set(), 4: {"b2", "b3"}}),
        ("a3", {0: {"b2", "b3"}, 1: {"b3"}, 2: {"b2", "b3"}, 3: {"b3"}, 4: {"b2", "b3"}}),
        ("b1", {0: {"a2", "a3"}, 1: set(), 2: {"a3"}, 3: set(), 4: {"a2", "a3"}}),
    ],
)
def test_a_path_is_judged_by_the_nodes_beyond_its_relay(name, groups):
    """The relay's own answers do not need its forwarding."""
    watch = ready(name).controller.watch

    assert groups == {path.rank: {s.plan.peer for s in watch.group(path).sessions} for path in watch.paths}


def test_each_session_feeds_the_group_of_its_path_only():
    """Fresh and known flows of a path judge it; segments and effective probes explain, they do not condemn."""
    bench = ready("a3")
    watch = bench.controller.watch
    for session in bench.engine.state.schedule.sessions:
        judges = [group for group in watch.groups.values() if session in (*group.sessions, *group.controls)]

        assert judges == list(watch.groups_of(session))
        assert not judges or (session.plan.layer is Layer.RELAY and judges == [watch.groups[session.plan.path]])
    for group in watch.groups.values():
        assert {FlowClass.FRESH} >= {session.plan.flow for session in group.sessions}
        assert {FlowClass.PINNED} >= {session.plan.flow for session in group.controls}


@pytest.mark.parametrize(("name", "roles"), [("a1", (True, "a1", "b1")), ("b3", (False, "b1", "a1"))])
def test_a_pair_knows_its_two_leaders(name, roles):
    """From either side."""
    watch = ready(name).controller.watch

    assert roles == (watch.is_leader, watch.own_leader, watch.remote_leader)


def test_what_could_replace_a_path_and_what_explains_it_are_asked_apart():
    """Every other path and the own voice; the layers below the path and its relay."""
    watch = ready("a3").controller.watch
    group, replacing, explaining = watch.group(watch.primary), watch.replacing(watch.primary), watch.explaining()

    assert {(0, "b2"), (0, "b3")} == {(s.plan.path, s.plan.peer) for s in group.sessions}
    assert {Layer.SELF, Layer.RELAY} == {s.plan.layer for s in replacing}
    assert {1, 2, 3} == {s.plan.path for s in replacing if s.plan.layer is Layer.RELAY}
    assert {Layer.UNDERLAY, Layer.OVERLAY, Layer.RELAY} == {s.plan.layer for s in explaining}
    assert not {id(s) for s in (*replacing, *explaining)} & {id(s) for s in group.sessions}


def test_a_burst_asks_neighbours_that_tell_of_the_leader_and_of_this_node():
    """In a large location all of them would be a flood: a member asks its relays and two more, its leader six."""
    world = World(mesh=mesh_of((Shape(1, 10), Shape(1, 1))), engines=("a1", "a7"))
    world.run(SECOND)
    leader, member = (world.nodes[name].controller.watch for name in ("a1", "a7"))

    near = {name: {str(s.plan.peer) for s in each.nearby} - {"b1"} for name, each in (("a1", leader), ("a7", member))}
    assert {"a1", "a2"} <= near["a1"] & near["a7"]
    assert (1 + 6, 3 + 2) == (len(near["a1"]), len(near["a7"]))
    assert {Layer.SELF, Layer.UNDERLAY, Layer.OVERLAY} == {s.plan.layer for s in member.nearby}


def test_the_link_between_the_leaders_is_asked_when_no_other_standby_answers():
    """It is the last that is taken: while another is good, its slow sessions are left in peace."""
    bench = ready("a3")
    watch = bench.controller.watch

    def over():
        return {s.plan.path for s in watch.replacing(watch.primary) if s.plan.layer is Layer.RELAY}

    assert {1, 2, 3} == over()
    bench.silent = lambda plan: plan.path in (1, 2, 3)
    bench.run(4 * SECOND)
    assert {1, 2, 3, 4} == over()
    bench.silent = lambda plan: plan.path in (1, 2)
    bench.run(3 * SECOND)
    assert {1, 2, 3} == over()


@pytest.mark.parametrize("name", ["a1", "a3"])
def test_relays_are_told_over_the_ordinary_paths(name):
    """The link between the leaders reaches nobody whom the others do not."""
    assert 4 not in {session.plan.path for session in ready(name).controller.watch.to_deciders}


def test_in_health_every_leg_of_a_member_is_alive():
    """And those a member does not have are unknown."""
    evidence = _evidence(ready("a3"))

    assert {ALIVE} == {evidence.path, evidence.path_to_relay, evidence.underlay, evidence.overlay, evidence.pinned}
    assert {UNKNOWN} == {evidence.wireguard, evidence.members_overlay, evidence.own_view_wireguard}
    assert ((), False, True) == (evidence.silent_nodes, evidence.is_active_down, evidence.is_anything_alive)


def test_in_health_every_leg_of_a_leader_is_alive():
    """It looks at its members instead of at itself."""
    evidence = _evidence(ready("a1"))

    assert {ALIVE} == {evidence.path, evidence.wireguard, evidence.members_overlay, evidence.members_underlay}
    assert {UNKNOWN} == {evidence.underlay, evidence.overlay}


def test_during_a_fault_only_what_came_since_counts():
    """The path is dead; the layers below answer probes of the burst."""
    bench = ready("a3")
    bench.silent = primary_is_silent
    bench.run(SECOND)
    evidence = _evidence(bench)

    assert (DEAD, DEAD, DEAD) == (evidence.path, evidence.path_to_relay, evidence.pinned)
    assert (ALIVE, ALIVE) == (evidence.underlay, evidence.overlay)


def test_one_silent_node_is_named():
    """Its neighbours answer over the same path."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.peer == "b3"
    bench.run(3 * SECOND)

    assert ("b3",) == _evidence(bench).silent_nodes


def test_a_silent_node_that_signs_with_another_key_is_told_apart():
    """b2 answers nothing while its packets arrive; of nodes that answer, or are not probed, the claim means nothing."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.peer == "b2"
    # Answers are still on their way when it falls silent.
    bench.run(RTT_NS + RECENT_NS + MS)
    for peer in ("b2", "b3", "nobody"):
        bench.feed(OtherKeySeen(peer=NodeName(peer), key_id=7))
    assert () == _evidence(bench).mismatched_nodes
    bench.run(KEY_PROOF_NS)
    for peer in ("b2", "b3", "nobody"):
        bench.feed(OtherKeySeen(peer=NodeName(peer), key_id=7))

    assert ("b2",) == _evidence(bench).mismatched_nodes
    bench.run(KEY_NEWS_NS + 1)
    assert () == _evidence(bench).mismatched_nodes


def test_a_silent_remote_leader_is_named_while_its_path_is_good():
    """Its daemon is gone, its forwarding is not."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.peer == "b1"
    bench.run(3 * SECOND)

    assert ("b1",) == _evidence(bench).silent_nodes


def test_a_leader_tells_of_tunnel_and_members_and_a_member_of_its_leader():
    """What each is the best witness of."""
    assert {View.RELAY_PATH, View.WIREGUARD, View.MEMBERS_OVERLAY} == {view for _, view in _legs(ready("a1"))}
    assert {View.RELAY_PATH, View.LEADER_UNDERLAY, View.LEADER_IPIP} == {view for _, view in _legs(ready("a2"))}


@pytest.mark.parametrize(
    ("misses", "has_moved", "expected"),
    [(3, True, UNKNOWN), (4, True, DEAD), (4, False, UNKNOWN), (7, False, UNKNOWN), (8, False, DEAD)],
)
def test_a_leader_accuses_its_overlay_on_more_than_bad_luck(misses, has_moved, expected):
    """Its own path is fine: nothing else speaks for the accusation, but that others have made traffic leave the path.

    Four misses of each of two members come about by chance within hours where 5 % of all packets are lost.
    """
    bench = ready("b1")
    for session in bench.controller.watch.members_overlay:
        for _ in range(misses):
            session.cusum.miss(bench.now)

    assert expected is bench.controller.watch._members_leg(0, has_moved=has_moved)


def test_while_members_miss_their_ipip_leg_the_overlay_is_alive_only_by_later_answers():
    """What it answered before says nothing about now."""
    bench = ready("b1")
    up, known = encode({(0, View.LEADER_IPIP): DEAD})
    for peer in ("b2", "b3"):
        bench.hear(peer, None, Banner(view_up=up, view_known=known, active=(bench.controller.active,)))
        bench.banners[peer] = Banner(view_up=up, view_known=known, active=(bench.controller.active,))
    evidence = _evidence(bench)
    assert (DEAD, UNKNOWN) == (evidence.members_ipip, evidence.members_overlay)

    bench.run(3 * SECOND)
    assert (DEAD, ALIVE) == (_evidence(bench).members_ipip, _evidence(bench).members_overlay)


def _legs(bench):
    return bench.controller.watch.legs(bench.controller.mover.active)


def _evidence(bench):
    return bench.controller.diagnosis.evidence(bench.now)


@pytest.mark.parametrize(("nats_of", "expected"), [(0, ALIVE), (1, DEAD), (3, DEAD)])
def test_the_others_are_told_of_doubt_before_it_is_certain(nats_of, expected):
    """One miss out of nowhere: a reason for them to look, long before this node may condemn anything."""
    bench = ready("a3")
    watch = bench.controller.watch
    group = watch.group(watch.primary)
    for session in (group.sessions * 3)[:nats_of]:
        group.observe(session, Outcome.MISS, bench.now)

    assert expected is _legs(bench)[0, View.RELAY_PATH]


@pytest.mark.parametrize(("path", "expected"), [(0, ALIVE), (1, UNKNOWN)])
def test_what_arrives_by_a_standby_is_no_sign_of_life_of_the_tunnel(path, expected):
    """A blocked tunnel was called a break of one direction, since the far nodes' probes came in over standby links."""
    bench = ready("a1")
    watch, since = bench.controller.watch, bench.now + 10 * SECOND
    for at in range(bench.now, since + 3 * SECOND, 300 * MS):
        for peer in ("b2", "b3"):
            watch.note_heard(peer, Layer.RELAY, path, at)

    assert expected is watch._inbound(since, since + 3 * SECOND)


@pytest.mark.parametrize(("is_back", "expected"), [(False, ALIVE), (True, UNKNOWN)])
def test_a_tunnel_that_comes_back_is_not_broken_one_way(is_back, expected):
    """A leader that was paused was accused of it when it went on: the three seconds that count began before."""
    bench = ready("a1")
    watch = bench.controller.watch
    bench.silent = lambda plan: plan.layer in {Layer.RELAY, Layer.WIREGUARD}
    since = bench.now
    bench.run(2 * SECOND)
    if is_back:
        bench.silent = lambda plan: plan.layer is Layer.RELAY
        bench.run(200 * MS)
    for at in range(since - 10 * SECOND, bench.now, 300 * MS):
        watch.note_heard("b2", Layer.RELAY, 0, at)

    assert DEAD is leg(watch.wireguard, since)
    assert expected is watch._inbound(since, bench.now)


def test_a_kubelet_on_the_tunnel_refutes_nothing_about_the_overlay():
    """Its address is wg0's; a pod's canary crosses flannel.1 as the probes of the path do."""
    bench = Bench("n1", settings=direct_settings("n1"), snapshot=direct_snapshot())
    bench.run(2 * SECOND)
    watch = bench.engine.state.controllers[0].watch
    behind = watch._behind(watch.primary)
    (one, *_) = (plan for plan in bench.plans.values() if plan.peer == "n2")

    assert not watch._refutes(behind, msgspec.structs.replace(one, destination="10.8.0.2"))
    assert watch._refutes(behind, msgspec.structs.replace(one, destination="10.42.2.7"))
    assert not watch._refutes(behind, msgspec.structs.replace(one, peer=NodeName("n3"), destination="10.42.3.7"))


@pytest.mark.parametrize(("is_active_bad", "expected"), [(False, DEAD), (True, UNKNOWN)])
def test_a_node_that_reaches_nobody_by_any_path_accuses_none(is_active_bad, expected):
    """On path 1, which is as silent as the primary path: that is this node, and the others may go back."""
    bench = ready("a3")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.silent = lambda plan: plan.layer is Layer.RELAY and (plan.path == 0 or (is_active_bad and plan.path == 1))
    bench.run(SECOND)

    assert bench.controller.mover.active.rank == 1
    assert expected is _legs(bench)[0, View.RELAY_PATH]
