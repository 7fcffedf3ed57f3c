"""The lab's faults of the catalogue: for every line one, or the reason why a kernel cannot show it."""

import struct
from pathlib import Path

import pytest

from meshwatchd.model.faults import FaultCode
from netnslab import conntrack
from netnslab.errors import LabError
from netnslab.fault_plans import PLANS
from netnslab.filter_plans import FILTER_PLANS
from netnslab.lab import Lab
from netnslab.state_faults import CATALOGUE, usual_place
from netnslab.state_plans import Scene
from netnslab.topology_file import load
from tests.support.witness import WITNESSES

NOT_A_FAULT_OF_ITS_OWN = {
    "none": "all is well",
    "undetermined": "what is said until a name is found",
    "all-paths-down": "two faults at once (tests/lab/one_mesh/test_second_faults.py)",
    "standby-down": "udp-port-blocked on a standby link's port (tests/lab/one_mesh/test_second_faults.py)",
    "local-fault": "leader-dead, seen by the dead",
    "node-unreachable": "leader-dead at a member",
    "pod-unreachable": "a pod without its link (tests/lab/test_layers.py)",
    "key-mismatch": "keys of daemons (tests/lab/one_mesh/test_key_rotation.py)",
    "next-hop-dead": "routes of BIRD and FRR (tests/lab/test_discovery_wireguard_bgp.py)",
    "bgp-route-escaped": "routes of BIRD and FRR (tests/lab/test_discovery_wireguard_bgp.py)",
    "duplicate-node-name": "names of daemons (tests/lab/test_duplicate_name.py)",
    "address-family-broken": "IPv6 alone (tests/lab/test_layers_ip6.py)",
    **dict.fromkeys(
        ("underlay-device-missing", "underlay-device-down", "underlay-silent"),
        "needs a host mesh below: real Nebula (tests/lab/test_host_mesh.py)",
    ),
    **dict.fromkeys(
        (
            "liqo-fabric-address-missing",
            "liqo-route-missing",
            "liqo-gateway-stale",
            "liqo-gateway-leg",
            "liqo-tunnel-dead",
        ),
        "needs Liqo's gateway pods (tests/lab/test_liqo.py)",
    ),
    "outer-way-broken": "needs a neighbour that reaches the node (tests/lab/test_outer_reroute.py)",
    "ipip-black-hole": "needs tunl0: in the guest (tests/lab/stock_kernel)",
    "dns-unreachable": "what servers answer (tests/unit/adapters/test_service_canary.py)",
    "dns-forward-broken": "what servers answer (tests/lab/test_service.py)",
    "domain-not-served": "what servers answer (tests/unit/adapters/test_service_canary.py)",
    "not-synced": "what servers answer (tests/unit/adapters/test_service_canary.py)",
    "not-exported": "what servers answer (tests/lab/test_service.py)",
    "exporter-unhealthy": "what servers answer (tests/lab/test_service.py)",
    "policy-or-backend": "a filter before the pod (tests/lab/test_service.py)",
    "endpoint-refused": "what servers answer (tests/unit/adapters/test_service_canary.py)",
    "identity": "certificates of servers (tests/unit/adapters/test_service_canary.py)",
    "sni-rejected": "what a gateway knows (tests/unit/adapters/test_service_canary.py)",
    "gateway-not-ready": "what servers answer (tests/unit/adapters/test_service_canary.py)",
}


def test_every_line_of_the_catalogue_can_be_shown_or_says_why_not():
    """A new code needs a fault in the lab, or a line above."""
    missing = {str(code) for code in FaultCode} - set(CATALOGUE) - set(PLANS)

    assert missing <= set(NOT_A_FAULT_OF_ITS_OWN)


def test_every_fault_has_a_witness():
    """What a fault does to packets is asked by the lab, in tests/lab/test_state_faults.py."""
    assert set(CATALOGUE) == set(WITNESSES)


@pytest.mark.parametrize("kind", CATALOGUE)
@pytest.mark.parametrize("topology", ["flannel-wg", "kilo-flannel"])
def test_usual_places_are_two_nodes(topology, kind):
    """They differ, and a wrong entry can point to a third."""
    nodes = load(topology).nodes
    victim, peer = usual_place(load(topology), kind)

    assert victim != peer
    assert {victim, peer} < set(nodes)


def scene(topology, victim, peer):
    """A place in a lab that is not built: filters are text."""
    lab = Lab("none", load(topology), is_owner=False)
    return Scene(lab=lab, victim=lab.topology.nodes[victim], peer=lab.topology.nodes[peer])


def test_filters_about_the_overlay_strike_where_it_is_in_clear():
    """Over wg0 that is the node, between flannel.1 and the tunnel; under Kilo it is the switch."""
    over, under = scene("flannel-wg", "c1", "d1"), scene("kilo-flannel", "b1", "b3")
    for kind in ("offload-fault", "overlay-black-hole", "probes-only"):
        (step,) = FILTER_PLANS[kind](over).do
        assert "c1" == step.place
        assert 'device "wg0"' in "\n".join(step.lines)
        (step,) = FILTER_PLANS[kind](under).do
        assert "wan" == step.place
        assert 'device "b1-eth0"' in "\n".join(step.lines)


@pytest.mark.parametrize("kind", ["probes-only", "mtu-black-hole", "kubelet-unreachable", "one-way-break"])
def test_undoing_a_filter_removes_its_table_whether_or_not_it_is_there(kind):
    """Declared and deleted in one transaction: healing works after half an injection too."""
    change = FILTER_PLANS[kind](scene("flannel-wg", "c1", "d1"))
    (do,), (undo,) = change.do, change.undo
    table = do.lines[0].removesuffix(" {")

    assert (f"{table} {{ }}", f"delete {table}") == undo.lines


def test_a_break_between_neighbours_or_with_the_hidden_is_refused():
    """The switch cannot tell them by an address of the wide area."""
    with pytest.raises(LabError, match="choose another peer"):
        FILTER_PLANS["one-way-break"](scene("flannel-wg", "c1", "c2"))
    with pytest.raises(LabError, match="choose another peer"):
        FILTER_PLANS["one-way-break"](scene("flannel-wg", "c1", "e1"))


def test_conntrack_messages_have_the_shape_of_nfnetlink():
    """Length, type and flags of the header, and attributes padded to four bytes."""
    message = conntrack.new_entry(number=60001)
    length, kind, flags = struct.unpack_from("=IHH", message)

    assert len(message) == length
    assert 1 << 8 == kind
    assert conntrack.NLM_F_CREATE | conntrack.NLM_F_EXCL | conntrack.NLM_F_REQUEST == flags
    assert 0 == len(message) % 4
    assert bytes((198, 18, 1, 1)) in message
    assert Path("/proc/sys/net/netfilter") == conntrack.LIMIT.parent
