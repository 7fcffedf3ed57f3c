"""Canaries of kinds dns, tls and http over real sockets, with real servers at the other end."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.service_canary import EXCHANGE_LIFE_NS
from meshwatchd.adapters.service_prober import ServiceProber
from meshwatchd.core.diagnosis.service_canaries import is_good, observations
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.model.canary import CanaryKind
from meshwatchd.model.events import SendFailed
from meshwatchd.model.ids import SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.service_check import DnsResult, Handshake, Origin, Reach, ServiceCode, ServiceSeen
from tests.support.certificates import write_certificate
from tests.support.packet_node import free_port
from tests.support.pump import pump
from tests.support.service_frames import service_plan
from tests.support.service_stage import (
    CONTROL,
    HOST,
    SILENCE,
    closed_port,
    dns_server,
    full_listener,
    gateway,
    tcp_server,
)

SESSION = SessionId(7)
NAME = "shop.default.svc.clusterset.local"
SNI = "outbound_.80_._.shop.default.svc.cluster.local"
READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class _Asker:
    """One prober, and what it told."""

    def __init__(self) -> None:
        self.poller, self.counters = Poller(), Counter[str]()
        self.events: list[object] = []
        self.prober = ServiceProber(poller=self.poller, counters=self.counters, emit=self.events.append)
        self.plan: SessionPlan

    def configure(self, port, kind, **fields):
        self.plan = service_plan(port, kind=kind, name="shop", **fields)
        self.prober.configure((self.plan,))

    def send(self, seq=5, source_port=0):
        self.prober.send(SendProbe(session=SESSION, seq=seq, source_port=source_port or free_port()))

    @property
    def exchanges(self):
        """Those that are open."""
        return self.prober._open.values()

    def outcome(self, *, is_late=False) -> ServiceSeen:
        """What is told in its time, or at its end."""

        def is_told():
            self.prober.expire(monotonic_ns() + (EXCHANGE_LIFE_NS if is_late else 0))
            return bool(self.events)

        pump(self.poller, is_told)
        event = self.events.pop()
        assert isinstance(event, ServiceSeen)
        assert (SESSION, []) == (event.session, self.events)
        return event

    def code(self, seen) -> ServiceCode:
        """What the table makes of it."""
        return judge(observations(self.plan, seen)).code


@contextmanager
def asking(port, kind, **fields) -> Iterator[_Asker]:
    """One that has asked once."""
    asker = _Asker()
    try:
        asker.configure(port, kind, **fields)
        asker.send()
        yield asker
    finally:
        asker.prober.close()
        asker.poller.close()


@pytest.mark.parametrize(
    ("answer", "result", "code"),
    [
        ("NXDOMAIN/clusterset.local", DnsResult.NXDOMAIN, ServiceCode.NOT_EXPORTED),
        ("NXDOMAIN/.", DnsResult.NXDOMAIN, ServiceCode.DOMAIN_NOT_SERVED),
        ("EMPTY", DnsResult.EMPTY, ServiceCode.EXPORTER_UNHEALTHY),
        ("SERVFAIL", DnsResult.SERVFAIL, ServiceCode.NOT_SYNCED),
        ("REFUSED", DnsResult.REFUSED, ServiceCode.DOMAIN_NOT_SERVED),
    ],
)
def test_each_answer_of_a_dns_server_has_its_name(answer, result, code):
    """Without an address nothing is connected to."""
    with dns_server({NAME: answer, "cluster.local": "NXDOMAIN"}) as (_, port):
        with asking(port, CanaryKind.DNS, lookup=NAME, connect=80) as asker:
            seen = asker.outcome()

            assert seen.lookup is not None
            assert (result, None) == (seen.lookup.result, seen.connection)
            assert code is asker.code(seen)
            assert not is_good(asker.plan, seen)


def test_an_address_alone_is_good_where_nothing_is_connected_to():
    """An address proves nothing about the way, and the name is all that was asked for."""
    with dns_server({NAME: "10.110.3.4", "cluster.local": "NXDOMAIN"}) as (_, port):
        with asking(port, CanaryKind.DNS, lookup=NAME) as asker:
            seen = asker.outcome()

            assert seen.lookup is not None
            assert ("10.110.3.4",) == seen.lookup.addresses
            assert seen.rtt_ns > 0
            assert is_good(asker.plan, seen)


@pytest.mark.parametrize(
    ("zones", "code"),
    [
        ({NAME: SILENCE, CONTROL: "NXDOMAIN"}, ServiceCode.DNS_FORWARD_BROKEN),
        ({NAME: SILENCE, CONTROL: SILENCE}, ServiceCode.DNS_UNREACHABLE),
    ],
)
def test_a_name_without_answer_is_told_when_its_time_is_over(zones, code):
    """What the server always has tells one that is dead from one that forwards in vain."""
    with dns_server(zones) as (_, port), asking(port, CanaryKind.DNS, lookup=NAME) as asker:
        if zones[CONTROL]:
            pump(asker.poller, lambda: any(each._found for each in asker.exchanges))

        assert code is asker.code(asker.outcome(is_late=True))


def test_the_address_of_a_name_is_connected_to():
    """And when the name is gone later, the address that answered last: then only the name is missing."""
    zones = {NAME: HOST, "cluster.local": "NXDOMAIN"}
    with tcp_server() as service, dns_server(zones) as (_, port):
        with asking(port, CanaryKind.DNS, lookup=NAME, connect=service) as asker:
            seen = asker.outcome()
            assert seen.connection is not None
            assert (Reach.ESTABLISHED, Origin.ANSWER) == (seen.connection.reach, seen.connection.origin)
            assert is_good(asker.plan, seen)

            zones[NAME] = "NXDOMAIN"
            asker.send(seq=6)
            seen = asker.outcome()
            assert seen.connection is not None
            assert (Reach.ESTABLISHED, Origin.LAST) == (seen.connection.reach, seen.connection.origin)
            assert ServiceCode.NOT_EXPORTED is asker.code(seen)


def test_an_answer_of_somebody_else_or_without_sense_is_waited_past():
    """The socket hears the server alone, and what it says must be an answer to what was asked."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as serving:
        serving.bind((HOST, 0))
        serving.settimeout(2)
        with asking(serving.getsockname()[1], CanaryKind.DNS, lookup=NAME) as asker:
            data, sender = serving.recvfrom(512)
            for nonsense in (b"", b"\0", b"\xff" * 600, data, b"\1\1" + data[2:]):
                serving.sendto(nonsense, sender)
            pump(asker.poller, lambda: not asker.events and _taken(asker) >= 5)

            assert [] == asker.events


def _taken(asker):
    return sum(each._datagrams for each in asker.exchanges)


def test_a_dns_question_leaves_by_the_port_that_the_core_chose():
    """So that no flow the network remembers answers for a new one; a port that is taken is reported."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as serving, socket.socket(type=socket.SOCK_DGRAM) as busy:
        serving.bind((HOST, 0))
        serving.settimeout(2)
        busy.bind(("", 0))
        with asking(serving.getsockname()[1], CanaryKind.DNS, lookup=NAME) as asker:
            serving.recvfrom(512)
            wanted = free_port()
            asker.send(seq=6, source_port=wanted)
            senders = {serving.recvfrom(512)[1][1] for _ in range(3)}
            assert wanted in senders
            asker.send(seq=7, source_port=busy.getsockname()[1])
            assert [(7, errno.EADDRINUSE)] == [
                (each.seq, each.errno) for each in asker.events if isinstance(each, SendFailed)
            ]


def test_a_handshake_with_name_and_protocol_is_good(tmp_path):
    """As an Istio gateway wants them; nothing behind it is waited for longer than an alert takes."""
    with gateway(write_certificate(tmp_path), sni=SNI, alpn="istio") as port:
        with asking(port, CanaryKind.TLS, sni=SNI, alpn="istio") as asker:
            seen = asker.outcome()

            assert seen.connection is not None
            assert seen.connection.tls is not None
            assert (Handshake.DONE, "istio") == (seen.connection.tls.outcome, seen.connection.tls.alpn)
            assert is_good(asker.plan, seen)


@pytest.mark.parametrize(("sni", "alpn"), [(SNI, ""), ("shop.example", "istio")])
def test_a_gateway_that_resets_for_name_or_protocol_is_named(tmp_path, sni, alpn):
    """It has no healthy service by them."""
    with gateway(write_certificate(tmp_path), sni=SNI, alpn="istio") as port:
        with asking(port, CanaryKind.TLS, sni=sni, alpn=alpn) as asker:
            assert ServiceCode.SNI_REJECTED is asker.code(asker.outcome())


def test_a_certificate_that_is_out_of_date_is_an_identity(tmp_path):
    """The handshake itself accepts any."""
    with gateway(write_certificate(tmp_path, datetime(2020, 6, 1, tzinfo=UTC))) as port:
        with asking(port, CanaryKind.TLS, sni="shop.example") as asker:
            assert ServiceCode.IDENTITY is asker.code(asker.outcome())


def test_a_workload_that_wants_a_certificate_of_its_mesh_has_answered(tmp_path):
    """Its alert comes behind the handshake of TLS 1.3."""
    with gateway(write_certificate(tmp_path), wants_client=True) as port:
        with asking(port, CanaryKind.TLS) as asker:
            seen = asker.outcome()

            assert seen.connection is not None
            assert seen.connection.tls is not None
            assert (Handshake.ALERT, "certificate_required") == (seen.connection.tls.outcome, seen.connection.tls.alert)
            assert is_good(asker.plan, seen)


@pytest.mark.parametrize("kind", [CanaryKind.TLS, CanaryKind.HTTP])
def test_a_refusal_a_lost_syn_and_silence_are_told_apart(kind):
    """Nobody listens; the SYN is dropped; the connection is taken and nothing said over it."""
    with closed_port() as port, asking(port, kind) as asker:
        assert ServiceCode.ENDPOINT_REFUSED is asker.code(asker.outcome())
    with full_listener() as port, asking(port, kind) as asker:
        seen = asker.outcome(is_late=True)
        assert seen.connection is not None
        assert (Reach.SILENT, ServiceCode.POLICY_OR_BACKEND) == (seen.connection.reach, asker.code(seen))
    with tcp_server() as port, asking(port, kind) as asker:
        pump(asker.poller, lambda: any(each._reach for each in asker.exchanges))
        seen = asker.outcome(is_late=True)
        assert seen.connection is not None
        assert (Reach.ESTABLISHED, ServiceCode.POLICY_OR_BACKEND) == (seen.connection.reach, asker.code(seen))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (READY, (200, ServiceCode.GOOD)),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", (404, ServiceCode.GOOD)),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", (503, ServiceCode.GATEWAY_NOT_READY)),
        (b"220 I speak SMTP\r\n", (0, ServiceCode.POLICY_OR_BACKEND)),
    ],
)
@pytest.mark.parametrize("sni", ["", "shop.example"])
def test_the_status_of_a_get_says_whether_it_is_ready(tmp_path, sni, reply, expected):
    """In plain text, and over TLS where a server name is given."""
    server = gateway(write_certificate(tmp_path), sni=sni, reply=reply) if sni else tcp_server(reply)
    with server as port, asking(port, CanaryKind.HTTP, sni=sni, path="/ready") as asker:
        seen = asker.outcome()

        assert seen.connection is not None
        assert seen.connection.http is not None
        assert expected == (seen.connection.http.status, asker.code(seen))
        assert "/ready" == seen.connection.http.path
        assert (seen.connection.tls is not None) == bool(sni)


def test_what_is_no_tls_is_told_as_that():
    """A service that speaks in plain text."""
    with tcp_server(b"220 I speak SMTP\r\n") as port, asking(port, CanaryKind.TLS) as asker:
        assert ServiceCode.SNI_REJECTED is asker.code(asker.outcome())
