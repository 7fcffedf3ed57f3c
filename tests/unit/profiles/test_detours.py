"""Which ways around its leg a node has, by what its kernel shows."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.ids import NodeName
from meshwatchd.model.snapshot import DeviceRoute, RouteLookup
from meshwatchd.profiles.detours import addresses_near, relays_of
from tests.sim.star import detouring, star_mesh, star_snapshot, star_topology
from tests.support.lab_mesh import declared_mesh, settings_for

CIDRS = ("10.245.0.0/16", "10.97.0.0/16")


def _shown(**changed):
    return msgspec.structs.replace(star_snapshot("a3", star_mesh()), **changed)


def _ways(snapshot):
    return [(each.place, str(each.relay), each.via, each.device) for each in star_topology("a3", snapshot).detours]


def test_a_worker_may_go_by_its_gateway_and_then_by_its_neighbours():
    """To all that the mesh routes by the leg, services and all."""
    assert [(0, "a1", "lan-of-a1", "eth0"), (1, "a2", "lan-of-a2", "eth0")] == _ways(_shown())
    assert {CIDRS} == {each.prefixes for each in star_topology("a3").detours}
    assert () == star_topology("a1").detours


def test_places_do_not_depend_on_who_leads():
    """Tables and ports stay when the active gateway moves; who is preferred does not."""
    mesh = star_mesh()
    east, west = mesh.location
    other = msgspec.structs.replace(mesh, location=(msgspec.structs.replace(east, leader=NodeName("a2")), west))
    assert (
        [each.name for each in relays_of(mesh, "a3")] == [each.name for each in relays_of(other, "a3")] == ["a1", "a2"]
    )
    assert ["a1", "a3"] == [each.name for each in relays_of(mesh, "a2")]


def test_the_kernel_is_asked_of_neighbours_where_it_is_switched_on():
    """Of the mesh that was found before the one that is declared."""
    declared = settings_for("a3")
    assert () == addresses_near(declared, star_mesh())
    assert ("10.244.1.1", "10.244.2.1") == addresses_near(detouring(declared), star_mesh())
    assert () == addresses_near(detouring(declared), None)


def test_a_neighbour_on_the_link_is_its_own_next_hop():
    """No router is between two nodes of which one routes the other's pods straight."""
    shown = _shown(near=(RouteLookup(address="10.244.1.1", dev="eth0"),))
    assert [(0, "a1", "10.244.1.1", "eth0")] == _ways(shown)


@pytest.mark.parametrize("device", ["vx-submariner", "cni0", "lo"])
def test_what_is_no_way_around_the_leg_is_none(device):
    """The leg itself, the bridge that this node's own pods come in by, and a node that is this one."""
    assert [] == _ways(_shown(near=(RouteLookup(address="10.244.1.1", dev=device, via="x"),)))


def test_a_neighbour_that_no_route_leads_to_is_left_out():
    """The others keep their places."""
    shown = star_snapshot("a3", star_mesh())
    near = tuple(each for each in shown.near if each.address == "10.244.2.1")
    assert [(1, "a2", "lan-of-a2", "eth0")] == _ways(_shown(near=near))


@pytest.mark.parametrize(
    "route",
    [
        DeviceRoute(dst="10.244.0.0/16", dev="vx-submariner", table=254, protocol=4, via="240.168.100.11"),
        DeviceRoute(dst="0.0.0.0/0", dev="vx-submariner", table=254, protocol=4, via="240.168.100.11"),
        DeviceRoute(dst="10.9.0.0/16", dev="vx-submariner", table=7, protocol=4, via="240.168.100.11"),
        DeviceRoute(dst="10.9.0.0/16", dev="vx-submariner", table=254, protocol=4, via="240.168.100.12"),
        DeviceRoute(dst="10.9.0.0/16", dev="eth0", table=254, protocol=4, via="240.168.100.11"),
    ],
    ids=["own pods", "everything", "another table", "another gateway", "another device"],
)
def test_nothing_but_the_mesh_s_routes_by_the_leg_is_led_around_it(route):
    """And nothing that an address of the own location is in."""
    shown = star_snapshot("a3", star_mesh())
    (first, _) = star_topology("a3", _shown(device_routes=(*shown.device_routes, route))).detours
    assert CIDRS == first.prefixes


def test_a_mesh_whose_overlay_is_all_it_has_knows_no_way_around():
    """Kilo's members reach each other by the overlay that would be gone around."""
    assert () == relays_of(declared_mesh(), "a3")
    assert () == relays_of(star_mesh(), "nobody")
