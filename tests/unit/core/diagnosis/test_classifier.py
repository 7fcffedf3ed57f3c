"""The table of verdicts: a case for every rule that hits it and only it, and what is added afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields, replace

from meshwatchd.core.diagnosis.classifier import Evidence, Leg, classify, explains
from meshwatchd.core.diagnosis.evidence import (
    OF_OTHERS,
    Beside,
    BulkPlaces,
    PodNetwork,
    PodTraffic,
    ServiceTrouble,
)
from meshwatchd.core.diagnosis.path_rules import is_alone
from meshwatchd.core.diagnosis.predicates import own_overlay_lost
from meshwatchd.core.diagnosis.rules import TABLE
from meshwatchd.core.diagnosis.service_canaries import NAMELESS
from meshwatchd.core.pmtu.verdict import SizeFinding
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.faults import CATALOGUE, Direction, FaultCode, Severity
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.service_faults import SERVICE_FAULTS

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN

LEGS: dict[str, Any] = {field.name: ALIVE for field in fields(Evidence) if field.type is Leg}
HEALTHY = Evidence(
    pair=0,
    is_leader=False,
    self_name="b3",
    own_leader="b1",
    remote_leader="a1",
    remote_relay="a1",
    is_anything_alive=True,
    is_active_down=False,
    is_unproven=False,
    missing_standbys=(),
    has_good_standby=True,
    silent_nodes=(),
    silent_ip6=(),
    silent_canaries=(),
    mismatched_nodes=(),
    log_likelihood=0.0,
    **LEGS,
)
MEMBER = replace(HEALTHY, path=DEAD, path_to_relay=DEAD, pinned=DEAD, is_active_down=True, neighbours_leader=UNKNOWN)


def sized(fault):
    """All is well but for the sizes."""
    found = SizeFinding(
        fault=fault, layer=CATALOGUE[fault].layer, severity=Severity.WARNING, culprit="b1", because=("measured",)
    )
    return replace(HEALTHY, sizes=found)


def pods_of_a3(*lost):
    """All is well but between addresses among pods of two nodes."""
    return replace(HEALTHY, pod_network=PodNetwork(silent=("a3",), answering=("a1", "a2"), lost=frozenset(lost)))


LEADER = replace(MEMBER, is_leader=True, self_name="b1")

LONE_LEADER = replace(LEADER, wireguard=DEAD, inbound=DEAD, remote_view_leader=UNKNOWN, is_node_to_node=True)
CUT = ClusterControl(name="west", is_connected=False, nodes=3)
CLUSTERED = replace(
    LEADER,
    self_name="e1",
    own_leader="e1",
    remote_leader="w1",
    remote_relay="",
    remote="west",
    neighbours_path=DEAD,
    beside=Beside(has_tunnel=False),
    control=replace(CUT, is_connected=True),
)
"""A node of a Cluster Mesh that reaches no node of another cluster, and hosts there."""

CUT_OFF = replace(
    MEMBER, overlay=DEAD, overlay_pinned=DEAD, neighbours_overlay=DEAD, own_view_overlay=ALIVE, has_good_standby=False
)
"""A member whose overlay is dead to everybody."""

KUBELET, APISERVER = (
    Canary(name=name, address="192.168.100.13", port=port, node=NodeName(node), kind=CanaryKind.TCP)
    for name, node, port in (("kubelet", "a3", 10250), ("apiserver", "a1", 6443))
)


def served(fault):
    """All is well but for a service that a canary asks for by its own protocol."""
    found = ServiceTrouble(canary="shop", node="a3", fault=fault, meaning="it is wrong", proof=("as was seen",))
    return replace(HEALTHY, services=(found,))


# One case for each line of the table, in its order: what the node knows, whom it must name.
CASES = [
    (
        "no probe passes and every canary is answered",
        replace(MEMBER, overlay=UNKNOWN, answering_canaries=("web",)),
        "",
    ),
    (
        "nobody answers, and others sign with another key",
        replace(MEMBER, is_anything_alive=False, own_view_wireguard=UNKNOWN, mismatched_nodes=("a1", "b1")),
        "b3",
    ),
    ("this node does not hear itself, and the others well", replace(HEALTHY, own_loop=DEAD), "b3"),
    (
        "this node does not hear itself",
        replace(HEALTHY, own_loop=DEAD, path=UNKNOWN, path_to_relay=UNKNOWN, underlay=UNKNOWN),
        "b3",
    ),
    (
        "no tunnel of this node answers, and the hosts behind them do",
        replace(
            LONE_LEADER,
            is_anything_alive=False,
            beside=Beside(tunnels=DEAD, outside=ALIVE, has_outside=True, outside_elsewhere=ALIVE),
        ),
        "b1",
    ),
    ("nobody answers", replace(MEMBER, is_anything_alive=False, own_view_wireguard=UNKNOWN), "b3"),
    (
        "own leader silent here and not to neighbours",
        replace(
            MEMBER,
            underlay=DEAD,
            overlay=UNKNOWN,
            own_view_wireguard=UNKNOWN,
            neighbours_path=UNKNOWN,
            neighbours_leader=ALIVE,
        ),
        "b3",
    ),
    (
        "own leader silent below the overlay",
        replace(MEMBER, underlay=DEAD, overlay=UNKNOWN, overlay_pinned=UNKNOWN, own_view_wireguard=UNKNOWN),
        "b1",
    ),
    ("fresh overlay flows to all neighbours die, and the leader reaches others", replace(CUT_OFF, pinned=ALIVE), "b3"),
    ("all overlay flows to all neighbours die, and the leader reaches others", CUT_OFF, "b3"),
    ("fresh overlay flows to the own leader die", replace(MEMBER, overlay=DEAD, own_view_wireguard=UNKNOWN), "b1"),
    (
        "all overlay flows to the own leader die",
        replace(MEMBER, overlay=DEAD, overlay_pinned=DEAD, own_view_wireguard=UNKNOWN),
        "b1",
    ),
    (
        "leader's fresh flows to its members die",
        replace(HEALTHY, is_leader=True, self_name="b1", members_overlay=DEAD, members_underlay=UNKNOWN),
        "b1",
    ),
    (
        "leader's flows to its members all die",
        replace(HEALTHY, is_leader=True, self_name="b1", members_overlay=DEAD, members_pinned=DEAD),
        "b1",
    ),
    (
        "the path is broken here and fine by all neighbours",
        replace(MEMBER, own_view_wireguard=UNKNOWN, neighbours_leader=ALIVE),
        "b3",
    ),
    (
        "overlay flows to all nodes of both clusters die",
        replace(CLUSTERED, neighbours_overlay=DEAD, members_overlay=UNKNOWN),
        "e1",
    ),
    ("fresh overlay flows to all nodes of another cluster die", replace(CLUSTERED, pinned=ALIVE), ""),
    ("overlay flows to another cluster die here alone", replace(CLUSTERED, neighbours_path=ALIVE), "e1"),
    (
        "neither nodes nor control plane of another cluster are reached",
        replace(CLUSTERED, wireguard=DEAD, control=CUT),
        "",
    ),
    ("no node of another cluster is reached, and its agent is", CLUSTERED, ""),
    (
        "no node of another cluster is reached, and neighbours have not looked",
        replace(CLUSTERED, neighbours_path=UNKNOWN),
        "",
    ),
    (
        "nothing passes to the own leader by IPIP",
        replace(MEMBER, ipip=DEAD, own_view_wireguard=UNKNOWN),
        "b1",
    ),
    (
        "members say that nothing passes to this leader by IPIP",
        replace(HEALTHY, is_leader=True, self_name="b1", members_ipip=DEAD),
        "b1",
    ),
    (
        "probes arrive through the tunnel that answers nothing",
        replace(LEADER, wireguard=DEAD, remote_view_leader=UNKNOWN),
        "a1",
    ),
    (
        "the remote leader's neighbours miss it",
        replace(LEADER, wireguard=DEAD, remote_view_leader=DEAD, inbound=UNKNOWN),
        "a1",
    ),
    (
        "another node's host is silent, and there is no tunnel to it",
        replace(LONE_LEADER, remote_view_leader=ALIVE, beside=Beside(has_tunnel=False)),
        "a1",
    ),
    (
        "all tunnels to the remote leader are dead, and its host answers outside of them",
        replace(
            LONE_LEADER,
            remote_view_leader=DEAD,
            beside=Beside(tunnels=ALIVE, outside=ALIVE, has_outside=True),
        ),
        "a1",
    ),
    ("the tunnel is dead, seen by a leader", replace(LEADER, wireguard=DEAD, inbound=DEAD), "a1"),
    ("the tunnel is dead, heard by a member", replace(MEMBER, own_view_wireguard=DEAD), "a1"),
    (
        "fresh overlay flows die over a tunnel that answers",
        replace(LEADER, is_node_to_node=True, pinned=ALIVE),
        "a1",
    ),
    ("all overlay flows die over a tunnel that answers", replace(LEADER, is_node_to_node=True), "a1"),
    (
        "fresh flows beyond the remote leader die",
        replace(LEADER, path_to_relay=ALIVE, pinned=ALIVE, remote_view_overlay=UNKNOWN),
        "a1",
    ),
    (
        "the remote leader says its overlay is dead",
        replace(LEADER, path_to_relay=ALIVE, remote_view_overlay=DEAD),
        "a1",
    ),
    (
        "the remote leader's neighbours miss it by IPIP",
        replace(LEADER, path_to_relay=ALIVE, remote_view_ipip=DEAD),
        "a1",
    ),
    ("the remote leader answers and forwards nothing", replace(LEADER, path_to_relay=ALIVE), "a1"),
    ("the own leader answers and forwards nothing", MEMBER, "b1"),
    ("broken, and nothing else is known", replace(MEMBER, overlay=UNKNOWN), ""),
    (
        "a standby in use loses traffic, and the primary path answers",
        replace(HEALTHY, is_active_down=True, lost_in_use=("b2", "a1"), kept_by="paused"),
        "",
    ),
    ("one node signs with another key", replace(HEALTHY, mismatched_nodes=("a3",)), "a3"),
    ("never answered", replace(HEALTHY, path=UNKNOWN, is_unproven=True), ""),
    ("large packets vanish", sized(FaultCode.MTU_BLACK_HOLE), "b1"),
    ("one node is silent", replace(HEALTHY, silent_nodes=("a3",)), "a3"),
    ("only IPv6 is silent", replace(HEALTHY, silent_ip6=((Layer.UNDERLAY, "b1"), (Layer.RELAY, "a1"))), "b1"),
    ("all canaries are silent", replace(HEALTHY, silent_canaries=(("web", "a3"), ("dns", "a2"))), ""),
    ("probes pass to the pods of one node, and nothing else does", pods_of_a3(*OF_OTHERS), "a3"),
    ("only pods of one node are cut off", pods_of_a3(*PodTraffic), "a3"),
    ("an API server and a kubelet are silent", replace(HEALTHY, silent_services=(APISERVER, KUBELET)), "a1"),
    ("only a kubelet is silent", replace(HEALTHY, silent_services=(KUBELET,)), "a3"),
    ("only a canary is silent", replace(HEALTHY, silent_canaries=(("web", "a3"),)), "a3"),
    *(
        (f"a service of the other location: {fault}", served(fault), "" if fault in NAMELESS else "a3")
        for fault in (*(each.code for each in SERVICE_FAULTS), FaultCode.POD_UNREACHABLE)
    ),
    ("a standby is silent", replace(HEALTHY, missing_standbys=(("a1", "b2"),)), ""),
    ("a standby carries less", sized(FaultCode.STANDBY_MTU_SMALLER), "b1"),
    ("a device promises too much", sized(FaultCode.MTU_MISCONFIGURED), "b1"),
    ("the kernel was told lies", sized(FaultCode.MTU_POISONED), "b1"),
    ("fragments are dropped", sized(FaultCode.FRAGMENTS_DROPPED), "b1"),
    (
        "services accept connections, and full segments do not get there",
        replace(HEALTHY, bulk=BulkPlaces(lost=(("web", "a2"), ("dns", "a3")), carried=(("lead", "a1"),))),
        "a1",
    ),
    ("all is well", HEALTHY, ""),
]
CATCH_ALLS = {FaultCode.UNDETERMINED, FaultCode.NONE}


def test_there_is_a_case_for_every_rule():
    """Whoever adds a line adds a case; the order is the table's."""
    assert len(TABLE) == len(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case[1].path is DEAD], ids=lambda case: case[0])
def test_packets_under_an_unknown_key_change_no_verdict_on_a_path(case):
    """Anybody can send them in a dead leader's name; where this node hears nobody at all it is its own fault anyway."""
    _, evidence, _ = case
    plain, forged = (classify(replace(evidence, mismatched_nodes=names)) for names in ((), ("a1", "b1")))

    assert plain.culprit == forged.culprit
    assert plain.fault is forged.fault or (is_alone(evidence) and forged.fault is FaultCode.KEY_MISMATCH)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case[0] for case in CASES])
def test_each_case_hits_its_rule_and_only_it(index):
    """But for the catch-alls below it: a rule that needs its place in the order would hide what it stands for."""
    _, evidence, culprit = CASES[index]
    hits = [number for number, rule in enumerate(TABLE) if rule.matches(evidence)]
    verdict = classify(evidence)

    assert index == hits[0]
    assert all(TABLE[number].fault in CATCH_ALLS for number in hits[1:]), [TABLE[n].fault for n in hits]
    assert (TABLE[index].fault, culprit) == (verdict.fault, verdict.culprit)
    assert CATALOGUE[verdict.fault].layer is verdict.layer
    assert verdict.because
    assert all(verdict.because)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case[0] for case in CASES])
def test_without_a_good_standby_all_paths_are_down(index):
    """The culprit and the evidence stay; a node that blames itself, or finds nothing, says nothing about paths."""
    evidence = replace(CASES[index][1], is_active_down=True, has_good_standby=False)
    plain, verdict = classify(replace(evidence, has_good_standby=True)), classify(evidence)

    is_about_probes = plain.fault in (FaultCode.LOCAL, FaultCode.PROBE_PORT_BLOCKED)
    is_about_probes |= (plain.fault, plain.culprit) == (FaultCode.NODE_UNREACHABLE, evidence.self_name)
    is_about_itself = not evidence.is_anything_alive or is_about_probes or own_overlay_lost(evidence)
    if is_about_itself or plain.fault is FaultCode.NONE:
        assert plain == verdict
        return
    assert (FaultCode.ALL_PATHS_DOWN, plain.culprit, Severity.CRITICAL) == (
        verdict.fault,
        verdict.culprit,
        verdict.severity,
    )
    assert plain.because == verdict.because[1:]
    assert plain.fault in verdict.because[0]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case[0] for case in CASES])
def test_a_fault_that_traffic_goes_around_is_a_warning(index):
    """On standby the sick leader loses no packets; nothing is critical unless the path in use is down."""
    assert Severity.CRITICAL is not classify(replace(CASES[index][1], is_active_down=False)).severity


@pytest.mark.parametrize(
    ("inbound", "direction"),
    [(ALIVE, Direction.OUTBOUND), (DEAD, Direction.INBOUND), (UNKNOWN, Direction.UNKNOWN)],
)
def test_the_direction_follows_from_what_still_arrives(inbound, direction):
    """A silent peer whose own probes arrive here is reached by nothing of ours."""
    assert direction is classify(replace(MEMBER, inbound=inbound)).direction
    assert Direction.UNKNOWN is classify(replace(HEALTHY, inbound=inbound)).direction


def test_what_arrives_is_part_of_the_evidence():
    """The sentence names the own leader; nothing is said of what is not known."""
    sentences = {leg: classify(replace(MEMBER, overlay=DEAD, inbound=leg)).because for leg in Leg}

    assert "probes of b1 still arrive here: packets die on the way to it" in sentences[ALIVE]
    assert any("no fresh probe of b1 arrives" in sentence for sentence in sentences[DEAD])
    assert len(sentences[UNKNOWN]) == len(sentences[ALIVE]) - 1


def test_a_member_does_not_blame_the_far_side_while_its_own_is_doubtful():
    """One answer of the remote leader may have ridden on a remembered flow of the own one."""
    evidence = replace(MEMBER, overlay=UNKNOWN, path_to_relay=ALIVE, pinned=ALIVE)

    assert FaultCode.UNDETERMINED is classify(evidence).fault


def test_ip6_names_the_lowest_layer_it_is_lost_on():
    """Where the twin by IPv4 answers on all of them, that is the one to look at."""
    verdict = classify(replace(HEALTHY, silent_ip6=((Layer.OVERLAY, "b1"), (Layer.RELAY, "a1"), (Layer.RELAY, "a3"))))

    assert (FaultCode.ADDRESS_FAMILY_BROKEN, Layer.OVERLAY, "b1") == (verdict.fault, verdict.layer, verdict.culprit)
    assert "silent by IPv6 on layer overlay: b1" == verdict.because[0]
    assert "silent by IPv6 on layer relay: a1, a3" == verdict.because[1]


def test_a_silent_canary_is_named_as_consequence_of_what_is_broken_below():
    """And only of that: another node's silence, or a standby's, explains nothing."""
    canaries = (("web", "a3"), ("dns", "a2"))
    broken = classify(replace(MEMBER, overlay=DEAD, silent_canaries=canaries))
    node = classify(replace(HEALTHY, silent_nodes=("a2",), silent_canaries=canaries))

    assert FaultCode.OVERLAY_NEW_FLOWS is broken.fault
    assert "silent in consequence: canaries web on a3, dns on a2" == broken.because[-1]
    assert FaultCode.NODE_UNREACHABLE is node.fault
    assert ["silent in consequence: canary dns on a2"] == [s for s in node.because if "canary" in s]
    assert not explains(FaultCode.STANDBY_DOWN, "", "a3", here="b3")
    crowd = classify(replace(MEMBER, overlay=DEAD, silent_canaries=tuple((f"web-{n}", "a3") for n in range(8))))
    assert crowd.because[-1].endswith("web-5 on a3 and 2 more")


def test_a_silent_service_says_which_way_connections_fail():
    """A pod that is silent as well hides none of it."""
    services = (APISERVER, KUBELET)
    told = classify(replace(HEALTHY, silent_services=services))
    pod = classify(replace(HEALTHY, silent_services=services, silent_canaries=(("web", "a3"),)))
    apiserver, kubelet = (
        "the API server of a1 cannot be reached from here: TCP 6443 is not answered (canary apiserver)",
        "the kubelet of a3 cannot be reached from here: TCP 10250 is not answered (canary kubelet)",
    )
    assert (apiserver, kubelet, "every layer of the mesh below answers") == told.because
    assert FaultCode.POD_UNREACHABLE is pod.fault
    assert {apiserver, kubelet} < set(pod.because)


def test_a_service_that_has_to_accept_connections_is_told_as_that():
    """It may have stopped: its node refuses connections, and does answer."""
    wanted = replace(APISERVER, expect=CanaryExpect.SERVICE)
    told = classify(replace(HEALTHY, silent_services=(wanted,)))
    expected = "the API server of a1 cannot be reached from here: TCP 6443 takes no connection (canary apiserver)"
    assert expected == told.because[0]


def test_a_tunnel_that_is_broken_one_way_silences_both_kinds():
    """It is the tunnel's fault, with the direction; what the control plane and its kubelets lose is the consequence."""
    broken = replace(LEADER, wireguard=DEAD, inbound=ALIVE, silent_services=(APISERVER, KUBELET))
    told = classify(broken)
    assert (FaultCode.ONE_WAY_BREAK, "a1", Direction.OUTBOUND) == (told.fault, told.culprit, told.direction)
    assert "silent in consequence: canaries apiserver on a1, kubelet on a3" == told.because[-1]


def test_a_node_that_does_not_hear_itself_accuses_nobody():
    """Whatever else it takes for dead."""
    evidence = replace(MEMBER, underlay=DEAD, overlay=DEAD, ipip=DEAD, own_loop=DEAD, has_good_standby=False)

    assert (FaultCode.LOCAL, "b3") == (classify(evidence).fault, classify(evidence).culprit)


def test_a_node_that_hears_new_flows_answered_is_not_deaf():
    """Its reflector's ports are closed: known flows die with them, whose source ports are among those."""
    evidence = replace(MEMBER, own_loop=DEAD, own_view_wireguard=UNKNOWN)

    assert (FaultCode.PROBE_PORT_BLOCKED, "b3") == (classify(evidence).fault, classify(evidence).culprit)


@pytest.mark.parametrize("pinned", ["overlay_pinned", "pinned"])
def test_a_leader_that_answers_known_flows_is_not_dead(pinned):
    """A full table of connections takes nothing new, on no layer, and goes on with what it knows."""
    evidence = replace(MEMBER, underlay=DEAD, overlay=DEAD, overlay_pinned=UNKNOWN, own_view_wireguard=DEAD)
    alive: dict[str, Any] = {pinned: ALIVE}
    verdict = classify(replace(evidence, **alive))

    assert (FaultCode.OVERLAY_NEW_FLOWS, "b1") == (verdict.fault, verdict.culprit)
    assert "b1's underlay address answers" not in verdict.because
    assert "new flows to b1's underlay address die as well" in verdict.because
    assert FaultCode.LEADER_DEAD is classify(evidence).fault


@pytest.mark.parametrize("seen_from", [LEADER, replace(MEMBER, own_view_wireguard=DEAD)])
@pytest.mark.parametrize("neighbours", [ALIVE, DEAD])
def test_a_remote_leader_that_passes_known_flows_is_neither_dead_nor_cut_off(seen_from, neighbours):
    """New flows to itself die as well, so that its neighbours miss it and its tunnel looks dead."""
    evidence = replace(seen_from, wireguard=DEAD, inbound=UNKNOWN, remote_view_leader=neighbours, pinned=ALIVE)
    verdict = classify(evidence)

    assert (FaultCode.OVERLAY_NEW_FLOWS, "a1") == (verdict.fault, verdict.culprit)
    assert "new flows to a1 itself die as well" in verdict.because


@pytest.mark.parametrize("to_relay", [UNKNOWN, DEAD])
def test_a_member_that_was_lucky_with_its_own_leader_blames_nobody_for_new_flows(to_relay):
    """Its leader's overlay takes known flows only, and three new ones rode on such: the leader's tunnel is alive."""
    evidence = replace(MEMBER, path_to_relay=to_relay, pinned=ALIVE)

    assert (FaultCode.UNDETERMINED, "") == (classify(evidence).fault, classify(evidence).culprit)


@pytest.mark.parametrize("overlay", [UNKNOWN, DEAD])
def test_ipip_is_blamed_only_where_the_overlay_below_is_known_to_live(overlay):
    """When the overlay dies its members tell of the IPIP leg first, by either side's rule."""
    far = replace(LEADER, path_to_relay=ALIVE, remote_view_ipip=DEAD, remote_view_overlay=overlay)
    own = replace(HEALTHY, is_leader=True, self_name="b1", members_ipip=DEAD, members_overlay=overlay)

    assert FaultCode.IPIP_BLACK_HOLE not in {classify(far).fault, classify(own).fault}


def test_a_member_whose_overlay_is_dead_to_everybody_accuses_itself():
    """Not the paths: all of them cross its overlay. Its leader is accused on that leader's own word alone."""
    own, unsure, lan = (
        classify(each)
        for each in (CUT_OFF, replace(CUT_OFF, own_view_overlay=UNKNOWN), replace(CUT_OFF, own_view_overlay=DEAD))
    )

    assert (FaultCode.OVERLAY_BLACK_HOLE, "b3") == (own.fault, own.culprit)
    assert (FaultCode.ALL_PATHS_DOWN, "") == (unsure.fault, unsure.culprit)
    assert (FaultCode.ALL_PATHS_DOWN, "b1") == (lan.fault, lan.culprit)


def test_a_leader_is_accused_when_a_neighbour_has_answered_over_the_overlay():
    """Before, it may as well be this member's own."""
    lost = replace(MEMBER, overlay=DEAD, own_view_wireguard=UNKNOWN, own_view_overlay=UNKNOWN)

    assert (FaultCode.OVERLAY_NEW_FLOWS, "b1") == (classify(lost).fault, classify(lost).culprit)
    for heard in (UNKNOWN, DEAD):
        assert "b1" != classify(replace(lost, neighbours_overlay=heard)).culprit
