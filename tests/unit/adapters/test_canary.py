"""Canaries over real sockets: what counts as an answer, and what does not."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meshwatchd.adapters import canary
from meshwatchd.adapters.canary import QUESTION_LIFE_NS, CanaryProber
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind
from meshwatchd.model.events import Banner, ReplyReceived, SendFailed
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from tests.support.deaf_listener import deaf_listener
from tests.support.packet_node import free_port
from tests.support.pump import pump

HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
FAMILIES = pytest.mark.parametrize("family", list(HOSTS), ids=["ip4", "ip6"])
SESSION = SessionId(7)


class _Asker:
    """One canary prober, and what it reported."""

    def __init__(self) -> None:
        self.poller, self.counters = Poller(), Counter[str]()
        self.events: list[ReplyReceived | SendFailed] = []
        self.prober = CanaryProber(poller=self.poller, counters=self.counters, emit=self.events.append)

    def ask(
        self,
        address,
        *,
        kind=CanaryKind.UDP,
        expect=CanaryExpect.ANSWER,
        seq=5,
        source_port=0,
        source="",
        layer=Layer.POD,
    ):
        host, port, *_ = address
        asked = Canary(name="web", address=host, port=port, node=NodeName("b3"), kind=kind, expect=expect)
        plan = SessionPlan(
            session=SESSION,
            peer=asked.node,
            layer=layer,
            path=0xFFFF,
            flow=FlowClass.FRESH,
            source=source,
            destination=host,
            port=port,
            canary=asked,
        )
        self.prober.configure((plan,))
        self.prober.send(SendProbe(session=SESSION, seq=seq, source_port=source_port or free_port()))

    def outcome(self):
        pump(self.poller, lambda: bool(self.events))
        [event] = self.events
        return event


@contextmanager
def _asker() -> Iterator[_Asker]:
    asker = _Asker()
    try:
        yield asker
    finally:
        asker.prober.close()
        asker.poller.close()


@contextmanager
def _datagrams(family) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_DGRAM) as served:
        served.bind((HOSTS[family], 0))
        served.settimeout(2)
        yield served


def _refusing(family):
    with socket.socket(family, socket.SOCK_STREAM) as free:
        free.bind((HOSTS[family], 0))
        return free.getsockname()


def _is_read(sender):
    """Whether the other end's kernel has acknowledged everything; it does so at once."""
    return not int.from_bytes(fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


@FAMILIES
def test_any_datagram_from_the_canary_is_its_answer(family):
    """The question is one a DNS server answers (RFC 1035 section 4.1), and leaves by the port the core chose."""
    with _asker() as asker, _datagrams(family) as served:
        port = free_port()
        asker.ask(served.getsockname(), source_port=port)
        question, sender = served.recvfrom(100)
        served.sendto(b"whatever", sender)
        event = asker.outcome()

        assert port == sender[1]
        assert "000500000001000000000000" + "00" + "00020001" == question.hex()
        assert isinstance(event, ReplyReceived)
        assert (SESSION, 5, 0, Banner()) == (event.session, event.seq, event.peer_epoch, event.banner)
        assert 0 < event.rtt_ns < 5_000_000_000
        assert 1 == asker.counters["canaries-answered"]


def test_a_datagram_from_somebody_else_is_no_answer():
    """The socket is connected: the kernel hears the canary only."""
    with _asker() as asker, _datagrams(socket.AF_INET) as served, _datagrams(socket.AF_INET) as other:
        asker.ask(served.getsockname())
        _, sender = served.recvfrom(100)
        other.sendto(b"not the canary", sender)
        served.sendto(b"the canary", sender)
        asker.outcome()

        assert 1 == asker.counters["canaries-answered"]


def test_an_icmp_error_is_no_answer_and_no_failure():
    """Anybody can send one; the question stays open until its time is over."""
    with _asker() as asker:
        asker.ask(("127.0.0.1", free_port()))
        pump(asker.poller, lambda: bool(asker.counters["icmp-errors"]))

        assert [] == asker.events


def test_between_pods_a_closed_port_is_an_answer_of_the_host_that_was_asked():
    """The datagram leaves by the address that the core has chosen, and its kernel tells that nobody listens."""
    with _asker() as asker:
        asker.ask(("127.0.0.1", free_port()), layer=Layer.POD_NETWORK, source="127.0.0.2")
        event = asker.outcome()

        assert isinstance(event, ReplyReceived)
        assert 0 < event.rtt_ns < 5_000_000_000
        assert 1 == asker.counters["canaries-answered"]


@pytest.mark.parametrize(
    ("asked", "sender", "is_answer"),
    [
        ((CanaryKind.UDP, Layer.POD_NETWORK), "127.0.0.1", True),
        ((CanaryKind.UDP, Layer.POD_NETWORK), "10.0.0.1", False),
        ((CanaryKind.TCP, Layer.POD_NETWORK), "127.0.0.1", True),
        ((CanaryKind.TCP, Layer.POD_NETWORK), "10.0.0.1", False),
        ((CanaryKind.TCP, Layer.POD), "10.0.0.1", False),
    ],
)
def test_who_denies_a_port_decides_whether_it_is_an_answer(monkeypatch, asked, sender, is_answer):
    """A filter on the way that rejects does so by its own address."""
    told = struct.pack("=I4B2I2xH4s8x", errno.ECONNREFUSED, 2, 3, 3, 0, 0, 0, 0, socket.inet_aton(sender))
    monkeypatch.setattr(canary, "_receive_error", lambda _socket: [(socket.SOL_IP, 11, told)])
    with _asker() as asker:
        asker.ask(_refusing(socket.AF_INET), kind=asked[0], layer=asked[1])
        event = asker.outcome()

        assert is_answer is isinstance(event, ReplyReceived)


@FAMILIES
@pytest.mark.parametrize("expect", list(CanaryExpect))
def test_an_established_connection_is_an_answer(family, expect):
    """And is closed at once: the listener reads the end."""
    with _asker() as asker, socket.create_server((HOSTS[family], 0), family=family) as server:
        asker.ask(server.getsockname(), kind=CanaryKind.TCP, expect=expect)
        assert isinstance(asker.outcome(), ReplyReceived)
        accepted, _ = server.accept()
        with accepted:
            assert b"" == accepted.recv(1)


@FAMILIES
def test_a_refused_connection_answers_unless_the_service_is_wanted(family):
    """Whoever refuses has seen our SYN, so the way there and back works; the service does not."""
    with _asker() as asker:
        asker.ask(_refusing(family), kind=CanaryKind.TCP)
        assert isinstance(asker.outcome(), ReplyReceived)
    with _asker() as asker:
        asker.ask(_refusing(family), kind=CanaryKind.TCP, expect=CanaryExpect.SERVICE)
        event = asker.outcome()

        assert isinstance(event, SendFailed)
        assert (SESSION, 5, errno.ECONNREFUSED) == (event.session, event.seq, event.errno)


def test_a_connection_leaves_from_the_address_that_the_plan_wants():
    """What is probed is the way between two addresses; without one the routes choose."""
    with _asker() as asker, socket.create_server(("127.0.0.1", 0)) as server:
        asker.ask(server.getsockname(), kind=CanaryKind.TCP, source="127.0.0.9")
        assert isinstance(asker.outcome(), ReplyReceived)
        accepted, peer = server.accept()
        accepted.close()

    assert "127.0.0.9" == peer[0]


def test_an_address_that_is_not_there_any_more_is_reported():
    """The device that had it is gone: the question never left."""
    with _asker() as asker:
        asker.ask(("127.0.0.1", 9), kind=CanaryKind.TCP, source="192.0.2.7")

        assert errno.EADDRNOTAVAIL == asker.outcome().errno


@FAMILIES
def test_a_canary_in_bulk_is_answered_by_acknowledgements(family):
    """Not by the connection alone: the service may read nothing at all, its kernel has to."""
    with _asker() as asker, socket.create_server((HOSTS[family], 0), family=family) as server:
        asker.ask(server.getsockname(), kind=CanaryKind.BULK)

        assert isinstance(asker.outcome(), ReplyReceived)
        accepted, _ = server.accept()
        with accepted:
            assert b"\0" == accepted.recv(1)


def test_a_canary_in_bulk_whose_segments_are_not_acknowledged_is_no_answer():
    """The connection stands; when its time is over it is given up, with all that was never acknowledged."""
    with _asker() as asker, deaf_listener() as server:
        asker.ask(server.getsockname(), kind=CanaryKind.BULK)
        accepted, _ = server.accept()
        with accepted:
            accepted.send(b"the prober has turned to this connection when it has read this")
            pump(asker.poller, lambda: _is_read(accepted))
            asker.prober.expire(monotonic_ns() + QUESTION_LIFE_NS)

            assert [] == asker.events
            with pytest.raises(ConnectionResetError):
                accepted.recv(1)


def test_a_canary_in_bulk_wants_the_service():
    """Who refuses takes no segments, whatever is expected."""
    with _asker() as asker:
        asker.ask(_refusing(socket.AF_INET), kind=CanaryKind.BULK)

        assert isinstance(asker.outcome(), SendFailed)


def test_a_busy_port_and_a_canary_without_route_are_reported():
    """The core tries the next port, and takes the other for a miss."""
    with _asker() as asker, _datagrams(socket.AF_INET) as served, socket.socket(type=socket.SOCK_DGRAM) as busy:
        busy.bind(("", 0))
        asker.ask(served.getsockname(), source_port=busy.getsockname()[1])
        event = asker.outcome()
        assert isinstance(event, SendFailed)
        assert errno.EADDRINUSE == event.errno
    with _asker() as asker:
        asker.ask(("240.0.0.1", 9), kind=CanaryKind.TCP)
        pump(asker.poller, lambda: bool(asker.events) or bool(asker.counters["canaries-asked"]))
        assert not any(isinstance(event, ReplyReceived) for event in asker.events)


def test_questions_are_closed_when_their_time_is_over():
    """A canary that never answers must not collect descriptors; what comes later is heard by nobody."""
    with _asker() as asker, _datagrams(socket.AF_INET) as served:
        asker.ask(served.getsockname())
        asker.prober.expire(monotonic_ns())
        _, sender = served.recvfrom(100)
        asker.prober.expire(monotonic_ns() + QUESTION_LIFE_NS)
        with socket.socket(type=socket.SOCK_DGRAM) as again:
            again.bind(("", sender[1]))

        assert [] == asker.events


@pytest.mark.parametrize("reason", [errno.EAFNOSUPPORT, errno.EMFILE])
def test_a_question_without_a_socket_has_not_left(monkeypatch, reason):
    """The host has no IPv6, or no descriptor is left: one canary is not asked, and nothing else stops."""

    def refuse(*_arguments):
        raise OSError(reason, "no")

    with _asker() as asker:
        monkeypatch.setattr(socket, "socket", refuse)
        asker.ask((HOSTS[socket.AF_INET6], 53), source_port=40000)

        assert [SendFailed(session=SESSION, seq=5, errno=reason)] == asker.events
        assert {"canaries-failed": 1} == asker.counters


def test_new_sessions_replace_the_old_ones():
    """Their numbers mean something else now; nothing that was asked before is reported."""
    with _asker() as asker, _datagrams(socket.AF_INET) as served:
        asker.ask(served.getsockname())
        assert SESSION in asker.prober.sessions
        asker.prober.configure(())
        _, sender = served.recvfrom(100)
        with socket.socket(type=socket.SOCK_DGRAM) as again:
            again.bind(("", sender[1]))

        assert SESSION not in asker.prober.sessions
