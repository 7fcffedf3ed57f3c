"""A node that has lost its WireGuard device, or a peer of it, knows by how it was while all was well."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState, good_state
from meshwatchd.core.audit.wireguard_losses import has_lost_tunnel, look_for_losses, with_unread
from meshwatchd.model.audit import MAIN_TABLE
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState
from tests.support.lab_mesh import declared_mesh, snapshot_of

MESH = declared_mesh()
A1 = next(each for each in MESH.node if each.name == "a1")
PEER = WireGuardPeer(public_key="KEY-A", allowed_ips=("10.244.1.0/24", f"{A1.wireguard_ip}/32"))
STRANGER = WireGuardPeer(public_key="KEY-C", allowed_ips=("10.9.0.0/24",))
DEVICE = WireGuardState(device="kilo0", public_key="OWN", listen_port=51820, at_ns=1, peers=(PEER, STRANGER))
ROUTES = tuple(
    DeviceRoute(dst=prefix, dev="kilo0", table=MAIN_TABLE, protocol=17) for prefix in (A1.pod_cidr, f"{A1.node_ip}/32")
)
"""Kilo's own; they stand as long as Kilo knows the node."""
OTHER = msgspec.structs.replace(DEVICE, device="wg7")
GOOD = GoodState(boot="b", device="flannel.1", wireguard=(DEVICE, OTHER), tunnel_index=5)


def _seen(routes=ROUTES):
    return msgspec.structs.replace(snapshot_of("b1"), device_routes=routes)


def _without(snapshot: Snapshot, *names: str) -> Snapshot:
    return msgspec.structs.replace(snapshot, links=tuple(each for each in snapshot.links if each.name not in names))


def _found(snapshot, *states, good: GoodState | None = GOOD, node="b1", mesh=MESH, unheard=()):
    found = look_for_losses(snapshot, states, mesh=mesh, node=node, good=good, unheard=unheard)
    return [(each.code, each.subject, each.peer, each.culprit) for each in found]


def _with(*peers):
    return msgspec.structs.replace(DEVICE, peers=peers)


def test_a_device_that_is_gone_is_named_at_a_node_that_needs_it():
    """On a member of a Kilo location it is down and carries nothing; where the overlay runs over it, all need it."""
    seen = _without(snapshot_of("b1"), "kilo0")
    over = msgspec.structs.replace(GOOD, is_over_tunnel=True)

    assert [(FaultCode.WIREGUARD_DEVICE_MISSING, "kilo0", "", "b1")] == _found(seen)
    assert [] == _found(_without(snapshot_of("b3"), "kilo0"), node="b3")
    assert [(FaultCode.WIREGUARD_DEVICE_MISSING, "kilo0", "", "b3")] == _found(seen, good=over, node="b3")
    assert [] == _found(seen, good=None), "what was never seen is nobody's loss"


@pytest.mark.parametrize(
    ("peers", "is_lost"),
    [
        ((PEER, STRANGER), False),
        ((STRANGER,), True),
        ((), True),
        ((STRANGER, msgspec.structs.replace(PEER, allowed_ips=())), True),
        ((STRANGER, msgspec.structs.replace(PEER, public_key="NEW")), False),
        ((msgspec.structs.replace(STRANGER, allowed_ips=PEER.allowed_ips),), False),
    ],
    ids=["all there", "removed", "emptied", "bare", "key exchanged", "prefixes taken"],
)
def test_a_peer_that_was_taken_is_named_with_its_node(peers, is_lost):
    """Not one that is no node of the mesh, and not one whose prefixes another peer has."""
    expected = [(FaultCode.WIREGUARD_PEER_MISSING, "KEY-A", "a1", "b1")] if is_lost else []

    assert expected == _found(_seen(), _with(*peers))


def test_a_peer_that_kilo_has_dropped_is_no_loss_of_this_node():
    """A location of one node is dead for more than a minute: peer and routes are gone, on every node that lives.

    Other agents leave the routes, or never had any.
    """
    elsewhere = (msgspec.structs.replace(ROUTES[0], dev="flannel.1"), msgspec.structs.replace(ROUTES[0], table=7701))
    to_tunnels = DeviceRoute(dst="10.4.0.0/16", dev="kilo0", table=MAIN_TABLE, protocol=2)
    plain = msgspec.structs.replace(MESH, profile="flannel")

    assert [] == _found(_seen(()), _with(STRANGER)) == _found(_seen(elsewhere), _with(STRANGER))
    assert [] == _found(_seen((to_tunnels,)), _with(STRANGER)), "it is the device's own"
    emptied = [(FaultCode.WIREGUARD_PEER_MISSING, "KEY-A", "a1", "b1")]
    assert emptied == _found(_seen(()), _with()) == _found(_seen(()), _with(), unheard=("a1", "a2"))
    assert [] == _found(_seen(()), _with(), unheard=("a1", "a2", "a3")), "the only other location is dead"
    assert [(FaultCode.WIREGUARD_PEER_MISSING, "KEY-A", "a1", "b1")] == _found(_seen(()), _with(STRANGER), mesh=plain)


def test_a_peer_whose_node_goes_by_its_tunnel_address_is_lost_as_long_as_that_is_routed():
    """Flannel over wg0, whatever the mesh is called: one route leads to all nodes, and no agent takes peers away."""
    named = msgspec.structs.replace(A1, node_ip=A1.wireguard_ip)
    mesh = msgspec.structs.replace(MESH, node=tuple(named if each is A1 else each for each in MESH.node))
    peer = msgspec.structs.replace(PEER, allowed_ips=(f"{A1.wireguard_ip}/32",))
    good = msgspec.structs.replace(GOOD, wireguard=(_with(peer, STRANGER),))
    route = DeviceRoute(dst="10.4.0.0/16", dev="kilo0", table=MAIN_TABLE, protocol=2)
    found = _found(_seen((route,)), _with(STRANGER), good=good, mesh=mesh)

    assert f"{A1.wireguard_ip}".startswith("10.4.")
    assert [(FaultCode.WIREGUARD_PEER_MISSING, "KEY-A", "a1", "b1")] == found


def test_a_peer_that_is_there_without_prefixes_is_told_apart_from_one_that_is_gone():
    """`wg show` lists it, and the sentence says what is missing of it."""
    bare = _with(msgspec.structs.replace(PEER, allowed_ips=()))
    (found,) = look_for_losses(_seen(), [bare], mesh=MESH, node="b1", good=GOOD)

    assert "peer KEY-A of kilo0, which is a1, has lost all its AllowedIPs" == found.because[0]
    assert found.because[1].startswith("no other peer has its prefixes: ")


def test_a_peer_whose_pods_alone_are_allowed_is_known_by_them():
    """Where pods are routed straight into the tunnel, whose address is the first of them."""
    native = msgspec.structs.replace(A1, wireguard_ip=A1.overlay_ip)
    mesh = msgspec.structs.replace(MESH, node=tuple(native if each is A1 else each for each in MESH.node))
    peer = msgspec.structs.replace(PEER, allowed_ips=(A1.pod_cidr,))
    good = msgspec.structs.replace(GOOD, wireguard=(_with(peer, STRANGER),))

    found = look_for_losses(_seen(), [_with(STRANGER)], mesh=mesh, node="b1", good=good)
    assert [(FaultCode.WIREGUARD_PEER_MISSING, "a1")] == [(each.code, each.peer) for each in found]


def test_a_device_that_is_down_or_of_somebody_else_is_not_judged():
    """Only running devices are handed in, and of those only the mesh's counts."""
    assert [] == _found(snapshot_of("b1"))
    assert [] == _found(snapshot_of("b1"), msgspec.structs.replace(_with(), device="wg7"))


@pytest.mark.parametrize(
    ("good", "is_told"),
    [
        (GOOD, False),
        (msgspec.structs.replace(GOOD, is_over_tunnel=True), True),
        (msgspec.structs.replace(GOOD, device="kilo0"), True),
    ],
    ids=["Kilo", "flannel over it", "BGP"],
)
def test_a_device_that_somebody_took_down_is_named_where_it_carries_everything(good, is_told):
    """Kilo's is down on members. Routes into it went with it, and whoever wrote them would be blamed."""
    seen = snapshot_of("b1")
    links = tuple(msgspec.structs.replace(each, is_up=False) if each.name == "kilo0" else each for each in seen.links)
    expected = [(FaultCode.WIREGUARD_DEVICE_MISSING, "kilo0", "", "b1")] if is_told else []

    assert expected == _found(msgspec.structs.replace(seen, links=links), good=good)


def test_an_overlay_that_was_bound_to_the_device_went_with_it():
    """Which is told once, of the device below."""
    seen = snapshot_of("b1")
    over = msgspec.structs.replace(GOOD, is_over_tunnel=True)

    assert has_lost_tunnel(_without(seen, "kilo0"), MESH, over)
    assert not has_lost_tunnel(seen, MESH, over)
    assert not has_lost_tunnel(_without(seen, "kilo0"), MESH, GOOD)
    assert not has_lost_tunnel(_without(seen, "kilo0"), MESH, None)
    (finding,) = look_for_losses(_without(seen, "kilo0", "flannel.1"), (), mesh=MESH, node="b1", good=over)
    assert "flannel.1 was bound to it and is gone with it" in finding.because


@pytest.mark.parametrize(
    ("state", "good", "known"),
    [
        ({}, GOOD, ("kilo0", "wg7")),
        ({"wireguard": (_with(), OTHER)}, GOOD, ("kilo0", "wg7")),
        ({"tunnel_index": 9}, GOOD, ("wg7",)),
        ({"tunnel_index": 0}, msgspec.structs.replace(GOOD, tunnel_index=0), ("wg7",)),
        ({}, None, ("wg7",)),
    ],
    ids=["no answer", "read", "made anew", "gone", "never seen"],
)
def test_what_gives_no_answer_is_remembered_as_it_was(state, good, known):
    """A peer that is taken meanwhile is missed when the device is read again."""
    here = GoodState(boot="b", device="flannel.1", **{"tunnel_index": 5, "wireguard": (OTHER,), **state})
    kept = with_unread(here, good, "kilo0")

    assert known == tuple(each.device for each in kept.wireguard)
    assert (DEVICE in kept.wireguard) is (state == {} and good is GOOD)


ADDRESS = "10.4.0.1"
WITH_ADDRESS = msgspec.structs.replace(GOOD, tunnel_index=5, tunnel_addresses=(ADDRESS,))


def _kilo0(*, routes=(), lo=(), **changes):
    """The leader's kernel with another kilo0; it has no address there unless it is given one."""
    seen = snapshot_of("b1")
    own = next(each for each in seen.links if each.name == "kilo0")
    others = [each for each in seen.links if each is not own]
    loopback = Link(name="lo", index=1, kind="", is_up=True, mtu_bytes=65536, addresses=lo)
    links = (*others, loopback, msgspec.structs.replace(own, **changes))
    return msgspec.structs.replace(seen, links=links, device_routes=routes)


def test_a_device_that_has_lost_its_address_and_all_routes_is_named():
    """`ip addr del 10.4.0.1/16 dev kilo0`: the kernel deletes every route into it, and reports none of them."""
    (found,) = look_for_losses(_kilo0(), [DEVICE], mesh=MESH, node="b1", good=WITH_ADDRESS)

    assert (FaultCode.WIREGUARD_DEVICE_MISSING, "kilo0", "kilo0") == found.name
    assert ("", "b1") == (found.peer, found.culprit)
    assert f"kilo0 has no IPv4 address, and while all was well it had {ADDRESS}" == found.because[0]
    assert found.because[1].startswith("no route into kilo0 is left")


@pytest.mark.parametrize("prefix", ["fe80::/64", "ff00::/8"])
def test_what_the_kernel_routes_into_each_device_is_no_use_of_it(prefix):
    """wireguard-go's device has both, with IPv6 or without."""
    route = msgspec.structs.replace(ROUTES[0], dst=prefix)

    assert [(FaultCode.WIREGUARD_DEVICE_MISSING, "kilo0", "", "b1")] == _found(
        _kilo0(routes=(route,)), DEVICE, good=WITH_ADDRESS
    )


def test_the_address_of_the_tunnel_is_remembered_while_it_is_up():
    """A member of a Kilo location has it down, with whatever address."""
    up, down = _kilo0(addresses=(ADDRESS,)), _kilo0(addresses=(ADDRESS,), is_up=False)

    assert (ADDRESS,) == good_state(up, MESH, "b").tunnel_addresses
    assert () == good_state(down, MESH, "b").tunnel_addresses
    assert () == good_state(_without(up, "kilo0"), MESH, "b").tunnel_addresses
    assert [] != _found(_kilo0(), DEVICE, good=msgspec.structs.replace(good_state(up, MESH, "b"), wireguard=(DEVICE,)))


@pytest.mark.parametrize(
    ("seen", "good"),
    [
        (_kilo0(addresses=("10.4.0.2",)), WITH_ADDRESS),
        (_kilo0(addresses=(ADDRESS,)), WITH_ADDRESS),
        (_kilo0(), msgspec.structs.replace(WITH_ADDRESS, tunnel_addresses=())),
        (_kilo0(is_up=False), WITH_ADDRESS),
        (_kilo0(index=9), WITH_ADDRESS),
        (_kilo0(routes=ROUTES), WITH_ADDRESS),
        (_kilo0(routes=(msgspec.structs.replace(ROUTES[0], table=1),)), WITH_ADDRESS),
        (_kilo0(addresses_v6=("fd00:4::1",)), WITH_ADDRESS),
        (_kilo0(routes=(msgspec.structs.replace(ROUTES[0], dst="fd00:244:1::/64"),)), WITH_ADDRESS),
        (_kilo0(lo=(ADDRESS,)), WITH_ADDRESS),
        (msgspec.structs.replace(_kilo0(), is_bounded=True), WITH_ADDRESS),
        (_kilo0(), None),
    ],
    ids=[
        "Kilo has numbered it anew",
        "Kilo's agent has ended and removed its routes alone",
        "never had an address, as cilium_wg0",
        "another node leads now",
        "made anew",
        "unnumbered on purpose",
        "Calico's own table",
        "it has gone over to IPv6",
        "IPv6 is routed into it without an address",
        "the address is on another device",
        "not all routes are known",
        "never seen",
    ],
)
def test_a_device_that_is_without_an_address_for_a_reason_is_not_judged(seen, good):
    """What others decide about the device is theirs."""
    assert [] == _found(seen, DEVICE, good=good)


def test_flannels_own_device_is_told_by_its_route():
    """`cluster-route-missing` (core.audit.native_route)."""
    mesh = msgspec.structs.replace(MESH, wireguard_device="flannel-wg", overlay_device="flannel-wg")
    state = msgspec.structs.replace(DEVICE, device="flannel-wg")
    good = msgspec.structs.replace(WITH_ADDRESS, device="flannel-wg", wireguard=(state,))

    assert [] == _found(_kilo0(name="flannel-wg"), good=good, mesh=mesh)
