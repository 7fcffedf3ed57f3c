"""Which sessions each node holds, written out for the lab's mesh."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.core.probing.scouts import scouts
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import NO_PATH, REMOTE_BIG, SUBSET, lay_out, watched
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.port_map import STRANGE_PORT
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH
from tests.support import switch_node
from tests.support.lab_mesh import (
    NAMES,
    big_mesh,
    direct_settings,
    direct_topology,
    planner_of,
    settings_for,
    snapshot_of,
    topology_of,
)


def _plans(name, *, has_standby=True, **wanted):
    plans = lay_out(planner_of(name), has_standby=has_standby)
    return [p for p in plans if all(getattr(p, key) == value for key, value in wanted.items())]


def _peers(name, **wanted):
    return [str(plan.peer) for plan in _plans(name, flow=FlowClass.FRESH, **wanted)]


_SEEN_FROM_ONPREM = dict(
    enumerate([["b1", "b2", "b3"], ["b2", "b3"], ["b1", "b2", "b3"], ["b2", "b3"], ["b1", "b2", "b3"]])
)
_SEEN_FROM_CLOUD = dict(
    enumerate([["a1", "a2", "a3"], ["a1", "a2", "a3"], ["a2", "a3"], ["a2", "a3"], ["a1", "a2", "a3"]])
)


@pytest.mark.parametrize(
    ("name", "peers"),
    [
        ("a1", {path: _SEEN_FROM_ONPREM[path] for path in (0, 1, 4)}),
        ("a2", _SEEN_FROM_ONPREM),
        ("a3", _SEEN_FROM_ONPREM),
        ("b1", {path: _SEEN_FROM_CLOUD[path] for path in (0, 2, 4)}),
        ("b2", _SEEN_FROM_CLOUD),
        ("b3", _SEEN_FROM_CLOUD),
    ],
)
def test_each_path_is_probed_by_those_who_could_take_it(name, peers):
    """A bypassed leader is not reached over a path that goes around it, and does not probe what it never takes."""
    found = {path: _peers(name, layer=Layer.RELAY, path=path) for path in range(5)}

    assert peers == {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("name", NAMES)
def test_every_fresh_session_of_a_path_has_a_control(name):
    """Fresh dead and known alive is what names new flows only; known dead is the whole path, seen without new flows."""
    fresh = _plans(name, layer=Layer.RELAY, flow=FlowClass.FRESH)
    pinned = _plans(name, layer=Layer.RELAY, flow=FlowClass.PINNED)

    assert [(p.peer, p.path, p.port) for p in fresh] == [(p.peer, p.path, p.port) for p in pinned]


def test_ports_select_the_path():
    """18618 segments, 18619 what real traffic does, 18620 + p path p; one that is none of ours between pods."""
    assert {18620 + path for path in range(5)} == {p.port for p in _plans("a3", layer=Layer.RELAY)}
    assert {18619} == {p.port for p in _plans("a3", layer=Layer.EFFECTIVE)}
    assert {18618, 33434} == {p.port for p in _plans("a3", path=NO_PATH)}


def test_segments_are_probed_at_the_layers_own_addresses():
    """Underlay by node address, overlay by overlay address, the tunnel by WireGuard address."""
    (underlay,) = _plans("a3", layer=Layer.UNDERLAY, peer="a1")
    overlay = _plans("a3", layer=Layer.OVERLAY, peer="a1")
    wireguard = _plans("a1", layer=Layer.WIREGUARD)

    assert ("192.168.100.13", "192.168.100.11") == (underlay.source, underlay.destination)
    assert {("10.244.3.0", "10.244.1.0")} == {(plan.source, plan.destination) for plan in overlay}
    assert {("10.4.0.2", "10.4.0.1", "b1", 0)} == {(p.source, p.destination, p.peer, p.path) for p in wireguard}
    assert {FlowClass.FRESH, FlowClass.PINNED} == {p.flow for p in overlay} == {p.flow for p in wireguard}


@pytest.mark.parametrize("name", ["a2", "a3", "b2", "b3"])
def test_only_leaders_probe_the_tunnel(name):
    """The others have no address on it."""
    assert [] == _plans(name, layer=Layer.WIREGUARD)


def test_effective_probes_go_to_every_remote_node():
    """They follow whatever real traffic follows, and prove a move."""
    assert ["b1", "b2", "b3"] == _peers("a3", layer=Layer.EFFECTIVE)


@pytest.mark.parametrize(("path", "ends"), [(0, ("10.2.0.13", "192.168.100.13")), (3, ("10.244.6.0", "10.244.3.0"))])
def test_a_standby_proves_that_it_carries_what_pods_send(path, ends):
    """A relay that forwards packets of nodes and drops those of pods is no standby."""
    (fresh,) = _plans("b3", layer=Layer.RELAY, path=path, peer="a3", flow=FlowClass.FRESH)
    (established,) = _plans("b3", layer=Layer.RELAY, path=path, peer="a3", flow=FlowClass.PINNED)

    assert ends == (fresh.source, fresh.destination)
    assert ("10.2.0.13", "192.168.100.13") == (established.source, established.destination)


def test_without_standbys_only_the_meshs_own_path_is_probed():
    """In observe mode links and selectors do not exist; probes of path 1 would go over path 0 and lie."""
    assert {0} == {plan.path for plan in _plans("a3", has_standby=False, layer=Layer.RELAY)}
    assert _plans("a3", has_standby=False, layer=Layer.OVERLAY)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_unique_and_count_up(name):
    """A session id is an index; two sessions of one class to one address and port would share their flows."""
    plans = lay_out(planner_of(name), has_standby=True)

    assert list(range(len(plans))) == [plan.session for plan in plans]
    assert len(plans) == len({(p.canary is None, p.flow, p.source, p.destination, p.port) for p in plans})


@pytest.mark.parametrize("name", NAMES)
def test_a_node_probes_itself_over_loopback_only(name):
    """One session from its own address to its own reflector; every other peer is another node."""
    (own,) = _plans(name, layer=Layer.SELF)
    known = {node.name for node in topology_of(name).mesh.nodes} - {name}

    assert (name, own.source, 18618) == (own.peer, own.destination, own.port)
    assert {plan.peer for plan in _plans(name) if plan is not own and plan.layer is not Layer.SELF} <= known


def _extended(name, **mesh):
    """The node's plans in a mesh with more in it; `node` replaces fields of every node by a function of its number."""
    settings = settings_for(name)
    change = mesh.pop("node", lambda _number: {})
    canaries = mesh.pop("canary", ())
    nodes = tuple(msgspec.structs.replace(node, **change(number)) for number, node in enumerate(settings.mesh.node, 1))
    settings = msgspec.structs.replace(
        settings,
        mesh=msgspec.structs.replace(settings.mesh, node=nodes, **mesh),
        probe=msgspec.structs.replace(settings.probe, canary=canaries),
    )
    topology = OVERLAY_MESH.recognise(snapshot_of(name), settings.mesh, name)
    assert isinstance(topology, Topology), topology
    return lay_out(Planner(topology, settings), has_standby=True)


@pytest.mark.parametrize(("name", "ways"), [("b3", [("10.244.6.0", "10.244.4.0", "b1")]), ("b1", []), ("a1", [])])
def test_members_reach_their_leader_out_of_the_ipip_device(name, ways):
    """At the address that is the gateway of Kilo's own routes; a leader uses the device for nothing of its own."""
    plans = _extended(name, ipip_device="tunl0")
    ipip = [plan for plan in plans if plan.layer is Layer.IPIP]

    assert ways == [(plan.source, plan.destination, plan.peer) for plan in ipip]
    assert {""} == {plan.device for plan in plans if plan.layer not in (Layer.IPIP, Layer.WIREGUARD)}
    assert all("tunl0" == plan.device for plan in ipip)
    assert [] == _plans(name, layer=Layer.IPIP)


def test_the_tunnel_is_probed_out_of_its_device():
    """Whatever the routes say: an agent of Kilo's that was killed leaves a route to the far end by its former leader.

    The IPv6 twin, which may only warn, is left to the routes: no probe over IPv6 is bound to a device.
    """
    addresses = {"node_ip6": "fd00:2::{}", "overlay_ip6": "fd00:244::{}", "wireguard_ip6": "fd00:4::{}"}
    plans = _extended("b1", node=lambda n: {k: v.format(n) for k, v in addresses.items()})
    tunnel = [plan for plan in plans if plan.layer is Layer.WIREGUARD]

    assert {(False, "kilo0", FlowClass.FRESH), (False, "kilo0", FlowClass.PINNED), (True, "", FlowClass.FRESH)} == {
        (plan.is_ip6, plan.device, plan.flow) for plan in tunnel
    }
    assert {""} == {plan.device for plan in plans if plan not in tunnel}


def test_layers_with_ip6_at_both_ends_have_a_twin():
    """After all others, fresh, on the same ports, and without any on a path that needs tables of ours."""
    addresses = {"node_ip6": "fd00:2::{}", "overlay_ip6": "fd00:244::{}", "wireguard_ip6": "fd00:4::{}"}
    plans = _extended("b1", node=lambda n: {} if n == 6 else {k: v.format(n) for k, v in addresses.items()})
    twins = [plan for plan in plans if plan.is_ip6]
    lone = [plan for plan in plans if not plan.is_ip6 and plan.layer is not Layer.POD_NETWORK]

    assert {(Layer.UNDERLAY, "b2"), (Layer.OVERLAY, "b2"), (Layer.WIREGUARD, "a1")} | {
        (Layer.RELAY, name) for name in ("a1", "a2", "a3")
    } == {(plan.layer, plan.peer) for plan in twins}
    assert {FlowClass.FRESH} == {plan.flow for plan in twins}
    assert {(p.layer, p.peer, p.path, p.flow, p.port) for p in twins} <= {
        (p.layer, p.peer, p.path, p.flow, p.port) for p in lone
    }
    assert all(plan.is_advisory for plan in twins)
    assert max(plan.session for plan in lone) < min(plan.session for plan in twins)


def test_canaries_of_other_locations_are_asked():
    """The mesh is not on the way to the own location's, and a node that was not found is in no location."""
    canaries = (
        Canary(name="ghost", address="10.244.9.9", port=53, node=NodeName("z9")),
        Canary(name="near", address="10.244.6.9", port=53, node=NodeName("b3")),
        Canary(name="far", address="fd00:244:3::9", port=80, node=NodeName("a3"), kind=CanaryKind.TCP),
    )
    plans = _extended("b1", canary=canaries)
    (plan,) = [plan for plan in plans if plan.layer is Layer.POD]

    assert (canaries[2], "a3", "fd00:244:3::9", 80, "") == (
        plan.canary,
        plan.peer,
        plan.destination,
        plan.port,
        plan.source,
    )
    assert plan.is_advisory
    assert list(range(len(plans))) == [each.session for each in plans]


def test_a_canary_in_bulk_is_asked_twice():
    """Once as a service that has to accept connections: beside that the loss of full segments says something."""
    canary = Canary(name="web", address="10.244.3.9", port=80, node=NodeName("a3"), kind=CanaryKind.BULK)
    small, bulk = (plan for plan in _extended("b1", canary=(canary,)) if plan.layer is Layer.POD)

    assert canary == bulk.canary
    assert small.canary is not None
    assert ("web", CanaryKind.TCP, CanaryExpect.SERVICE) == (small.canary.name, small.canary.kind, small.canary.expect)
    assert (bulk.peer, bulk.destination, bulk.port) == (small.peer, small.destination, small.port)


@pytest.mark.parametrize(("name", "near", "far"), [("a3", "a1 a2", "b1 b2 b3"), ("b1", "b2 b3", "a1 a2 a3")])
def test_the_pod_network_is_probed_between_addresses_among_pods(name, near, far):
    """Probes to the other location, since the overlay to neighbours is probed so; closed ports of all nodes."""
    own = next(node for node in topology_of(name).mesh.nodes if node.name == name)
    plans = _plans(name, layer=Layer.POD_NETWORK)
    ours = [plan for plan in plans if plan.canary is None]

    assert far.split() == [plan.peer for plan in ours]
    assert {own.overlay_ip} == {plan.source for plan in plans}
    assert {(FlowClass.PINNED, 18618)} == {(plan.flow, plan.port) for plan in ours}
    for kind, port in ((CanaryKind.TCP, 18618), (CanaryKind.UDP, 33434)):
        closed = [plan for plan in plans if plan.canary is not None and plan.canary.kind is kind]
        assert sorted((*near.split(), *far.split())) == sorted(plan.peer for plan in closed)
        assert {(FlowClass.FRESH, port)} == {(plan.flow, plan.port) for plan in closed}
        assert {CanaryExpect.ANSWER} == {plan.canary.expect for plan in closed if plan.canary}
    assert all(plan.is_advisory for plan in plans)


def test_what_was_asked_before_other_udp_was_keeps_its_number():
    """Answers in an older journal name sessions by number, canaries' as well."""
    canary = Canary(name="web", address="10.244.1.9", port=80, node=NodeName("a3"))
    plans = _extended("b1", canary=(canary,))
    strange = [plan.session for plan in plans if plan.port == STRANGE_PORT]

    assert [plan.session for plan in plans][-len(strange) :] == strange


@pytest.mark.parametrize("missing", ["overlay_ip", "pod_cidr"])
@pytest.mark.parametrize(("number", "asked"), [(3, 2), (6, 0)])
def test_a_node_without_an_address_among_its_pods_neither_asks_nor_is_asked(missing, number, asked):
    """Its overlay's address is of another network, or nobody knows where its pods are."""
    value = "172.16.0.1" if missing == "overlay_ip" else ""
    plans = _extended("b3", node=lambda n: {missing: value} if n == number else {})

    udp = [plan for plan in plans if plan.layer is Layer.POD_NETWORK and plan.canary is None]
    assert asked == len(udp)
    assert "a3" not in {plan.peer for plan in udp}


def test_where_the_overlay_stands_on_the_tunnel_only_closed_ports_are_new():
    """The paths themselves are probed between these addresses."""
    settings = direct_settings("n1")
    plans = lay_out(Planner(direct_topology("n1"), settings), has_standby=False)
    found = [plan for plan in plans if plan.layer is Layer.POD_NETWORK]

    assert ["n2", "n3", "n2", "n3"] == [plan.peer for plan in found]
    assert all(plan.canary is not None for plan in found)


@pytest.mark.parametrize(("observer", "location", "count"), [("a2", "b", 3), ("a2", "b", REMOTE_BIG), ("b2", "b", 64)])
def test_every_node_of_a_location_of_ordinary_size_is_watched(observer, location, count):
    """By everybody; of the own location that is larger."""
    mesh = big_mesh(3, count)

    assert {node.name for node in mesh.members(location)} - {observer} == watched(mesh, observer, location)


def test_every_member_of_a_big_location_is_watched_by_several():
    """A thousand nodes look after a thousand: relays are seen by all, the others evenly, and nobody is left out."""
    mesh = big_mesh(1_000, 1_000)
    counts = Counter(name for node in mesh.members("a") for name in watched(mesh, node.name, "b"))
    members = [counts[node.name] for node in mesh.members("b") if node.name not in {"b0", "b1"}]

    assert (1_000, 1_000) == (counts["b0"], counts["b1"])
    assert 998 == len(members)
    assert min(members) >= 3
    assert max(members) <= 3 * SUBSET
    # Relays and scouts besides, who know the other location's scout that relays nothing whatever its weight.
    assert 3 >= sum(members) - 1_000 * SUBSET >= 0


def test_scouts_of_big_locations_know_each_other():
    """Each asks the other location's scouts besides its own share, or their leg would be asked half as often."""
    mesh = big_mesh(1_000, 1_000)

    assert all(set(scouts(mesh, "b", "a")) <= watched(mesh, name, "b") for name in scouts(mesh, "a", "b"))


def test_the_own_location_may_be_big_as_well():
    """Nobody watches itself, and every member is somebody's duty."""
    mesh = big_mesh(3, 1_000)
    chosen = {node.name: watched(mesh, node.name, "b") for node in mesh.members("b")}

    assert all(name not in others for name, others in chosen.items())
    assert {node.name for node in mesh.members("b")} == set().union(*chosen.values())
    assert {SUBSET + 1, SUBSET + 2} == {len(others) for others in chosen.values()}


def test_a_member_that_leaves_changes_few_duties():
    """Only those who watched it choose another one."""
    before, after = big_mesh(3, 201), big_mesh(3, 200)
    kept = [watched(after, f"a{number}", "b") >= watched(before, f"a{number}", "b") - {"b200"} for number in range(3)]

    assert [True] * 3 == kept


def test_where_the_overlay_goes_straight_the_path_is_probed_through_it():
    """Flannel over wg0: node addresses are the tunnel's, and would never cross the device that pods depend on."""
    plans = lay_out(Planner(direct_topology("n1"), direct_settings("n1")), has_standby=False)
    ways = {
        layer: {(plan.source, plan.destination) for plan in plans if plan.layer is layer}
        for layer in (Layer.RELAY, Layer.EFFECTIVE, Layer.WIREGUARD)
    }

    overlay = {("10.42.1.0", "10.42.2.0"), ("10.42.1.0", "10.42.3.0")}
    tunnel = {("10.8.0.1", "10.8.0.2"), ("10.8.0.1", "10.8.0.3")}
    assert {Layer.RELAY: overlay, Layer.EFFECTIVE: overlay, Layer.WIREGUARD: tunnel} == ways


@pytest.mark.parametrize(("name", "peers"), [("a1", ["a2", "a3"]), ("a2", ["a1"]), ("a3", ["a1"])])
def test_an_overlay_that_joins_members_with_their_leader_is_probed_there_alone(name, peers):
    """Submariner's vx-submariner: a worker's frames go to the gateway, and no worker has an answer for another."""
    star = msgspec.structs.replace(topology_of(name), is_overlay_star=True)
    plans = lay_out(Planner(star, planner_of(name).settings), has_standby=False)

    fresh = [plan for plan in plans if plan.flow is FlowClass.FRESH]
    assert peers == sorted({str(plan.peer) for plan in fresh if plan.layer is Layer.OVERLAY})
    assert 2 == len({plan.peer for plan in fresh if plan.layer is Layer.UNDERLAY})


def test_where_the_overlay_stands_on_the_nodes_own_network_their_hosts_are_asked_beside_it():
    """Antrea without encryption: from port to port through the switch's tunnel, and from card to card below it."""
    planner = switch_node.planner("antrea", switch_node.snapshot("antrea"))
    plans = lay_out(planner, has_standby=True)
    kinds = kinds_of(planner, plans)
    below = [plan for plan in plans if plan.layer is Layer.UNDERLAY]

    assert [("10.79.1.12", "n2"), ("10.79.1.13", "n3")] == sorted((p.destination, p.peer) for p in below)
    assert all(kinds[plan.session].is_carrier and plan.device == "" for plan in below)
    assert {"10.10.1.1", "10.10.2.1"} == {p.destination for p in plans if p.layer is Layer.RELAY}
    assert not [plan for plan in plans if plan.layer is Layer.WIREGUARD]
    assert {"10.10.1.1", "10.10.2.1"} == {p.destination for p in plans if p.layer is Layer.POD_NETWORK}
    near = [plan for plan in _plans("a2") if plan.layer is Layer.UNDERLAY]
    assert near
    assert not [p for p in near if kinds_of(planner_of("a2"), near)[p.session].is_carrier]
