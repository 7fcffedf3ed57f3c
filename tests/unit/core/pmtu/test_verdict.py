"""From measured sizes to a name: layer, culprit, direction and the number to configure."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from meshwatchd.core.pmtu.expected_mtu import Misfit
from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.pmtu.verdict import judge
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.faults import Direction, FaultCode, Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import SizeState
from meshwatchd.model.settings import SECOND
from tests.support import cluster_node
from tests.support.lab_mesh import (
    direct_settings,
    direct_snapshot,
    direct_topology,
    planner_of,
    settings_for,
    snapshot_of,
)

NOW = 100 * SECOND


class Case:
    """One node that has measured everything."""

    def __init__(self, name="b3", *, is_direct=False, is_clustered=False):
        if is_clustered:
            settings, snapshot = cluster_node.settings(name), cluster_node.snapshot(name)
            self.planner = Planner(cluster_node.topology(name), settings)
        else:
            settings = direct_settings(name) if is_direct else settings_for(name)
            snapshot = direct_snapshot() if is_direct else snapshot_of(name)
            self.planner = Planner(direct_topology(name), settings) if is_direct else planner_of(name)
        self.watch = SizeWatch(settings)
        list(self.watch.start(self.planner, lay_out(self.planner, has_standby=True), snapshot, NOW))
        for session in self.watch.sessions:
            session.state = SizeState.COMPLETE
            session.both_bytes = session.outbound_bytes = session.goal_bytes
            session.passed_at = NOW

    def limit(self, layer, size, *, peers=(), path=None, outbound=None, may_fragment=False):
        """Let sessions have found a limit."""
        for session in self.watch.sessions:
            plan = session.plan
            is_meant = plan.layer is layer and plan.may_fragment is may_fragment and (not peers or plan.peer in peers)
            if is_meant and path in (None, plan.path):
                session.is_blocked, session.failed_at = True, NOW - SECOND
                session.both_bytes, session.outbound_bytes = size, outbound or size
        return self

    def judge(self):
        """The finding about the lab's pair."""
        topology = self.planner.topology
        return judge(self.watch, topology, topology.local_paths()[0], NOW)


def test_a_healthy_stack_has_no_finding():
    """Every layer carries what it promises."""
    assert Case().judge() is None


@pytest.mark.parametrize(
    ("peers", "culprit"),
    [(("b1",), "b1"), (("b2",), "b2"), ((), "b3")],
)
def test_the_culprit_of_a_segment(peers, culprit):
    """One neighbour: that one. All of them: this node."""
    found = Case().limit(Layer.OVERLAY, 1400, peers=peers).limit(Layer.RELAY, 1400).judge()

    assert (FaultCode.MTU_BLACK_HOLE, Layer.OVERLAY, culprit) == (found.fault, found.layer, found.culprit)
    assert Severity.CRITICAL is found.severity
    assert "configure MTU 1400 on flannel.1, or let 1450 bytes pass below it" == found.because[-1]


@pytest.mark.parametrize(("peers", "culprit"), [(("n2",), "n2"), (("n2", "n3"), "n1")])
def test_what_all_tunnels_of_a_node_lose_is_that_nodes_doing(peers, culprit):
    """Where every node has several; one of them alone is at its other end."""
    found = Case("n1", is_direct=True).limit(Layer.WIREGUARD, 1328, peers=peers).judge()

    assert (FaultCode.MTU_BLACK_HOLE, Layer.WIREGUARD, culprit) == (found.fault, found.layer, found.culprit)


def test_the_lowest_layer_is_named():
    """What the underlay does not carry, nothing above it does."""
    case = Case().limit(Layer.RELAY, 1300).limit(Layer.OVERLAY, 1300, peers=("b1",))
    found = case.limit(Layer.UNDERLAY, 1350, peers=("b1",)).judge()

    assert (Layer.UNDERLAY, "b1") == (found.layer, found.culprit)


@pytest.mark.parametrize(
    ("peers", "layer", "culprit"),
    [(("a1", "a2", "a3"), Layer.WIREGUARD, "a1"), (("a2", "a3"), Layer.OVERLAY, "a1"), (("a3",), Layer.OVERLAY, "a3")],
)
def test_a_member_infers_the_layer_beyond_its_leader(peers, layer, culprit):
    """Its own overlay is innocent: the tunnel, the far overlay, or one far node."""
    found = Case().limit(Layer.RELAY, 1380, peers=peers, path=0).judge()

    assert (layer, culprit) == (found.layer, found.culprit)


def test_a_leader_names_its_tunnel():
    """It has a session of its own there."""
    found = Case("b1").limit(Layer.WIREGUARD, 1380).limit(Layer.RELAY, 1380, path=0).judge()

    assert (Layer.WIREGUARD, "a1") == (found.layer, found.culprit)
    assert "configure MTU 1380 on kilo0, or let 1440 bytes pass below it" == found.because[-1]


def test_a_segment_beside_the_path_in_use_is_a_warning():
    """Nothing that crosses locations is lost."""
    assert Severity.WARNING is Case().limit(Layer.OVERLAY, 1400, peers=("b2",)).judge().severity


@pytest.mark.parametrize(
    ("outbound", "heard", "direction"),
    [(1450, None, Direction.INBOUND), (1400, 1450, Direction.OUTBOUND), (1400, None, Direction.OUTBOUND)],
)
def test_the_direction(outbound, heard, direction):
    """By the reflector's count, and by the peer's own full size that arrives here."""
    case = Case().limit(Layer.OVERLAY, 1400, peers=("b1",), outbound=outbound)
    for session in case.watch.sessions:
        if heard:
            session.heard(heard, NOW)

    assert direction is case.judge().direction


def test_a_limit_that_is_still_searched_is_told_without_a_number():
    """The verdict does not wait for the byte."""
    case = Case().limit(Layer.OVERLAY, 1400, peers=("b1",))
    for session in case.watch.sessions:
        if session.is_blocked:
            session.state = SizeState.SEARCHING

    found = case.judge()
    assert Direction.UNKNOWN is found.direction
    assert "the exact size is being searched" in found.because
    assert not any("configure" in sentence for sentence in found.because)


def test_nobody_is_named_before_all_have_looked():
    """The first black hole that is found need not be the lowest."""
    case = Case().limit(Layer.RELAY, 1300)
    case.watch.settled_at = NOW + 1

    assert case.judge() is None


def test_a_standby_that_carries_less():
    """While the path in use is fine."""
    found = Case().limit(Layer.RELAY, 1300, path=1).judge()

    assert (FaultCode.STANDBY_MTU_SMALLER, Severity.WARNING) == (found.fault, found.severity)
    assert any("1420" in sentence and "b2" in sentence for sentence in found.because)


@pytest.mark.parametrize(
    ("passed_at", "expected"), [(NOW - SECOND + 1, FaultCode.STANDBY_MTU_SMALLER), (NOW - SECOND, None), (-1, None)]
)
def test_a_standby_is_not_blamed_before_the_path_in_use_has_carried_as_much_since(passed_at, expected):
    """What is wrong at a2 itself is found over one path first, and is no matter of that path."""
    case = Case().limit(Layer.RELAY, 1300, path=1, peers=("a2",))
    for session in case.watch.of(Layer.RELAY, 0):
        session.passed_at = NOW if session.plan.peer != "a2" else passed_at
    found = case.judge()

    assert expected is (found and found.fault)


def test_a_device_that_promises_too_much():
    """The number to configure is what is below it, less the overhead."""
    case = Case("b1")
    stack = case.watch.stack
    case.watch.stack = type(stack)(misfits=(Misfit(Layer.WIREGUARD, "kilo0", 1450, 1440),))

    found = case.judge()
    assert (FaultCode.MTU_MISCONFIGURED, "b1") == (found.fault, found.culprit)
    assert "configure MTU 1440 on kilo0" == found.because[-1]


def test_what_everybody_loses_with_a_misfit_is_the_misfits_doing():
    """The own overlay is bigger than what carries it; without a misfit, or with one neighbour, it is another fault."""
    case = Case().limit(Layer.OVERLAY, 1374)
    case.watch.stack = replace(case.watch.stack, misfits=(Misfit(Layer.OVERLAY, "flannel.1", 1450, 1370),))

    found = case.judge()
    assert (FaultCode.MTU_MISCONFIGURED, "b3") == (found.fault, found.culprit)
    assert any("lost on layer overlay" in sentence for sentence in found.because)
    case.watch.stack = replace(case.watch.stack, misfits=(Misfit(Layer.WIREGUARD, "kilo0", 1450, 1440),))
    assert FaultCode.MTU_BLACK_HOLE is case.judge().fault
    case = Case().limit(Layer.OVERLAY, 1374, peers=("b1",))
    case.watch.stack = replace(case.watch.stack, misfits=(Misfit(Layer.OVERLAY, "flannel.1", 1450, 1370),))
    assert (FaultCode.MTU_BLACK_HOLE, "b1") == (case.judge().fault, case.judge().culprit)


def test_a_tunnel_that_outgrows_the_own_device_below_it_is_this_nodes_doing():
    """Somebody made eth0 smaller: the other end is innocent, unless even less is carried than fits here."""
    misfits = (Misfit(Layer.WIREGUARD, "kilo0", 1420, 1320),)
    case = Case("b1").limit(Layer.WIREGUARD, 1334)
    case.watch.stack = replace(case.watch.stack, misfits=misfits)

    found = case.judge()
    assert (FaultCode.MTU_MISCONFIGURED, "b1") == (found.fault, found.culprit)
    assert any("lost on layer wireguard" in sentence for sentence in found.because)
    case = Case("b1").limit(Layer.WIREGUARD, 1200)
    case.watch.stack = replace(case.watch.stack, misfits=misfits)
    assert (FaultCode.MTU_BLACK_HOLE, "a1") == (case.judge().fault, case.judge().culprit)


def test_a_misfit_is_told_while_sizes_are_looked_at():
    """It was found in the devices: the looks that a first black hole has hastened say nothing against it."""
    case = Case().limit(Layer.OVERLAY, 1330)
    case.watch.settled_at = NOW + SECOND
    assert case.judge() is None

    case.watch.stack = replace(case.watch.stack, misfits=(Misfit(Layer.OVERLAY, "flannel.1", 1450, 1330),))
    assert (FaultCode.MTU_MISCONFIGURED, "b3") == (case.judge().fault, case.judge().culprit)


def test_what_all_tunnels_lose_with_a_misfit_is_the_misfits_doing():
    """Where every node has several tunnels, before the exact size is known."""
    case = Case("n1", is_direct=True).limit(Layer.WIREGUARD, 1334)
    device = case.planner.topology.wireguard_device
    case.watch.stack = replace(case.watch.stack, misfits=(Misfit(Layer.WIREGUARD, device, 1420, 1320),))

    assert (FaultCode.MTU_MISCONFIGURED, "n1") == (case.judge().fault, case.judge().culprit)


def test_fragments_that_were_lost_with_whole_packets_accuse_nobody_when_those_pass_again():
    """They are asked again first; lost after that, they are dropped."""
    case = Case().limit(Layer.UNDERLAY, 300, peers=("b1",), may_fragment=True)
    whole, tested = (
        next(
            s
            for s in case.watch.sessions
            if s.plan.layer is Layer.UNDERLAY and s.plan.peer == "b1" and s.plan.may_fragment is may_fragment
        )
        for may_fragment in (False, True)
    )
    tested.missed_at, whole.healed_at = NOW - 2 * SECOND, NOW - SECOND
    assert case.judge() is None

    tested.missed_at = NOW
    assert FaultCode.FRAGMENTS_DROPPED is case.judge().fault


def test_a_poisoned_cache():
    """This kernel believes 1000, probes of full size pass; a limit that once was measured is no lie."""
    case = Case()
    (session,) = [s for s in case.watch.sessions if s.plan.layer is Layer.OVERLAY and s.plan.peer == "b1"]
    session.learned_mtu_bytes = 1000

    found = case.judge()
    assert (FaultCode.MTU_POISONED, Layer.OVERLAY, "b3") == (found.fault, found.layer, found.culprit)
    case.watch._limits.add(1000)
    assert case.judge() is None


def test_dropped_fragments():
    """Whole packets pass, two fragments do not; a black hole of the underlay explains both."""
    case = Case().limit(Layer.UNDERLAY, 300, peers=("b1",), may_fragment=True)

    assert (FaultCode.FRAGMENTS_DROPPED, "b1") == (case.judge().fault, case.judge().culprit)
    assert FaultCode.MTU_BLACK_HOLE is case.limit(Layer.UNDERLAY, 1400, peers=("b1",)).judge().fault


def test_fragments_that_an_oversized_overlay_needs():
    """The overlay carries what fits in one piece, and loses what its device's MTU allows beyond it."""
    case = Case()
    for session in case.watch.sessions:
        if session.plan.layer is Layer.OVERLAY and session.plan.peer == "b1":
            session.goal_bytes, session.both_bytes = 1500, 1450
            session.is_blocked, session.outbound_bytes = True, 1450

    found = case.judge()
    assert (FaultCode.FRAGMENTS_DROPPED, Layer.OVERLAY, "b1") == (found.fault, found.layer, found.culprit)


def test_a_limit_that_icmp_tells_is_no_black_hole():
    """The kernel has learned the very size: TCP adapts, and what is left is a device that promises too much."""
    case = Case().limit(Layer.RELAY, 1350, path=0)
    for session in case.watch.sessions:
        session.learned_mtu_bytes = 1350

    found = case.judge()
    assert (FaultCode.MTU_MISCONFIGURED, Severity.WARNING) == (found.fault, found.severity)
    for session in case.watch.sessions:
        session.learned_mtu_bytes = 1380
    assert FaultCode.MTU_BLACK_HOLE is case.judge().fault


def test_while_the_limit_is_searched_a_kernel_that_has_heard_of_one_is_given_time():
    """It may have heard the truth, which the search will tell."""
    case = Case().limit(Layer.RELAY, 1350, path=0)
    for session in case.watch.sessions:
        if session.is_blocked:
            session.learned_mtu_bytes, session.state = 1350, SizeState.SEARCHING

    assert case.judge() is None


@pytest.mark.parametrize(("peers", "culprit"), [(("w1",), "w1"), (("w1", "w2", "w3"), "")])
def test_what_nodes_of_another_cluster_lose_is_not_the_first_ones_doing(peers, culprit):
    """It stands for its cluster by name, and relays nothing."""
    found = Case("e1", is_clustered=True).limit(Layer.RELAY, 1300, peers=peers, path=0).judge()

    assert (Layer.OVERLAY, culprit) == (found.layer, found.culprit)
