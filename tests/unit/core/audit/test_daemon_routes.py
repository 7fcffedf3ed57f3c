"""Routes of BIRD over plain WireGuard: what makes their next hop, and what takes their packets elsewhere."""

from __future__ import annotations

from errno import ENETUNREACH

import msgspec
import pytest

from meshwatchd.core.audit import peer_faults
from meshwatchd.core.audit.daemon_routes import escape_questions
from meshwatchd.core.audit.expected_entries import good_state
from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.pod_routes import PAUSE_NS, PodRouteAudit
from meshwatchd.core.audit.view import View
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Location, Node
from tests.support.lab_mesh import settings_for

NAMES = ("a1", "a2", "b1", "b2")
TUNNEL = Link(name="wg0", index=5, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("10.8.0.0",))


def node(name):
    """One of four, each a location by itself: its pods, and its address on wg0."""
    number = NAMES.index(name)
    return Node(
        name=NodeName(name),
        location=LocationName(f"site-{name}"),
        node_ip=f"172.31.{number // 2}.{number}",
        pod_cidr=f"10.42.{number}.0/24",
        overlay_ip=f"10.8.0.{number}",
        wireguard_ip=f"10.8.0.{number}",
    )


MESH = MeshSettings(
    profile="wireguard",
    wireguard_device="wg0",
    overlay_device="wg0",
    location=tuple(Location(name=LocationName(f"site-{name}"), leader=NodeName(name)) for name in NAMES),
    node=tuple(node(name) for name in NAMES),
)


def route(name, *, via="", protocol=12):
    """BIRD's route to a node's pods."""
    other = node(via or name)
    return DeviceRoute(
        dst=node(name).pod_cidr, dev="wg0", table=254, protocol=protocol, via=other.overlay_ip, metric=32
    )


def peer(name, *more):
    """A node as wg0 knows it."""
    allowed = (f"{node(name).overlay_ip}/32", *(more or (node(name).pod_cidr,)))
    return WireGuardPeer(public_key=f"KEY-{name}", allowed_ips=allowed, endpoint="192.0.2.1:51820")


ROUTES = tuple(route(name) for name in NAMES[1:])
PEERS = tuple(peer(name) for name in NAMES[1:])


def view(routes=ROUTES, *, peers=PEERS, was=ROUTES, silent=()):
    """What the audit of a1 rests on."""

    def seen(listed):
        state = WireGuardState(device="wg0", public_key="KEY-a1", listen_port=51820, at_ns=1, peers=peers)
        return Snapshot(links=(TUNNEL,), device_routes=listed, wireguard=(state,))

    good = good_state(seen(was), MESH, "boot") if was is not None else None
    return View(snapshot=seen(routes), mesh=MESH, node="a1", hellos={}, good=good, silent=frozenset(silent))


def verdict(fault=FaultCode.WIREGUARD_BLOCKED, culprit="b1"):
    """What the probes of a1 say."""
    entry = CATALOGUE[fault]
    return Verdict(
        fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit, because=("probes die",)
    )


def found(seen, answers=None):
    """What is told of packets for other nodes' pods; all that is not said otherwise leaves by wg0."""
    told = answers or {}
    kernel = PodRouteAudit("mw", lambda question: told.get(question.destination, RouteAnswer(device="wg0")))
    return list(kernel.look(seen, 1, PAUSE_NS, is_forwarding=True))


# --- bgp-route-escaped ---


def test_what_leaves_by_the_tunnel_is_well():
    """A packet is asked for each prefix, as this node would send it."""
    assert [("a2", "10.42.1.1"), ("b1", "10.42.2.1"), ("b2", "10.42.3.1")] == [
        (each.name, question.destination) for each, _, question in escape_questions(view())
    ]
    assert {"10.8.0.0"} == {question.source for _, _, question in escape_questions(view())}
    assert [] == found(view())


def test_another_route_is_taken_first():
    """`ip route add` with a better metric than BIRD's 32: BIRD sees nothing wrong."""
    (lost,) = found(view(), {"10.42.2.1": RouteAnswer(device="eth0", via="172.31.0.254")})

    assert (FaultCode.BGP_ROUTE_ESCAPED, "10.42.2.0/24", "b1", "a1") == (
        lost.code,
        lost.subject,
        lost.peer,
        lost.culprit,
    )
    assert "packets to 10.42.2.0/24 of b1 leave by eth0" == lost.because[0]
    assert "another one is taken before it: 10.42.2.0/24 via 10.8.0.2 dev wg0 proto bird" in lost.because[1]
    assert lost.because[-1].endswith("birdc 'show route for 10.42.2.0/24 all'; ip route get 10.42.2.1")


def test_a_policy_rule_is_named():
    """Above all routes of the main table."""
    answer = RouteAnswer(device="eth0", rule="100: from all to 10.42.2.0/24 lookup 900")
    (lost,) = found(view(), {"10.42.2.1": answer})
    assert "ip rule 100: from all to 10.42.2.0/24 lookup 900 decides" == lost.because[1]


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (RouteAnswer(device="eth0", via="172.31.0.254"), "leave by eth0"),
        (RouteAnswer(errno=ENETUNREACH), "go nowhere: no route"),
    ],
)
def test_a_withdrawn_prefix_of_a_node_that_lives(answer, end):
    """A filter, or BIRD at its end: what the node has of pods is known by its hello, and the route by the memory."""
    (lost,) = found(view(routes=(ROUTES[0], ROUTES[2])), {"10.42.2.1": answer})

    assert f"packets to 10.42.2.0/24 of b1 {end}" == lost.because[0]
    assert (
        "BIRD's route is gone, withdrawn by it or deleted by somebody, while b1 still has that prefix"
        in lost.because[1]
    )


def test_of_a_node_that_nothing_comes_from_it_is_rightly_withdrawn():
    """The probes say what is wrong. A route that stands beside another one is told all the same."""
    answers = {"10.42.2.1": RouteAnswer(device="eth0", via="172.31.0.254")}
    silent = {"KEY-b1"}

    assert [] == found(view(routes=(ROUTES[0], ROUTES[2]), silent=silent), answers)
    assert 1 == len(found(view(silent=silent), answers))


def test_a_way_by_another_node_is_the_daemons_choice():
    """b1's pods by way of a2 on the LAN: eth0 is no device of the mesh, and its gateway is a node of it."""
    answers = {"10.42.2.1": RouteAnswer(device="eth0", via=node("a2").node_ip)}
    assert [] == found(view(routes=(ROUTES[0], ROUTES[2])), answers)


def test_what_was_never_routed_is_not_missed():
    """Without memory and without a route nobody knows that these pods should be reached by wg0."""
    answers = {"10.42.2.1": RouteAnswer(errno=ENETUNREACH)}
    assert [] == found(view(routes=(ROUTES[0],), was=None), answers)
    assert [] == found(view(routes=(ROUTES[0],), was=ROUTES[:1]), answers)


def test_a_default_route_of_bird_stands_for_all_pods():
    """It is no prefix of its own to ask for."""
    default = msgspec.structs.replace(route("b1"), dst="0.0.0.0/0")
    asked = [prefix for _, prefix, _ in escape_questions(view(routes=(default,), was=(default,)))]
    assert ["10.42.1.0/24", "10.42.2.0/24", "10.42.3.0/24"] == asked


def test_it_is_why_pods_are_silent_and_not_why_the_tunnel_is():
    """A canary loses its service; what probes of the node's own address lose has another cause."""
    escaped = found(view(), {"10.42.2.1": RouteAnswer(device="eth0")})
    book = FindingBook(settings_for("a1"), "a1")
    assert [] != list(book.report(tuple(escaped), 1))

    assert FaultCode.BGP_ROUTE_ESCAPED is book.explain(verdict(FaultCode.POD_UNREACHABLE)).fault
    assert FaultCode.WIREGUARD_BLOCKED is book.explain(verdict()).fault


def test_others_hear_of_it():
    """b1 misses answers of its pods, and has no fault of its own."""
    told = PeerFault(fault=FaultCode.BGP_ROUTE_ESCAPED, culprit=NodeName("b1"), source=NodeName("b1"))
    said = verdict(FaultCode.POD_NETWORK_BROKEN)
    assert FaultCode.BGP_ROUTE_ESCAPED is peer_faults.explain(said, (told,), (NodeName("b1"),)).fault


# --- allowed-ips-missing ---


def test_all_peers_may_carry_what_is_routed_to_them():
    """Nothing is said, by the audit as a whole either."""
    assert () == audit(view())


@pytest.mark.parametrize(
    ("peers", "end", "command"),
    [
        (
            (*PEERS[:1], peer("b1", "10.99.0.0/24"), PEERS[2]),
            "WireGuard drops them (ENOKEY)",
            "wg set wg0 peer KEY-b1 allowed-ips 10.8.0.2/32,10.99.0.0/24,10.42.2.0/24 puts",
        ),
        (
            (*PEERS[:2], peer("b2", "10.42.3.0/24", "10.42.2.0/25")),
            "WireGuard sends them to peer KEY-b2",
            "wg set wg0 peer KEY-b2 allowed-ips 10.8.0.3/32,10.42.3.0/24 puts",
        ),
    ],
)
def test_a_peer_that_may_not_carry_what_is_routed_to_it(peers, end, command):
    """BGP is up and the tunnel shakes hands: WireGuard goes by the longest of AllowedIPs, and nothing is counted."""
    (lost,) = audit(view(peers=peers))

    assert (FaultCode.ALLOWED_IPS_MISSING, "10.42.2.0/24", "b1", "a1") == (
        lost.code,
        lost.subject,
        lost.peer,
        lost.culprit,
    )
    assert "BIRD routes 10.42.2.0/24 to b1: 10.42.2.0/24 via 10.8.0.2 dev wg0 proto bird" == lost.because[0]
    assert lost.because[1].startswith(end)
    assert lost.because[2].startswith(command)


def test_a_second_choice_that_wireguard_does_not_follow():
    """BIRD goes around b1 by way of b2, and AllowedIPs lead to b1 as before."""
    (lost,) = audit(view(routes=(*ROUTES[:1], route("b1", via="b2"), ROUTES[2])))

    assert ("b2", "10.42.2.0/24") == (lost.peer, lost.subject)
    assert lost.because[1].startswith("WireGuard sends them to peer KEY-b1")


def test_a_peer_for_everything_carries_everything():
    """As a device of a single tunnel has it; prefixes of IPv6 beside it are read over."""
    assert () == audit(view(routes=ROUTES[1:2], peers=(peer("b1", "0.0.0.0/0", "::/0"),)))
