"""What a peer's entries should be, and who says so."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import Expectations, entries_of, good_state, is_understood
from meshwatchd.model.audit import Entries
from meshwatchd.model.snapshot import Forwarding, Link, Neighbour, WireGuardPeer, WireGuardState
from tests.support.flannel_node import DEVICE, LOCAL, changed, entries, good, hello, mac, mesh, snapshot

HELD = entries(3)
OTHER = "66:00:00:00:00:01"


def _first(present, *, known=None, hellos=None, count=3):
    peers = Expectations(
        device=DEVICE, present=present, mesh=mesh(count), node=LOCAL, hellos=hellos or {}, good=known
    ).peers()
    return peers[0]


def test_what_a_peer_says_of_itself_comes_first():
    """Whatever the kernel and the past agree on."""
    peer = _first(HELD, known=good(3), hellos={"n1": hello(1, OTHER)})

    assert (OTHER, True, "n1") == (peer.mac, peer.is_mac_told, peer.node)
    assert "n1 reports" in peer.mac_source


def test_a_hello_of_another_gateway_is_no_word_about_this_one():
    """Names may be reused; the address is what the entry is for."""
    moved = hello(1, OTHER)
    moved = msgspec.structs.replace(moved, view=msgspec.structs.replace(moved.view, overlay_ip="10.42.77.0"))

    assert mac(1) == _first(HELD, hellos={"n1": moved}).mac


def test_tables_that_agree_are_believed_before_the_past():
    """Flannel has followed a peer that came back with another MAC."""
    followed = changed(
        HELD,
        neighbours=(Neighbour(dev=DEVICE, address="10.42.1.0", lladdr=OTHER, is_permanent=True),),
        forwarding=(*HELD.forwarding, Forwarding(dev=DEVICE, lladdr=OTHER, dst="192.168.50.11")),
    )

    assert OTHER == _first(followed, known=good(3)).mac


def test_a_lost_neighbour_is_told_by_the_fdb_or_by_the_past():
    """Whichever there is; without either nothing is expected of it."""
    lost = changed(HELD, neighbours=())
    bare = Entries(routes=HELD.routes)

    assert mac(1) == _first(lost).mac
    assert mac(1) == _first(bare, known=good(3)).mac
    assert ("", Entries(routes=HELD.routes[:1])) == (_first(bare).mac, _first(bare).entries(DEVICE))


def test_a_lost_route_is_put_as_flannel_puts_it():
    """Protocol boot, on-link, no source, no metric; or exactly as it was."""
    lost = changed(HELD, routes=())
    was = msgspec.structs.replace(HELD.routes[0], src="10.42.0.0")
    known = msgspec.structs.replace(good(3), entries=changed(HELD, routes=(was, HELD.routes[1])))

    assert HELD.routes[0] == _first(lost).route
    assert was == _first(lost, known=known).route


def _renumbered():
    """n2 has other pods, and its device another address."""
    held = changed(
        entries(2),
        neighbours=(
            *entries(2).neighbours,
            Neighbour(dev=DEVICE, address="10.42.9.0", lladdr=mac(2), is_permanent=True),
        ),
        forwarding=HELD.forwarding,
        routes=(*entries(2).routes, msgspec.structs.replace(HELD.routes[1], dst="10.42.9.0/24", via="10.42.9.0")),
    )
    declared = mesh(3)
    moved = msgspec.structs.replace(declared.node[2], pod_cidr="10.42.9.0/24", overlay_ip="10.42.9.0")
    return held, msgspec.structs.replace(declared, node=(*declared.node[:2], moved))


def test_a_node_that_was_registered_anew_with_other_pods_keeps_its_mac_and_leaves_no_trace_of_the_former():
    """Flannel changes the address of flannel.1, and the MAC stays: each peer has it behind the new gateway."""
    held, renamed = _renumbered()
    peers = Expectations(device=DEVICE, present=held, mesh=renamed, node=LOCAL, hellos={}, good=good(3)).peers()

    assert ["10.42.1.0", "10.42.9.0"] == [each.gateway for each in peers]


def test_a_neighbour_with_the_mac_of_another_takes_no_trace_from_it():
    """n1's entry was given n2's MAC, and n2's is gone: no mesh knows n2, and it is missed all the same."""
    wrong = changed(
        HELD,
        neighbours=(msgspec.structs.replace(HELD.neighbours[0], lladdr=mac(2)),),
        routes=HELD.routes[:1],
    )
    peers = Expectations(device=DEVICE, present=wrong, mesh=mesh(2), node=LOCAL, hellos={}, good=good(3)).peers()

    assert ["10.42.1.0", "10.42.2.0"] == [each.gateway for each in peers]


@pytest.mark.parametrize(
    ("device", "kind", "is_known"),
    [
        ("flannel.1", "vxlan", True),
        ("flannel.4096", "vxlan", True),
        ("flannel.1", "bridge", False),
        ("flannel-wg", "wireguard", False),
        ("cilium_vxlan", "vxlan", False),
    ],
)
def test_only_flannels_own_devices_are_understood(device, kind, is_known):
    """By name and by kind."""
    assert is_known == is_understood(Link(name=device, index=1, kind=kind, is_up=True, mtu_bytes=1450), device)


def test_what_is_kept_as_good_is_what_stands_still():
    """Of neighbours those that are resolved, of WireGuard no counters."""
    state = WireGuardState(
        device="wg0",
        public_key="k",
        listen_port=1,
        at_ns=9,
        peers=(WireGuardPeer(public_key="p", endpoint="e:1", handshake_ns=5, rx_bytes=6, tx_bytes=7),),
    )
    unresolved = Neighbour(dev=DEVICE, address="10.42.9.0", lladdr="", is_permanent=False)
    seen = snapshot(changed(HELD, neighbours=(*HELD.neighbours, unresolved)))
    kept = good_state(msgspec.structs.replace(seen, wireguard=(state,)), mesh(3), "boot")

    assert HELD == kept.entries == entries_of(seen, DEVICE)
    assert (DEVICE, mac(0), "boot") == (kept.device, kept.lladdr, kept.boot)
    assert WireGuardPeer(public_key="p", endpoint="e:1") == kept.wireguard[0].peers[0]


@pytest.mark.parametrize(
    ("told", "wireguard_ip", "is_flannels"),
    [
        ({"profile": "kilo"}, "192.168.50.11", True),
        ({"profile": "kilo"}, "10.4.0.2", False),
        ({"profile": "kilo"}, None, False),
        ({"profile": "hexmesh", "traits": ("replaces-routes",)}, None, False),
        ({"profile": "hexmesh", "traits": ("star", "of a later version")}, None, True),
        ({"profile": "flannel"}, "10.4.0.2", True),
    ],
)
def test_where_an_agent_replaces_routes_another_location_is_flannels_where_nodes_go_by_the_tunnels_address(
    told, wireguard_ip, is_flannels
):
    """K3s over wg0, each node a location of its own; under Kilo the routes to other locations are Kilo's."""
    declared = mesh(3)
    nodes = tuple(
        msgspec.structs.replace(node, location=node.name, wireguard_ip=wireguard_ip if node.name == "n1" else None)
        for node in declared.node
    )
    peers = Expectations(
        device=DEVICE,
        present=changed(HELD, routes=()),
        mesh=msgspec.structs.replace(declared, node=nodes, **told),
        node=LOCAL,
        hellos={},
        good=None,
    ).peers()

    assert is_flannels == (HELD.routes[0] in [peer.route for peer in peers])
