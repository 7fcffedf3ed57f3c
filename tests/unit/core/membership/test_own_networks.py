"""What the kernel of this node knows to be here is no other location's."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.membership.own_networks import OwnNetworks
from meshwatchd.model.ids import NodeName
from meshwatchd.model.snapshot import DeviceRoute, Gateway, Link, Snapshot
from tests.support.lab_mesh import declared_mesh, direct_settings, direct_snapshot

B3 = NodeName("b3")


def _kernel(*networks, routes=(), **more):
    """A node with these networks, one a card, and its mesh devices."""
    links = [
        Link(name="kilo0", index=1, kind="wireguard", is_up=False, mtu_bytes=1420, addresses=("10.244.1.9",)),
    ]
    for number, network in enumerate(networks):
        address, _, length = network.partition("/")
        link = Link(name=f"eth{number}", index=2 + number, kind="", is_up=True, mtu_bytes=1500)
        links.append(msgspec.structs.replace(link, addresses=(address,), prefix_lengths=(int(length),)))
    links[0] = msgspec.structs.replace(links[0], prefix_lengths=(16,))
    told = tuple(DeviceRoute(dst=dst, dev="kilo0", table=254, protocol=4) for dst in routes)
    return Snapshot(links=tuple(links), device_routes=told, **more)


def _mesh(pods):
    """The lab's mesh where a2 claims something else."""
    mesh = declared_mesh()
    nodes = (msgspec.structs.replace(each, pod_cidr=pods) if each.name == "a2" else each for each in mesh.node)
    return msgspec.structs.replace(mesh, node=tuple(nodes))


@pytest.mark.parametrize("pods", ["10.0.0.0/8", "10.2.0.0/24", "10.2.0.128/25"])
def test_a_prefix_that_holds_our_lan_or_a_part_of_it_is_contradicted(pods):
    """Storage and gateways are there that are no nodes of the mesh."""
    (found,) = OwnNetworks().compare(_kernel("10.2.0.13/24"), _mesh(pods), B3)

    assert ("a2", pods, "which overlaps 10.2.0.13/24 of eth0 here") == found[:3]


def test_a_mesh_as_it_should_be_contradicts_nothing():
    """Neither by the tunnels' networks nor by a network card with nobody beside it."""
    kernel = _kernel("10.2.0.13/24", "172.17.0.1/16", "10.244.1.1/32")

    assert () == OwnNetworks().compare(kernel, declared_mesh(), B3)
    assert () == OwnNetworks().compare(direct_snapshot(), direct_settings("n1").mesh, NodeName("n1"))


def test_what_the_agent_routes_away_is_not_on_the_lan_however_wide_its_mask():
    """An agent that is restarted takes its routes away for a moment, and brings them back."""
    networks, mesh = OwnNetworks(), declared_mesh()
    pods = [node.pod_cidr for node in mesh.node if node.location == "onprem"]

    assert () == networks.compare(_kernel("10.2.0.13/8", routes=pods), mesh, B3)
    assert () == networks.compare(_kernel("10.2.0.13/8"), mesh, B3)
    assert 3 == len(OwnNetworks().compare(_kernel("10.2.0.13/8"), mesh, B3))


def test_a_route_of_the_agent_makes_no_network_of_ours_anothers():
    """The agent believes the same lie; our table would still hide the LAN, and its route does not."""
    mesh = _mesh("10.0.0.0/8")
    kernel = _kernel("10.2.0.13/24", routes=[each.pod_cidr for each in mesh.node])

    assert ["a2"] == [each.who for each in OwnNetworks().compare(kernel, mesh, B3)]


def test_a_kernel_that_is_not_told_whole_contradicts_only_what_holds_a_network():
    """Which routes lead away is not known: not all are told, or Kilo's lead into the LAN."""
    gateway = Gateway(dev="eth0", via="10.2.0.11", table=254, protocol=4, routes=3)
    for more in ({"is_bounded": True}, {"gateways": (gateway,)}):
        assert () == OwnNetworks().compare(_kernel("10.2.0.13/8", **more), declared_mesh(), B3)
        assert OwnNetworks().compare(_kernel("10.2.0.13/8", **more), _mesh("10.0.0.0/8"), B3)


def test_a_prefix_that_the_agent_routes_nowhere_is_refused_while_it_routes_others_of_that_location():
    """Addresses of the Internet: without a failover nobody's packets to them cross the mesh."""
    routed = [node.pod_cidr for node in declared_mesh().node if node.location == "onprem" and node.name != "a2"]

    (found,) = OwnNetworks().compare(_kernel("10.2.0.13/24", routes=routed), _mesh("8.8.8.0/24"), B3)

    assert ("a2", "8.8.8.0/24") == found[:2]
    assert "correct a2's pod CIDR" in found.render()


def test_where_the_agent_routes_nothing_it_says_nothing_of_one_prefix():
    """It is ended, or not yet there, or its routes lead into the LAN, of which only the gateways are told."""
    gateway = Gateway(dev="eth0", via="10.2.0.11", table=254, protocol=4, routes=3)
    routed = [node.pod_cidr for node in declared_mesh().node if node.name == "a1"]

    assert () == OwnNetworks().compare(_kernel("10.2.0.13/24"), _mesh("8.8.8.0/24"), B3)
    for more in ({"is_bounded": True}, {"gateways": (gateway,)}):
        assert () == OwnNetworks().compare(_kernel("10.2.0.13/24", routes=routed, **more), _mesh("8.8.8.0/24"), B3)


def test_routes_that_the_agent_takes_away_for_a_moment_are_remembered():
    """It writes the routes of all nodes one after the other, and meanwhile traffic may be on a standby."""
    networks, mesh = OwnNetworks(), declared_mesh()
    pods = [node.pod_cidr for node in mesh.node if node.location == "onprem"]

    assert () == networks.compare(_kernel("10.2.0.13/24", routes=pods), mesh, B3)
    assert () == networks.compare(_kernel("10.2.0.13/24", routes=pods[:1]), mesh, B3)


def test_a_table_of_our_own_proves_no_claim():
    """A route that a failover needs leads to whatever was claimed."""
    mesh = _mesh("8.8.8.0/24")
    kernel = _kernel("10.2.0.13/24", routes=[node.pod_cidr for node in mesh.node if node.name != "a2"])
    ours = DeviceRoute(dst="8.8.8.0/24", dev="mw0", table=7701, protocol=77)

    (found,) = OwnNetworks().compare(
        msgspec.structs.replace(kernel, device_routes=(*kernel.device_routes, ours)), mesh, B3
    )

    assert "8.8.8.0/24" == found.prefix
