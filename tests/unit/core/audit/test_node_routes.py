"""Where the kernel routes packets to nodes of other locations, whatever the mesh's agent has written."""

from __future__ import annotations

from errno import EACCES, EHOSTUNREACH

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.node_routes import host_questions, node_questions
from meshwatchd.core.audit.pod_routes import PodRouteAudit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from tests.support.lab_mesh import declared_mesh, snapshot_of

MESH = declared_mesh()
CLOUD = ("10.2.0.11", "10.2.0.12", "10.2.0.13")
B2 = "10.2.0.12"
RULE = "100: from all to 10.2.0.0/24 lookup 900"


def _view(node="a1", *, routed=CLOUD, dead=()):
    device = "kilo0" if node == "a1" else "flannel.1"
    routes = tuple(DeviceRoute(dst=f"{each}/32", dev=device, table=254, protocol=4) for each in routed)
    ends = tuple(DeviceRoute(dst=f"{each}/32", dev="", table=254, protocol=3, kind="unreachable") for each in dead)
    seen = msgspec.structs.replace(snapshot_of(node), device_routes=routes, dead_ends=ends)
    return View(snapshot=seen, mesh=MESH, node=node, hellos={}, good=None)


def _asked(view, *, is_forwarding=True):
    local = next(each for each in MESH.node if each.name == view.node)
    devices = frozenset(("kilo0", "flannel.1"))
    found = node_questions(view, local, devices, is_forwarding=is_forwarding)
    return [(question.source, question.destination, question.iif) for _, question, _ in found]


def _found(view, **answers):
    wrong = {key.replace("_", "."): answer for key, answer in answers.items()}

    def ask(question):
        return wrong.get(question.destination, RouteAnswer(device="kilo0" if view.node == "a1" else "flannel.1"))

    audit = PodRouteAudit("mw", ask)
    return [each for each in audit.look(view, 1, SECOND, is_forwarding=True) if each.subject.endswith("/32")]


def test_a_member_asks_for_itself_and_a_leader_for_its_members_as_well():
    """Nodes of the own location are on the LAN, and no business of the mesh's routes."""
    assert [("192.168.100.13", each, "") for each in CLOUD] == _asked(_view("a3"))
    own = [("192.168.100.11", each, "") for each in CLOUD]
    relayed = [
        (member, each, "flannel.1")
        for member, each in zip(("192.168.100.12", "192.168.100.13", "192.168.100.12"), CLOUD, strict=True)
    ]
    assert [*own, *relayed] == _asked(_view("a1"))
    assert own == _asked(_view("a1"), is_forwarding=False)


def test_a_node_that_the_agent_has_dropped_is_not_asked_for():
    """Its packets follow the default route, and rightly so."""
    assert B2 not in {destination for _, destination, _ in _asked(_view("a1", routed=CLOUD[:1]))}


def _with_memory(view):
    """A leader whose peers may carry all nodes, or a member that has routed to all while all was well."""
    peers = (WireGuardPeer(public_key="b1", allowed_ips=tuple(f"{each}/32" for each in CLOUD)),)
    state = WireGuardState(device="kilo0", public_key="a1", listen_port=51820, at_ns=0, peers=peers)
    routes = tuple(DeviceRoute(dst=f"{each}/32", dev="flannel.1", table=254, protocol=4) for each in CLOUD)
    good = GoodState(device="flannel.1", entries=Entries(routes=routes))
    is_leader = view.node == "a1"
    seen = msgspec.structs.replace(view.snapshot, wireguard=(state,) if is_leader else ())
    return View(snapshot=seen, mesh=MESH, node=view.node, hellos={}, good=None if is_leader else good)


@pytest.mark.parametrize("node", ["a1", "a3"])
def test_a_route_of_somebody_elses_in_the_place_of_the_meshs_is_told(node):
    """`ip route replace 10.2.0.12/32 via 192.168.100.1 dev eth0`: Kilo hears of no deletion here either."""
    view = _with_memory(_view(node, routed=(CLOUD[0], CLOUD[2])))
    taken = RouteAnswer(device="eth0", via="192.168.100.1", prefix=f"{B2}/32")
    (found,) = _found(view, **{"10_2_0_12": taken})

    assert (FaultCode.POD_ROUTE_DIVERTED, "flannel.1", f"{B2}/32") == found.name
    assert f"the main table has a route of {B2}/32 by 192.168.100.1 into eth0, and none of the mesh's" in found.because


@pytest.mark.parametrize(
    ("routed", "entry"), [((CLOUD[0], CLOUD[2]), "0.0.0.0/0"), ((CLOUD[0], CLOUD[2]), "10.2.0.0/24"), ((), f"{B2}/32")]
)
def test_a_node_that_the_agent_has_dropped_or_never_routed_may_be_on_the_network(routed, entry):
    """Its packets follow the default route, or those of a fabric that tells each node's address by BGP."""
    view = _with_memory(_view("a1", routed=routed))

    assert [] == _found(view, **{"10_2_0_12": RouteAnswer(device="eth0", prefix=entry)})


@pytest.mark.parametrize("node", ["a1", "a3"])
def test_a_dead_end_in_the_place_of_a_nodes_route_is_told(node):
    """`ip route replace unreachable 10.2.0.12/32`: no deletion is told of, so that Kilo does not put its route back."""
    view = _view(node, routed=(CLOUD[0], CLOUD[2]), dead=(B2,))
    (found,) = _found(view, **{"10_2_0_12": RouteAnswer(errno=EHOSTUNREACH)})

    assert (FaultCode.POD_ROUTE_DIVERTED, "flannel.1", f"{B2}/32") == found.name
    assert ("b2", node) == (found.peer, found.culprit)
    assert f"the main table has unreachable {B2}/32" in found.because
    assert f"the mesh has no route to {B2} of b2 any more" in found.because


def test_a_rule_that_takes_packets_to_nodes_is_told():
    """A VPN's table with a default route, asked before the main table."""
    (found,) = _found(_view("a1"), **{"10_2_0_12": RouteAnswer(device="tun0", rule=RULE)})

    assert (FaultCode.POD_ROUTE_DIVERTED, "kilo0", f"{B2}/32") == found.name
    assert f"packets from 192.168.100.11 to {B2} leave by tun0" == found.because[0]
    assert f"ip rule {RULE} decides" in found.because
    assert f"the mesh routes {B2}/32 of b2 into kilo0" in found.because


def test_an_address_that_is_not_this_nodes_is_not_asked_from():
    """The kernel would refuse the source, which says nothing of the route."""
    view = _view("a1")
    links = tuple(
        link if link.name != "eth0" else msgspec.structs.replace(link, addresses=()) for link in view.snapshot.links
    )
    bare = View(
        snapshot=msgspec.structs.replace(view.snapshot, links=links), mesh=MESH, node="a1", hellos={}, good=None
    )
    assert [] == _asked(bare)


def _with_tunnel(view, *endpoints):
    """A leader whose tunnel leads to b1 at each of these endpoints."""
    peers = tuple(
        WireGuardPeer(public_key=f"key {number}", allowed_ips=("10.4.0.1/32",), endpoint=endpoint)
        for number, endpoint in enumerate(endpoints)
    )
    state = WireGuardState(device="kilo0", public_key="a1", listen_port=51820, at_ns=0, peers=peers)
    other = msgspec.structs.replace(
        state, device="wg7", peers=(msgspec.structs.replace(peers[0], endpoint="192.0.2.9:1"),)
    )
    return msgspec.structs.replace(view.snapshot, wireguard=(state, other))


def test_neighbours_and_the_ends_of_the_meshs_tunnels_are_asked_for():
    """Not those of other tunnels, nor one that is known nowhere, nor IPv6, of which there is no question."""
    view = _view("a1")
    seen = _with_tunnel(view, "198.51.100.21:51820", "", "[2001:db8::1]:51820")
    view = View(snapshot=seen, mesh=MESH, node="a1", hellos={}, good=None)
    local = next(each for each in MESH.node if each.name == "a1")

    assert [
        ("a2", "192.168.100.11", "192.168.100.12", "a2 is a neighbour"),
        ("a3", "192.168.100.11", "192.168.100.13", "a3 is a neighbour"),
        ("b1", "192.168.100.11", "198.51.100.21", "kilo0 sends there what is for b1: 198.51.100.21:51820"),
    ] == [(node.name, asked.source, asked.destination, why) for node, asked, why in host_questions(view, local)]
    moved = msgspec.structs.replace(local, node_ip="192.168.100.99")
    assert [] == [*host_questions(view, moved)], "the kernel refuses to be asked from there"


@pytest.mark.parametrize(
    ("address", "peer", "answer", "told"),
    [
        ("198.51.100.21", "b1", RouteAnswer(errno=EHOSTUNREACH), "go nowhere: unreachable"),
        (
            "192.168.100.13",
            "a3",
            RouteAnswer(errno=EACCES, rule="80: from all to A prohibit"),
            "go nowhere: prohibited",
        ),
    ],
)
def test_a_route_or_rule_that_locks_a_node_out_is_told(address, peer, answer, told):
    """`ip route add unreachable`, as fail2ban writes it: neither a filter nor a counter shows anything."""
    view = _view("a1")
    dead = DeviceRoute(dst=f"{address}/32", dev="", table=254, protocol=3, kind="unreachable")
    seen = msgspec.structs.replace(_with_tunnel(view, "198.51.100.21:51820"), dead_ends=(dead,))
    view = View(snapshot=seen, mesh=MESH, node="a1", hellos={}, good=None)
    (found,) = _found(view, **{address.replace(".", "_"): answer})

    assert (FaultCode.NODE_ROUTE_BLOCKED, "eth0", f"{address}/32") == found.name
    assert (peer, "a1") == (found.peer, found.culprit)
    assert told in found.because[0]
    assert f"the main table has unreachable {address}/32" in found.because
    assert (f"ip rule {answer.rule} decides" in found.because) is bool(answer.rule)


@pytest.mark.parametrize("device", ["eth0", "bond7", "kilo0"])
def test_below_the_mesh_any_device_will_do(device):
    """Another card, a host mesh: where packets leave somewhere, probes tell whether they arrive."""
    view = View(snapshot=_with_tunnel(_view("a1"), "198.51.100.21:51820"), mesh=MESH, node="a1", hellos={}, good=None)
    there = RouteAnswer(device=device, prefix="198.51.100.21/32")

    assert [] == _found(view, **{"198_51_100_21": there, "192_168_100_13": there})
