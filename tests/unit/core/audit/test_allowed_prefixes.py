"""Pods that no WireGuard peer may carry, beside nodes that answer."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.allowed_prefixes import missing_prefixes
from meshwatchd.core.audit.wireguard import TunnelAudit
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from tests.support.lab_mesh import declared_mesh, direct_settings

MESH = declared_mesh()
CLOUD = ("10.2.0.11/32", "10.244.4.0/24", "10.2.0.12/32", "10.244.5.0/24", "10.2.0.13/32", "10.244.6.0/24")


def _device(*allowed, key="KEY-B"):
    peer = WireGuardPeer(public_key=key, endpoint="198.51.100.21:51820", allowed_ips=(*allowed, "10.4.0.1/32"))
    return WireGuardState(device="kilo0", public_key="OWN", listen_port=51820, at_ns=1, peers=(peer,))


def _found(state, mesh=MESH, node="a1"):
    return [(each.subject, each.peer, each.culprit) for each in missing_prefixes(state, mesh, node)]


def test_what_kilo_writes_is_fine():
    """Also where a peer has a wider prefix, as by hand."""
    assert [] == _found(_device(*CLOUD))
    assert [] == _found(_device("10.2.0.11/32", "10.2.0.12/32", "10.2.0.13/32", "10.244.4.0/22"))
    assert [] == _found(_device("10.2.0.12/32", "0.0.0.0/0"))


def test_pods_that_no_peer_may_carry_are_named_with_their_node():
    """`wg set kilo0 peer KEY allowed-ips ...` that forgets one prefix; the node's own address still answers."""
    state = _device(*(each for each in CLOUD if each != "10.244.5.0/24"))
    (found,) = missing_prefixes(state, MESH, "a1")

    assert (FaultCode.ALLOWED_IPS_MISSING, "kilo0", "b2") == (found.code, found.device, found.peer)
    assert "kilo0 has no peer whose AllowedIPs hold 10.244.5.0/24 of b2" == found.because[0]
    assert "KEY-B at 198.51.100.21:51820" in found.because[1]
    assert [("10.244.5.0/24", "b2", "a1")] == _found(state)


def _routes(*prefixes, dev="kilo0"):
    return [DeviceRoute(dst=each, dev=dev, table=254, protocol=17) for each in prefixes]


def test_a_node_that_no_peer_may_carry_is_named_though_its_pods_are_well():
    """`wg set` that forgets the /32: kubelet, hostNetwork and probes of it die; the route still leads into kilo0."""
    state = _device(*(each for each in CLOUD if each != "10.2.0.12/32"))
    (found,) = missing_prefixes(state, MESH, "a1", _routes(*CLOUD))

    assert (FaultCode.ALLOWED_IPS_MISSING, "10.2.0.12/32", "b2", True) == (
        found.code,
        found.subject,
        found.peer,
        found.is_cut_off,
    )
    assert "holds 10.244.5.0/24, its pods" in found.because[1]
    assert found.because[2].endswith(",10.2.0.12/32")
    without = [each for each in CLOUD if each != "10.2.0.12/32"]
    assert [] == list(missing_prefixes(state, MESH, "a1", _routes(*without))), "a node that Kilo does not route"
    assert [] == list(missing_prefixes(_device(*without, "10.2.0.0/24"), MESH, "a1", _routes(*CLOUD)))


@pytest.mark.parametrize(
    ("part", "told"),
    [("10.244.5.0/25", ["b2"]), ("10.244.5.9/32", ["b2"]), ("10.9.9.0/24", []), ("fd00::/64", [])],
)
def test_a_part_of_a_node_s_pods_with_another_peer_goes_there(part, told):
    """The longer prefix counts, and the whole one is in its place."""
    thief = WireGuardPeer(public_key="THIEF", allowed_ips=("10.9.0.1/32", part))
    state = _device(*CLOUD)
    state = msgspec.structs.replace(state, peers=(*state.peers, thief))
    found = list(missing_prefixes(state, MESH, "a1", _routes(*CLOUD)))

    assert told == [each.peer for each in found]
    assert {(FaultCode.ALLOWED_IPS_STOLEN, "THIEF")} >= {(each.code, each.subject) for each in found}


def test_pods_that_are_not_routed_into_the_tunnel_need_no_peer():
    """Kilo over Cilium, whose pods have other prefixes than the Node objects: VXLAN carries them between nodes."""
    state = _device(*(each for each in CLOUD if each != "10.244.5.0/24"))
    into = [DeviceRoute(dst="10.244.0.0/16", dev=dev, table=254, protocol=4) for dev in ("kilo0", "cilium_host")]

    assert ["b2"] == [each.peer for each in missing_prefixes(state, MESH, "a1", into)]
    assert [] == list(missing_prefixes(state, MESH, "a1", into[1:]))


def test_a_prefix_that_another_peer_has_taken_is_not_missing():
    """That is `allowed-ips-stolen`."""
    thief = WireGuardPeer(public_key="THIEF", allowed_ips=("10.244.5.0/24",))
    state = _device(*(each for each in CLOUD if each != "10.244.5.0/24"))
    assert [] == _found(msgspec.structs.replace(state, peers=(*state.peers, thief)))


def test_a_node_that_the_agent_has_taken_out_of_the_mesh_is_not_judged():
    """Kilo drops a node that was silent for a minute: address and pods go together."""
    assert [] == _found(_device(*CLOUD[:2]))
    assert [] == _found(_device())
    assert [] == _found(msgspec.structs.replace(_device(), peers=()))


def test_the_own_location_is_not_behind_the_tunnel():
    """Its pods are the overlay's."""
    state = _device("192.168.100.12/32", *CLOUD)
    assert [] == _found(state)


def test_pods_over_an_overlay_on_the_tunnel_need_no_allowed_ips():
    """Flannel over wg0: what WireGuard carries is from node to node."""
    mesh = direct_settings("n1").mesh
    peer = WireGuardPeer(public_key="KEY", allowed_ips=("10.8.0.2/32",))
    state = WireGuardState(device="wg0", public_key="OWN", listen_port=51820, at_ns=1, peers=(peer,))
    assert [] == _found(state, mesh, "n1")


@pytest.mark.parametrize("device", ["kilo0", "wg9"])
def test_only_the_device_of_the_mesh_is_judged(device):
    """The audit of WireGuard devices asks for it."""
    state = msgspec.structs.replace(_device("10.2.0.12/32"), device=device)
    audit = TunnelAudit()
    audit.observe((state,))
    codes = [each.code for each in audit.look((state,), mesh=MESH, node="a1", good=None)]
    assert (FaultCode.ALLOWED_IPS_MISSING in codes) is (device == "kilo0")
