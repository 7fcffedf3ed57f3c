"""Which mesh is taken: the one found out, the one found out before, the one declared, or none."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.mesh.topology_builder import Recogniser, Surroundings
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import Unrecognised
from meshwatchd.model.plan import Route
from meshwatchd.model.settings import DaemonSettings, Settings
from meshwatchd.model.snapshot import Link, Snapshot, Vxlan
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import PROFILES
from tests.sim.star import detouring, star_mesh, star_snapshot
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

FOUND = msgspec.structs.replace(declared_mesh(), location=tuple(reversed(declared_mesh().location)))


def _recogniser(settings=None, node="a3"):
    return Recogniser(settings or Settings(daemon=DaemonSettings(node=node)), NodeName(node), PROFILES)


def test_nothing_declared_and_nothing_found_is_no_mesh():
    """The reason says what is missing."""
    answer = _recogniser().recognise(snapshot_of("a3"))

    assert isinstance(answer, Unrecognised)
    assert "neither found nor declared" in answer.reason


def test_what_was_found_out_goes_before_what_is_declared():
    """And stays valid while nothing new is found out."""
    recogniser = _recogniser(settings_for("a3"))
    assert isinstance(recogniser.recognise(snapshot_of("a3")), Topology)
    assert declared_mesh() == recogniser.settings.mesh
    found = msgspec.structs.replace(snapshot_of("a3"), mesh=FOUND)
    assert isinstance(recogniser.recognise(found), Topology)
    assert isinstance(recogniser.recognise(snapshot_of("a3")), Topology)

    assert FOUND == recogniser.settings.mesh


def test_a_mesh_that_cannot_be_used_leaves_the_last_one():
    """One without this node says so."""
    recogniser = _recogniser(settings_for("a3"))
    recogniser.recognise(snapshot_of("a3"))
    without = msgspec.structs.replace(FOUND, node=tuple(node for node in FOUND.node if node.name != "a3"))
    answer = recogniser.recognise(msgspec.structs.replace(snapshot_of("a3"), mesh=without))

    assert isinstance(answer, Unrecognised)
    assert "a3 is not among the nodes" in answer.reason
    assert declared_mesh() == recogniser.settings.mesh


@pytest.mark.parametrize("kind", ["flannel", "cilium", "wireguard", "of-a-third-party"])
def test_the_kind_of_mesh_is_no_gate(kind):
    """Whatever devices were found are watched, whoever's profile found them."""
    mesh = msgspec.structs.replace(FOUND, profile=kind)
    topology = _recogniser().recognise(msgspec.structs.replace(snapshot_of("a3"), mesh=mesh))

    assert isinstance(topology, Topology)
    assert kind == topology.profile


def test_devices_without_peers_are_told_by_their_kind():
    """Cilium's VXLAN and Geneve: each packet brings its destination along, and an answer by the device has none."""
    external, ordinary = Vxlan(vni=0, port=8472, is_external=True), Vxlan(vni=1, port=8472)
    links = (
        Link(index=5, name="cilium_vxlan", kind="vxlan", is_up=True, mtu_bytes=1500, vxlan=external),
        Link(index=6, name="flannel.1", kind="vxlan", is_up=True, mtu_bytes=1450, vxlan=ordinary),
        Link(index=7, name="cilium_geneve", kind="geneve", is_up=True, mtu_bytes=1500),
        Link(index=8, name="eth0", kind="", is_up=True, mtu_bytes=1500),
    )
    settings = settings_for("a3")

    assert (5, 7) == Surroundings.of(settings, Snapshot(links=links), is_acting=True).external
    assert () == Surroundings.of(settings, snapshot_of("a3"), is_acting=True).external


@pytest.mark.parametrize(
    "kind", [{"profile": "submariner"}, {"profile": "hexmesh", "traits": ("of a later version", "pod-addressed")}]
)
def test_answers_of_submariner_do_not_leave_by_the_clusters_own_network(kind):
    """Nor of a mesh like it. Requests of other clusters come in there; the way back is the gateway's device."""
    links = (
        Link(index=1, name="lo", kind="", is_up=True, mtu_bytes=65536, addresses=("127.0.0.1",)),
        Link(index=2, name="eth0", kind="", is_up=True, mtu_bytes=1500, addresses=("192.168.100.13",)),
        Link(index=3, name="vx-submariner", kind="vxlan", is_up=True, mtu_bytes=1450, addresses=("240.168.100.13",)),
    )
    settings = settings_for("a3")
    gateways = msgspec.structs.replace(settings.mesh, wireguard_device="", overlay_device="vx-submariner", **kind)
    mesh = msgspec.structs.replace(settings, mesh=gateways)

    assert (2,) == Surroundings.of(mesh, Snapshot(links=links), is_acting=True).external
    assert () == Surroundings.of(settings, Snapshot(links=links), is_acting=True).external


def test_a_third_party_s_star_is_gone_through_as_one():
    """By what it is, not by its name: its members have no tunnel, and nobody stands by."""
    mesh = msgspec.structs.replace(FOUND, profile="of-a-third-party", wireguard_device="", traits=("star",))
    topology = _recogniser().recognise(msgspec.structs.replace(snapshot_of("a3"), mesh=mesh))

    assert isinstance(topology, Topology)
    assert topology.is_overlay_star
    answer = _recogniser().recognise(
        msgspec.structs.replace(snapshot_of("a3"), mesh=msgspec.structs.replace(mesh, traits=()))
    )
    assert isinstance(answer, Unrecognised)


def test_no_way_around_a_leg_is_known_where_that_is_switched_off():
    """Whatever the kernel said of neighbours."""
    declared = msgspec.structs.replace(settings_for("a3"), mesh=star_mesh())
    seen = star_snapshot("a3", star_mesh())
    known = [_recogniser(each).recognise(seen) for each in (declared, detouring(declared))]
    assert [[], ["a1", "a2"]] == [[str(each.relay) for each in topology.detours] for topology in known]


def _places(recogniser, snapshot):
    return {str(each.relay): each.place for each in recogniser.recognise(snapshot).detours}


def test_a_way_around_a_leg_keeps_its_place_when_nodes_come_and_go():
    """Its table is where the rule of traffic leads."""
    mesh = star_mesh()
    first = next(each for each in mesh.node if each.name == "a1")
    added = msgspec.structs.replace(first, name=NodeName("a0"), node_ip="10.244.9.1", overlay_ip="240.168.100.19")
    wider = msgspec.structs.replace(mesh, node=(*mesh.node, added))
    narrower = msgspec.structs.replace(wider, node=tuple(each for each in wider.node if each.name != "a2"))
    recogniser = _recogniser(detouring(msgspec.structs.replace(settings_for("a3"), mesh=mesh)))

    def shown(of):
        return msgspec.structs.replace(star_snapshot("a3", of), mesh=of)

    assert {"a1": 0, "a2": 1} == _places(recogniser, shown(mesh))
    assert {"a1": 0, "a2": 1, "a0": 2} == _places(recogniser, shown(wider))
    assert {"a1": 0, "a0": 2} == _places(recogniser, shown(narrower))
    assert {"a1": 0, "a2": 1, "a0": 2} == _places(recogniser, shown(wider))


def test_the_first_places_are_those_of_an_earlier_process():
    """As its tables show: a rule that is adopted must lead by whom it has led before."""
    declared = detouring(msgspec.structs.replace(settings_for("a3"), mesh=star_mesh()))
    routes = tuple(
        Route(dst="10.245.0.0/16", table=table, dev="eth0", via=f"lan-of-a{number}")
        for table, number in ((7782, 1), (7780, 2), (7783, 2), (7785, 1))
    )
    shown = msgspec.structs.replace(star_snapshot("a3", star_mesh()), routes=routes)
    assert {"a1": 2, "a2": 0} == _places(_recogniser(declared), shown)
