"""What devices promise: the field's constants, the smallest of a path, and devices that promise too much."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.pmtu.expected_mtu import FRAGMENT_BYTES, Misfit, read_stack
from meshwatchd.core.pmtu.session_plan import measured
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Link, WireGuardPeer, WireGuardState
from tests.support import cluster_node, switch_node
from tests.support.lab_mesh import (
    direct_settings,
    direct_snapshot,
    direct_topology,
    planner_of,
    settings_for,
    snapshot_of,
    topology_of,
    with_ipip,
)


def _with(name, **mtus):
    """The node's snapshot with other MTUs, by device name with its dots and numbers left out."""
    snapshot = snapshot_of(name)
    links = tuple(
        msgspec.structs.replace(link, mtu_bytes=mtus.get(link.name.split(".")[0], link.mtu_bytes))
        for link in snapshot.links
    )
    return msgspec.structs.replace(snapshot, links=links)


def _sizes(name, snapshot, planner=None):
    planner = planner or planner_of(name)
    stack = read_stack(snapshot, planner)
    plans = measured(lay_out(planner, has_standby=True), planner)
    return {
        (plan.layer, plan.path, plan.peer): stack.expected(plan, planner) for plan in plans if not plan.may_fragment
    }


def test_the_lab_of_flannel_promises_the_usual_sizes():
    """1500 - 50 in the overlay, 1420 through the tunnel and so on every path."""
    sizes = _sizes("b3", snapshot_of("b3"))

    assert (1500, 1500) == sizes[Layer.UNDERLAY, 0xFFFF, "b1"]
    assert (1450, 1450) == sizes[Layer.OVERLAY, 0xFFFF, "b1"]
    assert {(1420, 1420)} == {size for (layer, _, _), size in sizes.items() if layer is Layer.RELAY}


@pytest.mark.parametrize(
    ("underlay", "tunnel", "overlay"), [(1492, 1412, 1442), (1460, 1380, 1410), (9000, 8920, 8950)]
)
def test_other_underlays(underlay, tunnel, overlay):
    """PPPoE, GCP and jumbo frames, each device with what its maker subtracts."""
    sizes = _sizes("b1", _with("b1", eth0=underlay, kilo0=tunnel, flannel=overlay))

    assert (tunnel, tunnel) == sizes[Layer.WIREGUARD, 0, "a1"]
    assert (overlay, overlay) == sizes[Layer.OVERLAY, 0xFFFF, "b2"]


def test_ipip_inside_the_overlay_costs_twenty_more():
    """The member's way to its leader is the overlay's size less one IP header, and its paths stay at the tunnel's."""
    planner = Planner(topology_of("b3"), with_ipip(settings_for("b3")))
    sizes = _sizes("b3", snapshot_of("b3"), planner)

    assert (1430, 1430) == sizes[Layer.IPIP, 0xFFFF, "b1"]
    assert (1420, 1420) == sizes[Layer.RELAY, 0, "a1"]


def test_a_tunnel_that_is_too_large_is_a_misfit():
    """1450 over 1500: 60 bytes of WireGuard do not fit; the path may send what the device takes."""
    snapshot = _with("b1", kilo0=1450)

    assert (Misfit(Layer.WIREGUARD, "kilo0", 1450, 1440),) == read_stack(snapshot, planner_of("b1")).misfits
    assert (1440, 1450) == _sizes("b1", snapshot)[Layer.WIREGUARD, 0, "a1"]


def test_an_overlay_that_is_too_large_is_a_misfit():
    """The seed's wrong guess: flannel.1 at 1500 lives by fragments."""
    snapshot = _with("b3", flannel=1500)

    assert (Misfit(Layer.OVERLAY, "flannel.1", 1500, 1450),) == read_stack(snapshot, planner_of("b3")).misfits
    assert (1450, 1500) == _sizes("b3", snapshot)[Layer.OVERLAY, 0xFFFF, "b1"]


def test_endpoints_of_ip6_cost_twenty_more():
    """80 bytes instead of 60: 1420 is the most, and Kilo's default."""
    peer = WireGuardPeer(public_key="key", endpoint="[2001:db8::1]:51820")
    state = WireGuardState(device="kilo0", public_key="own", listen_port=51820, at_ns=0, peers=(peer,))
    snapshot = msgspec.structs.replace(_with("b1", kilo0=1440), wireguard=(state,))

    assert (Misfit(Layer.WIREGUARD, "kilo0", 1440, 1420),) == read_stack(snapshot, planner_of("b1")).misfits


def test_an_overlay_over_the_tunnel_has_the_tunnel_below_it():
    """Its FDB points to addresses of the WireGuard network: 1420 - 50."""
    entry = Forwarding(dev="flannel.1", lladdr="22:aa:aa:aa:aa:01", dst="10.4.0.1")
    snapshot = msgspec.structs.replace(snapshot_of("b1"), forwarding=(entry,))

    assert 1370 == read_stack(snapshot, planner_of("b1")).overlay


def test_a_device_of_cilium_is_no_misfit():
    """cilium_vxlan has 1500 and no address: its routes have the MTU. The overlay's address is on cilium_host."""
    topology = msgspec.structs.replace(topology_of("b3"), overlay_device="cilium_vxlan")
    planner = Planner(topology, settings_for("b3"))
    links = (
        Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("10.2.0.13",)),
        Link(name="cilium_vxlan", index=3, kind="vxlan", is_up=True, mtu_bytes=1500),
        Link(name="cilium_host", index=4, kind="veth", is_up=True, mtu_bytes=1500, addresses=("10.244.6.0",)),
    )
    stack = read_stack(msgspec.structs.replace(snapshot_of("b3"), links=links), planner)

    assert ((), 1450, 1450) == (stack.misfits, stack.overlay, stack.overlay_device)


def test_an_unknown_underlay_promises_nothing():
    """No link has the node's address: nothing is measured against a guess."""
    snapshot = msgspec.structs.replace(snapshot_of("b3"), links=snapshot_of("b3").links[1:])
    sizes = _sizes("b3", snapshot)

    assert (0, 0) == sizes[Layer.UNDERLAY, 0xFFFF, "b1"]
    assert (1450, 1450) == sizes[Layer.OVERLAY, 0xFFFF, "b1"]


def test_probes_that_test_fragments_are_longer_than_the_underlay_takes():
    """Two fragments, and short enough for every reflector."""
    planner = planner_of("b3")
    plans = measured(lay_out(planner, has_standby=True), planner)
    (plan, *_) = (plan for plan in plans if plan.may_fragment)

    assert (1500 + FRAGMENT_BYTES,) * 2 == read_stack(snapshot_of("b3"), planner).expected(plan, planner)
    assert (9216,) * 2 == read_stack(_with("b3", eth0=9000), planner).expected(plan, planner)


def test_under_a_tunnel_that_has_the_nodes_own_address_is_the_way_out():
    """K3s over wg0: node-ip is wg0's, which fits eth0 or does not; paths carry what flannel.1 does."""
    planner = Planner(direct_topology("n1"), direct_settings("n1"))
    wg0, flannel = direct_snapshot().links
    snapshot = msgspec.structs.replace(
        direct_snapshot(),
        links=(
            Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("192.168.8.11",)),
            msgspec.structs.replace(wg0, addresses=("10.8.0.1",)),
            msgspec.structs.replace(flannel, addresses=("10.42.1.0",)),
        ),
        default_routes=(DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via="192.168.8.1"),),
        forwarding=(Forwarding(dev="flannel.1", lladdr="02:00:00:00:00:02", dst="10.8.0.2"),),
    )

    stack = read_stack(snapshot, planner)
    assert (1420, 1420, 1370, ()) == (stack.underlay, stack.wireguard, stack.overlay, stack.misfits)
    sizes = _sizes("n1", snapshot, planner)
    assert (1370, 1370) == sizes[Layer.RELAY, 0, "n2"]
    assert (1420, 1420) == sizes[Layer.WIREGUARD, 0, "n2"]
    narrow = msgspec.structs.replace(snapshot.links[0], mtu_bytes=1400)
    small = msgspec.structs.replace(snapshot, links=(narrow, *snapshot.links[1:]))
    assert Misfit(Layer.WIREGUARD, "wg0", 1420, 1340) in read_stack(small, planner).misfits


def test_nodes_that_are_known_by_their_wireguard_address_have_no_misfit():
    """K3s over wg0: the overlay's underlay is the tunnel, and what is below that nobody tells."""
    snapshot = snapshot_of("b1")
    links = tuple(
        msgspec.structs.replace(link, addresses=("10.2.0.11",) if link.name == "kilo0" else ())
        if link.name in {"eth0", "kilo0"}
        else msgspec.structs.replace(link, mtu_bytes=1370)
        for link in snapshot.links
    )
    stack = read_stack(msgspec.structs.replace(snapshot, links=links), planner_of("b1"))

    assert ((), 1420, 1420, 1370) == (stack.misfits, stack.underlay, stack.wireguard, stack.overlay)


@pytest.mark.parametrize(
    ("kind", "card", "port", "misfit"),
    [
        ("antrea", 1500, 1450, 0),
        ("antrea", 1500, 1500, 1450),
        ("kube-ovn", 1500, 1400, 0),
        ("kube-ovn", 1450, 1400, 1392),
    ],
)
def test_a_switchs_port_that_is_too_large_for_the_tunnel_is_a_misfit(kind, card, port, misfit):
    """Open vSwitch sets DF on outer packets: what is too large is lost."""
    device = switch_node.GATEWAYS[kind].name
    seen = switch_node.changed(switch_node.snapshot(kind), "eth0", mtu_bytes=card)
    seen = switch_node.changed(seen, device, mtu_bytes=port)
    planner = switch_node.planner(kind, seen)
    sizes = _sizes("n1", seen, planner)

    found = (Misfit(Layer.OVERLAY, device, port, misfit),) if misfit else ()
    assert found == read_stack(seen, planner).misfits
    assert {(misfit or port, port)} == {size for (layer, _, _), size in sizes.items() if layer is Layer.RELAY}
    assert {(card, card)} == {size for (layer, _, _), size in sizes.items() if layer is Layer.UNDERLAY}


@pytest.mark.parametrize(("is_encrypted", "overlay"), [(True, 1355), (False, 1450)])
def test_ciliums_own_wireguard_is_below_its_overlay(is_encrypted, overlay):
    """It takes 95 bytes of each packet, and VXLAN 50 of what is left."""
    seen = cluster_node.snapshot()
    links = tuple(msgspec.structs.replace(x, is_up=is_encrypted or x.name != "cilium_wg0") for x in seen.links)
    planner = Planner(cluster_node.topology(), cluster_node.settings())
    stack = read_stack(msgspec.structs.replace(seen, links=links), planner)

    assert (1500, overlay, ()) == (stack.underlay, stack.overlay, stack.misfits)
