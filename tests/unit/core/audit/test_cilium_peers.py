"""Peers of Cilium's WireGuard device: who is missing, whose address is, and who is there twice."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.cilium_peers import audit_devices, audit_peers
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from tests.support.cluster_node import NAMES, health_ip, node_ip, peer, router_ip, snapshot, sources, wireguard


def listed(*names):
    """What the agent of e1 knows."""
    told = sources(names=names or NAMES).cilium
    assert told is not None
    return told


def found(*peers, names=NAMES, is_tunnelled=True):
    """What is wrong with these peers of e1."""
    state = msgspec.structs.replace(wireguard(), peers=peers)
    return [*audit_peers(state, listed(*names), "e1", {}, is_tunnelled=is_tunnelled)]


def peers(**changed):
    """All of e1's, some of them changed or left out."""
    return [each for name in NAMES if name != "e1" if (each := changed.get(name, peer(name))) is not None]


def without(name, *addresses):
    """A peer that may not carry some of its node's addresses."""
    whole = peer(name)
    left = tuple(each for each in whole.allowed_ips if each.removesuffix("/32") not in addresses)
    return msgspec.structs.replace(whole, allowed_ips=left)


def test_a_device_that_is_whole_has_no_finding():
    """With tunnel and without; and a peer that has moved is known by its address among pods."""
    moved = msgspec.structs.replace(peer("w1"), endpoint="10.82.0.99:51871")

    assert [] == found(*peers())
    assert [] == found(*peers(), is_tunnelled=False)
    assert [] == found(*peers(w1=moved))


def test_a_peer_without_its_own_endpoint_in_allowed_ips_is_named():
    """cilium#35644: it shakes hands, and VXLAN through it is dropped."""
    (lost,) = found(*peers(w2=without("w2", node_ip("w2"))))

    assert (FaultCode.ALLOWED_IPS_MISSING, "cilium_wg0", "w2", "e1") == (
        lost.code,
        lost.device,
        lost.peer,
        lost.culprit,
    )
    assert lost.is_cut_off
    assert f"miss {node_ip('w2')}, its own endpoint" in lost.because[0]
    assert "spec.nodeName=e1" in lost.because[1]
    assert plan_repair(lost) is None


def test_a_health_endpoint_that_is_left_out_cuts_nobody_off():
    """And one finding has all that a peer lacks."""
    (lost,) = found(*peers(w2=without("w2", health_ip("w2"))))
    (both,) = found(*peers(w2=without("w2", health_ip("w2"), router_ip("w2"))))

    assert (False, True) == (lost.is_cut_off, both.is_cut_off)
    assert f"{router_ip('w2')}, cilium_host there; {health_ip('w2')}, its health endpoint" in both.because[0]


def test_what_most_peers_do_not_have_either_is_the_version_and_no_fault():
    """Before 1.18 pods went by WireGuard in the place of VXLAN."""
    old = {name: without(name, node_ip(name)) for name in NAMES}
    mixed = {name: without(name, node_ip(name)) for name in ("e2", "e3", "w1")}

    assert [] == found(*peers(**old))
    assert [] == found(*peers(**mixed))
    assert [] == found(*peers(w2=without("w2", node_ip("w2"))), is_tunnelled=False)


def test_an_address_inside_of_a_prefix_is_held():
    """As where a peer carries all of a node's pods."""
    wide = msgspec.structs.replace(peer("w2"), allowed_ips=(f"{node_ip('w2')}/32", "10.11.2.0/24"))

    assert [] == found(*peers(w2=wide))


def test_a_node_without_a_peer_is_named_with_its_cluster():
    """cilium#20925: the agent knows the node, and the device does not."""
    (lost,) = found(*peers(w3=None))

    assert (FaultCode.WIREGUARD_PEER_MISSING, "w3", "e1") == (lost.code, lost.peer, lost.culprit)
    assert lost.is_cut_off
    assert f"knows west/w3 at {node_ip('w3')}" in lost.because[0]


def test_a_cluster_that_does_not_encrypt_is_missed_by_nobody():
    """None of its nodes has a key."""
    assert [] == found(*peers(w1=None, w2=None, w3=None))


def test_two_peers_at_one_endpoint_are_named_with_the_node_there():
    """cilium#31921: what the dead one may carry is lost to the living one."""
    (twice,) = found(*peers(), peer("w1", key="key-of-a-former-life"))

    assert (FaultCode.WIREGUARD_PEER_DUPLICATE, f"{node_ip('w1')}:51871", "w1") == (
        twice.code,
        twice.subject,
        twice.peer,
    )
    assert "key-of-w1, key-of-a-former-life" in twice.because[0]


def test_two_peers_where_no_node_is_are_named_without_one():
    """Both are left over."""
    strange = [msgspec.structs.replace(peer("w1", key=key), endpoint="10.9.9.9:51871", allowed_ips=()) for key in "ab"]
    (twice,) = found(*peers(), *strange)

    assert ("", False) == (twice.peer, twice.is_cut_off)


def test_nodes_of_the_mesh_go_by_their_names_there():
    """Cilium's may be another one."""
    state = msgspec.structs.replace(wireguard(), peers=tuple(peers(w3=None)))
    names = {node_ip("w3"): NodeName("other")}
    (lost,) = audit_peers(state, listed(), "e1", names, is_tunnelled=True)

    assert "other" == lost.peer


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("cilium_host", FaultCode.OVERLAY_DEVICE_DOWN),
        ("cilium_vxlan", FaultCode.OVERLAY_DEVICE_DOWN),
        ("cilium_wg0", FaultCode.WIREGUARD_DEVICE_MISSING),
    ],
)
def test_a_device_of_ciliums_that_is_down_is_named(name, code):
    """NetworkManager takes down what it does not know."""
    state = snapshot()
    links = (msgspec.structs.replace(link, is_up=link.name != name) for link in state.links)
    (down,) = audit_devices(msgspec.structs.replace(state, links=tuple(links)), "e1")

    assert (code, name, name, "e1") == (down.code, down.device, down.subject, down.culprit)
    assert [] == [*audit_devices(state, "e1")]
