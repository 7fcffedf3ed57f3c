"""Where the overlay stands on the tunnel: which end is at fault, and whether a silent node is dead."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import classify
from meshwatchd.core.diagnosis.evidence import Beside, BulkPlaces, Leg
from meshwatchd.model.faults import FaultCode
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LONE_LEADER

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN
DIRECT = replace(LONE_LEADER, wireguard=ALIVE)


@pytest.mark.parametrize(("elsewhere", "culprit"), [(DEAD, "b1"), (ALIVE, "a1"), (UNKNOWN, "a1")])
@pytest.mark.parametrize("pinned", [ALIVE, DEAD])
def test_an_overlay_that_is_dead_to_all_at_once_is_this_nodes(elsewhere, culprit, pinned):
    """A node whose own overlay died accused each of its peers in turn."""
    verdict = classify(replace(DIRECT, pinned=pinned, beside=Beside(overlays=elsewhere)))

    assert culprit == verdict.culprit
    assert verdict.fault in (FaultCode.OVERLAY_BLACK_HOLE, FaultCode.OVERLAY_NEW_FLOWS)
    assert (elsewhere is DEAD) == ("overlay flows to all other nodes die as well" in verdict.because)


@pytest.mark.parametrize(
    ("outside", "has_outside", "fault"),
    [
        (DEAD, True, FaultCode.LEADER_DEAD),
        (UNKNOWN, False, FaultCode.LEADER_DEAD),
        (UNKNOWN, True, FaultCode.UNDETERMINED),
        (ALIVE, True, FaultCode.WIREGUARD_BLOCKED),
    ],
)
def test_whom_every_tunnel_misses_is_dead_unless_its_host_answers_outside(outside, has_outside, fault):
    """A blocked port and a dead node look alike from every tunnel; one that may yet answer is waited for."""
    beside = Beside(tunnels=ALIVE, outside=outside, has_outside=has_outside)
    verdict = classify(replace(LONE_LEADER, remote_view_leader=DEAD, beside=beside))

    assert fault is verdict.fault
    assert verdict.culprit == ("" if fault is FaultCode.UNDETERMINED else "a1")
    is_admitted = any("it would look the same" in sentence for sentence in verdict.because)
    assert is_admitted == (fault is FaultCode.LEADER_DEAD and not has_outside)


@pytest.mark.parametrize(
    ("view", "outside", "inbound"), [(ALIVE, ALIVE, UNKNOWN), (DEAD, DEAD, UNKNOWN), (UNKNOWN, UNKNOWN, ALIVE)]
)
def test_a_tunnel_that_carries_known_flows_is_not_blocked(view, outside, inbound):
    """A full table of connections drops new flows to the tunnel's address too: the tunnel was called blocked."""
    beside = Beside(tunnels=ALIVE, outside=outside, has_outside=outside is not UNKNOWN)
    full = replace(LONE_LEADER, pinned=ALIVE, remote_view_leader=view, beside=beside, inbound=inbound)
    verdict = classify(full)

    assert (FaultCode.OVERLAY_NEW_FLOWS, "a1") == (verdict.fault, verdict.culprit)
    assert "the tunnel to a1 loses new flows as well" in verdict.because


@pytest.mark.parametrize(
    ("silent", "answering", "fault", "culprit"),
    [
        ((("dns", "d1"),), (), FaultCode.PROBES_ONLY, "b3"),
        ((("dns", "d1"),), ("web",), FaultCode.POD_UNREACHABLE, "a3"),
        ((), (), FaultCode.POD_UNREACHABLE, "a3"),
    ],
)
def test_a_node_that_finds_nobodys_pods_is_what_they_have_in_common(silent, answering, fault, culprit):
    """Each location has one pod to ask: only all locations together tell a middlebox from a dead pod."""
    beside = Beside(silent=silent, answering=answering)
    verdict = classify(replace(HEALTHY, is_node_to_node=True, silent_canaries=(("web", "a3"),), beside=beside))

    assert (fault, culprit) == (verdict.fault, verdict.culprit)


@pytest.mark.parametrize(
    ("tunnels", "is_direct", "culprit"), [(ALIVE, True, "a1"), (DEAD, True, ""), (ALIVE, False, "")]
)
def test_who_takes_no_probes_is_the_end_that_others_are_not(tunnels, is_direct, culprit):
    """Traffic passes, probes to one node alone do not; where others relay, it may be any of them."""
    deaf = replace(
        LONE_LEADER,
        is_node_to_node=is_direct,
        pinned=DEAD,
        own_loop=ALIVE,
        answering_canaries=("web",),
        beside=Beside(tunnels=tunnels),
    )

    assert (FaultCode.PROBE_PORT_BLOCKED, culprit) == (classify(deaf).fault, classify(deaf).culprit)


@pytest.mark.parametrize("awaited", [(), (("dns", "c1"),)])
def test_full_segments_that_others_have_yet_to_get_name_nobody(awaited):
    """Here, beside this pair, or at neither: only then the one that is lost is the only one."""
    web, others = (("web", "a3"),), BulkPlaces(carried=(("lead", "a1"),), awaited=awaited)
    beside = replace(HEALTHY, is_node_to_node=True, bulk=BulkPlaces(lost=web), beside=Beside(bulk=others))
    here = replace(HEALTHY, bulk=replace(others, lost=web))

    assert {FaultCode.NONE if awaited else FaultCode.OFFLOAD_FAULT} == {classify(each).fault for each in (beside, here)}
