"""A verdict about a node that BIRD still routes to."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.daemon_routes import audit_hops
from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.next_hops import name_dead_hop, next_hops
from meshwatchd.model.faults import CATALOGUE, FaultCode
from tests.support.lab_mesh import settings_for
from tests.unit.core.audit.test_daemon_routes import MESH, PEERS, ROUTES, peer, route, verdict, view


@pytest.mark.parametrize(
    "fault",
    [
        FaultCode.WIREGUARD_BLOCKED,
        FaultCode.LEADER_DEAD,
        FaultCode.NODE_UNREACHABLE,
        FaultCode.WIREGUARD_NO_DATA,
        FaultCode.WIREGUARD_NO_HANDSHAKE,
    ],
)
def test_a_node_that_nothing_passes_to_is_a_dead_next_hop_while_bird_routes_there(fault):
    """What probes alone say stays as evidence, and BIRD's own words tell how it lets go."""
    named = name_dead_hop(verdict(fault), next_hops(view().snapshot, MESH))

    assert (FaultCode.NEXT_HOP_DEAD, "b1", CATALOGUE[FaultCode.NEXT_HOP_DEAD].layer) == (
        named.fault,
        named.culprit,
        named.layer,
    )
    assert "BIRD still routes there: 10.42.2.0/24 via 10.8.0.2 dev wg0 proto bird" in named.because[0]
    assert f"probes alone say {fault}" == named.because[1]
    assert "birdc 'show route for 10.42.2.0/24 all'" in named.because[-2]
    assert named.because[-1].startswith("to have both ends choose another way: birdc disable NAME")
    assert named.because[-1].endswith("shows with the neighbor 10.8.0.2")


@pytest.mark.parametrize(
    ("said", "routes"),
    [
        (verdict(), (route("a2"), route("b2"))),
        (verdict(), (*ROUTES[:1], route("b1", via="b2"), route("b2"))),
        (verdict(culprit="a1"), ROUTES),
        (verdict(culprit=""), ROUTES),
        (verdict(FaultCode.WIREGUARD_KEY_MISMATCH), ROUTES),
        (verdict(FaultCode.NONE, ""), ROUTES),
        (verdict(), tuple(msgspec.structs.replace(each, protocol=4) for each in ROUTES)),
    ],
)
def test_else_the_verdict_keeps_its_name(said, routes):
    """BIRD has let go, or found another way; it is this node, or nobody; there is a cause; nobody's daemon routes."""
    assert said == name_dead_hop(said, next_hops(view(routes).snapshot, MESH))


def test_of_many_routes_some_are_told():
    """A node may announce all services of its site."""
    services = tuple(msgspec.structs.replace(route("b1"), dst=f"10.96.{each}.0/24") for each in range(9))
    first = name_dead_hop(verdict(), next_hops(view(services).snapshot, MESH)).because[0]

    assert first.count(" via ") == 3
    assert first.endswith("and 6 more")


def test_frr_is_asked_in_its_own_words():
    """Its BGP routes have number 186."""
    routes = (route("b1", protocol=186),)
    *_, show, leave = name_dead_hop(verdict(), next_hops(view(routes).snapshot, MESH)).because

    assert "FRR keeps its routes until its session ends: vtysh -c 'show bgp ipv4 unicast 10.42.2.0/24'" == show
    assert "-c 'neighbor 10.8.0.2 shutdown'" in leave


def test_the_book_names_it_and_a_cause_that_was_found_goes_before_it():
    """An exchanged key is why nothing passes; without it the routes are what loses packets."""
    book = FindingBook(settings_for("a1"), "a1")
    book.next_hops = next_hops(view().snapshot, MESH)
    assert FaultCode.NEXT_HOP_DEAD is book.explain(verdict()).fault

    (lost,) = audit_hops(view(peers=(*PEERS[:1], peer("b1", "10.99.0.0/24"), PEERS[2])))
    cut_off = msgspec.structs.replace(lost, is_cut_off=True)
    assert [] != list(book.report((cut_off,), 1))
    assert FaultCode.ALLOWED_IPS_MISSING is book.explain(verdict()).fault
