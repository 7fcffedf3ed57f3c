"""Sentences about what was seen of a service."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis import service_proof as proof
from meshwatchd.model.service_check import DnsResult, MeshWay, Origin, Reach
from tests.support.example_services import EXAMPLES, LAST_IS_SILENT, VIP, connection, lookup, seen

ASKED = "10.96.0.10, asked for shop.default.svc.clusterset.local,"


def _lines(about, name):
    return list(about(EXAMPLES[name][1]))


def test_dns_answers_are_told_with_server_and_name():
    """An answer, a denial with its zone, silence with its reason; AAAA only where it has an address."""
    assert f"{ASKED} answers 10.110.3.4" in _lines(proof.dns, "good")
    assert f"{ASKED} answers NXDOMAIN for the zone ." in _lines(proof.dns, "domain-not-served")
    silent = lookup(DnsResult.SILENT, detail="Network is unreachable")
    assert f"{ASKED} does not answer (Network is unreachable)" in proof.dns(seen(silent))
    assert f"{ASKED} answers REFUSED" in proof.dns(seen(lookup(DnsResult.REFUSED)))
    assert f"{ASKED} answers fd00::1" in proof.dns(seen(answer6=lookup(DnsResult.ADDRESSES, "fd00::1")))


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (Reach.ESTABLISHED, "10.110.3.4 port 8080 accepts connections"),
        (Reach.REFUSED, "10.110.3.4 port 8080 refuses the connection"),
        (Reach.UNREACHABLE, "10.110.3.4 port 8080 cannot be reached: No route to host"),
        (Reach.SILENT, "10.110.3.4 port 8080 does not answer the SYN"),
    ],
)
def test_connections_are_told_by_what_met_the_syn(reach, expected):
    """The last known address has sentences of its own."""
    detail = "No route to host" if reach is Reach.UNREACHABLE else ""
    shown = seen(None, connection(reach, detail=detail), connection(origin=Origin.LAST))
    assert [expected] == list(proof.connections(shown))


def test_the_last_address_tells_discovery_from_the_way():
    """It answers, or it does not either."""
    assert [
        "the last known address 10.110.3.4 port 8080 accepts connections: only the name is missing, the way still works"
    ] == _lines(proof.last, "not-exported")
    assert ["the last known address 10.110.3.4 does not answer either: look at the way as well"] == list(
        proof.last(seen(None, LAST_IS_SILENT, LAST_IS_SILENT))
    )
    assert [] == list(proof.last(seen(None, connection())))


def test_ways_are_told_with_place_state_and_fault():
    """A place of no node by its location; a fault of a later version by its code."""
    assert ["10.244.3.7 belongs to a3 in onprem: the path b1-a1 is good"] == _lines(proof.mesh, "policy-or-backend")
    assert [
        "the mesh knows no node with such an address, so all its locations are looked at",
        "the path b1-a1 to onprem is good",
    ] == _lines(proof.mesh, "mtu")
    strange = MeshWay(address=VIP, node="a3", fault="of-tomorrow", layer="pod", state="up")
    assert [f"{VIP} belongs to a3: the way there is up; of-tomorrow, layer pod: of-tomorrow"] == list(
        proof.mesh(seen(ways=(strange,)))
    )
    assert ["the daemon cannot be asked, so it is not known whether the mesh's own probes pass"] == _lines(
        proof.mesh, "no-daemon"
    )


@pytest.mark.parametrize(
    ("about", "name", "expected"),
    [
        (proof.segments, "mtu", "10.110.3.4 port 8080 accepts connections, and acknowledges no full segment"),
        (proof.segments, "mute", "10.110.3.4 port 8080 acknowledges full segments"),
        (proof.tls, "identity-alert", "10.110.3.4 port 8080 for x: the peer sends the TLS alert unknown_ca"),
        (proof.tls, "untried", "10.110.3.4 port 8080 for x: no time was left for a TLS handshake"),
        (proof.http, "untried", "10.110.3.4 port 8080 had no time left to answer: GET /"),
        (proof.http, "mute", "10.110.3.4 port 8080 does not answer: GET /ready"),
        (proof.http, "gateway-not-ready", "10.110.3.4 port 8080 answers 503: GET /healthz/ready"),
        (proof.withdrawn, "withdrawn", "the name was 10.110.3.4 before, and is this cluster's own service"),
        (proof.api, "not-exported-here", "API: this cluster has no ServiceExport of that name"),
        (
            proof.api,
            "not-exported-conflict",
            "API: the ServiceExport has Conflict=True, PortConflict: port 8080 is UDP in east",
        ),
        (proof.api, "exporter-empty", "API: this cluster has the ServiceImport, exported by east"),
        (proof.api, "exporter-empty", "API: 0 of 3 endpoints of cluster east are ready"),
    ],
)
def test_what_was_carried_is_told(about, name, expected):
    """One sentence for each fact."""
    assert expected in _lines(about, name)
