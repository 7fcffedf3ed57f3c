"""Whose pods a peer of flannel's wireguard backend may carry, by memory and by what nodes say of their keys."""

from __future__ import annotations

import pytest

from meshwatchd.core.audit.native_peers import advice, audit_native_peers, drift, endpoint_evidence
from meshwatchd.core.audit.native_route import audit_native
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import WireGuardPeer
from tests.support.lab_mesh import declared_mesh
from tests.support.native_node import WELL, device, hello, known, node, peer, snapshot, view

HELLOS = {name: hello(name) for name in ("c2", "d1")}
NOTHING = WireGuardPeer(public_key="KEY-d1", endpoint="203.0.113.2:51820", handshake_ns=1)
MEMORIES = pytest.mark.parametrize(("was", "hellos"), [(WELL, {}), (None, HELLOS)], ids=["remembered", "by hello"])


def named(found):
    """Code, subject, peer, and whether that one is cut off."""
    return [(each.code.value, each.subject, each.peer, each.is_cut_off) for each in found]


@MEMORIES
def test_what_flannel_writes_is_fine(was, hellos):
    """A peer for the pods of each node; one of a former key is left behind without any (k3s#5216)."""
    stale = WireGuardPeer(public_key="OLD-d1")
    assert [] == named(audit_native_peers(known(WELL, was=was, hellos=hellos)))
    assert [] == named(audit_native_peers(known(device(*WELL.peers, stale), was=was, hellos=hellos)))
    assert [] == named(audit_native_peers(known(device(peer("c2"), peer("d1", "10.0.0.0/8")), was=was, hellos=hellos)))


@MEMORIES
@pytest.mark.parametrize(
    ("left", "is_cut_off"),
    [((), True), (("10.42.2.128/25",), True), (("10.42.2.0/25",), False), (("10.99.0.0/16",), True)],
    ids=["none", "half without its address", "half with it", "another"],
)
def test_a_prefix_that_nobody_has_is_named_with_its_command(was, hellos, left, is_cut_off):
    """`wg set flannel-wg peer KEY allowed-ips`: the peer is there, and its pods are not."""
    changed = peer("d1", *left) if left else NOTHING
    (missing,) = audit_native_peers(known(device(peer("c2"), changed), was=was, hellos=hellos))

    assert [("allowed-ips-missing", "10.42.2.0/24", "d1", is_cut_off)] == named((missing,))
    assert "c1" == missing.culprit
    assert f"AllowedIPs are {', '.join(left) or 'none'}" in missing.because[1]
    assert "wg set flannel-wg peer KEY-d1 allowed-ips" in missing.because[2]
    assert "10.42.2.0/24 puts it back" in missing.because[2]
    assert "flannel writes its route and its peers when" in missing.because[-1]


@MEMORIES
@pytest.mark.parametrize(
    ("taken", "is_cut_off"),
    [("10.42.2.0/24", True), ("10.42.2.0/25", True), ("10.42.2.128/25", False)],
    ids=["whole", "half with its address", "other half"],
)
def test_what_another_peer_has_is_stolen_also_in_part(was, hellos, taken, is_cut_off):
    """Of two prefixes the longer counts, and both peers look as they should."""
    robbed = NOTHING if taken.endswith("/24") else peer("d1")
    state = device(peer("c2", "10.42.1.0/24", taken), robbed)
    (stolen,) = audit_native_peers(known(state, was=was, hellos=hellos))
    command = stolen.because[-2]

    assert [("allowed-ips-stolen", "KEY-c2", "d1", is_cut_off)] == named((stolen,))
    assert f"it has {taken}, which is of the pods of d1" in stolen.because
    if taken.endswith("/24"):
        assert "wg set flannel-wg peer KEY-d1 allowed-ips 10.42.2.0/24 takes it back" == command
    else:
        assert "wg set flannel-wg peer KEY-c2 allowed-ips 10.42.1.0/24 takes it back" == command


def test_a_stranger_with_the_whole_prefix_may_be_the_node_with_a_new_key():
    """Nobody says whose key that is: what its tunnel does tells more."""
    stranger = WireGuardPeer(public_key="NEW", allowed_ips=("10.42.2.0/24",))
    assert [] == named(audit_native_peers(known(device(peer("c2"), stranger), hellos={})))


def test_a_peer_that_flannel_never_wrote_is_known_by_its_nodes_own_word():
    """k3s#3287: it is missing from the beginning, and was never good."""
    state = device(peer("c2"))
    (missing,) = audit_native_peers(known(state, was=state, hellos={**HELLOS, "d1": hello("d1", at="198.51.100.51")}))

    assert [("wireguard-peer-missing", "KEY-d1", "d1", False)] == named((missing,))
    command = "wg set flannel-wg peer KEY-d1 allowed-ips 10.42.2.0/24 endpoint 198.51.100.51:51820"
    assert any(each.startswith(f"{command} adds it") for each in missing.because)
    (unknown,) = audit_native_peers(known(state, was=state))
    assert FaultCode.ALLOWED_IPS_MISSING == unknown.code, "nobody knows a key"


def test_a_peer_that_was_there_is_told_by_its_loss_alone():
    """With all that was known of it: core.audit.wireguard_losses."""
    seen = known(device(peer("c2")))
    assert [] == named(audit_native_peers(seen))
    command = "wg set flannel-wg peer KEY-d1 allowed-ips 10.42.2.0/24 endpoint 203.0.113.2:51820 adds it"
    assert advice(seen, "KEY-d1", node("d1"))[0].startswith(command)


def test_an_endpoint_is_compared_with_what_was_and_with_what_its_node_says():
    """k3s#13388: the old address stays in the peer, and the node says the new one."""
    moved = WireGuardPeer(public_key="KEY-d1", endpoint="192.0.2.9:4444", allowed_ips=("10.42.2.0/24",))
    state = device(peer("c2"), moved)
    was, command, words = endpoint_evidence(moved, known(state))
    assert "its endpoint was 203.0.113.2:51820 while all was well and is 192.0.2.9:4444" == was
    assert "wg set flannel-wg peer KEY-d1 endpoint 203.0.113.2:51820 sets it again" == command
    assert "flannel writes" in words

    new = {"d1": hello("d1", at="198.51.100.51")}
    kept = WELL.peers[1]
    told, command, _ = endpoint_evidence(kept, known(WELL, hellos=new))
    assert "d1 reports that it is reached at 198.51.100.51, and the endpoint is 203.0.113.2:51820" == told
    assert "wg set flannel-wg peer KEY-d1 endpoint 198.51.100.51:51820 sets it again" == command
    assert () == endpoint_evidence(kept, known(WELL, hellos={"d1": hello("d1", at="203.0.113.2")}))
    assert () == endpoint_evidence(kept, known(WELL, hellos=HELLOS)), "behind NAT a node says nothing"


@pytest.mark.parametrize(
    ("said", "drifted"),
    [
        (None, ""),
        (hello("d1"), ""),
        (hello("d1", at="203.0.113.2"), ""),
        (hello("d1", at="192.0.2.1"), "192.0.2.1"),
        (hello("d1", at="10.9.9.9"), ""),
        (hello("d1", at="d1.example"), ""),
    ],
)
def test_a_node_that_says_nothing_of_where_it_is_has_not_drifted(said, drifted):
    """Nor has one on the same LAN, by its own address there."""
    assert drifted == drift(said, peer("d1"))
    near = WireGuardPeer(public_key="KEY-d1", endpoint=f"{node('d1').node_ip}:51820")
    assert "" == drift(said, near)


def test_meshes_whose_pods_travel_otherwise_are_not_judged():
    """Kilo's peers have more than pods."""
    seen = known(device())
    other = type(seen)(state=device(), was=WELL, mesh=declared_mesh(), node="a1", hellos={})
    assert [] == named(audit_native_peers(other))
    assert () == advice(other, "KEY-d1", node("d1"))
    assert [] == [*audit_native(view(snapshot()))]
