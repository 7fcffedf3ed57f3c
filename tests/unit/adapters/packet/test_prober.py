"""Probes leave by the port that was asked for, and only true answers count."""

from __future__ import annotations

import errno
import socket

import msgspec
import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet.prober import PROBE_LIFE_NS
from meshwatchd.model.events import (
    ActivePath,
    Banner,
    Coordination,
    CoordinationKind,
    ReplyReceived,
    RequestReceived,
    SendFailed,
)
from meshwatchd.model.ids import FlowClass, NodeName, SessionId
from meshwatchd.model.outputs import SendProbe
from meshwatchd.wire import FLAG_CONFIRM_BURST, FLAG_FRESH, KeyRole, MeshSecret, ParsedProbe, reflect, verify_and_parse
from meshwatchd.wire import Reflector as Answers
from tests.support.packet_node import SECRET, PacketNode, free_port, key, nodes, plan, send, stamping_kernel, udp
from tests.support.pump import pump


def _parsed(packet: bytes) -> ParsedProbe:
    parsed = verify_and_parse(packet, key("b1", "a1"))
    assert isinstance(parsed, ParsedProbe), parsed
    return parsed


def _answer(node: PacketNode, packet: bytes) -> bytes:
    answers = Answers(addresses=frozenset((socket.inet_aton("127.0.0.1"),)))
    return reflect(
        packet,
        _parsed(packet),
        key=key("b1", "a1"),
        own=node.own(),
        reflector=answers,
        reflector_sequence=0,
        rx_ntp=1,
        tx_ntp=2,
    )


def test_fresh_probe_is_answered_and_its_socket_closed():
    """A probe to a living reflector becomes ReplyReceived with a plausible round trip."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listen((port,))
        sender.prober.configure((plan(port),))
        before_ns = monotonic_ns()

        sender.prober.send(send(seq=7))
        pump(poller, lambda: bool(sender.events))

        [reply] = sender.events
        assert isinstance(reply, ReplyReceived)
        assert (SessionId(0), 7, 1002) == (reply.session, reply.seq, reply.peer_epoch)
        assert 0 < reply.rtt_ns <= monotonic_ns() - before_ns
        assert 0 == sender.prober.open_probes
        assert 1 == sender.counters["replies-received"]


def test_round_trip_time_leaves_our_own_lateness_out():
    """An answer that waits in its socket while we are stopped shows the time it came, not the time it was read."""
    with stamping_kernel(), nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober.send(send())
        packet, address = plain.recvfrom(2048)
        plain.sendto(_answer(peer, packet), address)
        answered_ns = monotonic_ns()
        with udp() as idle:
            idle.settimeout(0.1)
            with pytest.raises(TimeoutError):
                idle.recv(1)

        pump(poller, lambda: bool(sender.events))

        [reply] = sender.events
        assert isinstance(reply, ReplyReceived)
        assert reply.rtt_ns < 50_000_000
        assert monotonic_ns() - answered_ns > 100_000_000


def test_source_port_is_the_one_asked_for():
    """The peer sees the port of the command, and a new one for the next probe."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        ports = [free_port(), free_port()]
        seen = []
        for port in ports:
            sender.prober.send(send(source_port=port))
            seen.append(plain.recvfrom(2048)[1][1])

        assert ports == seen


def test_busy_port_is_reported_at_once():
    """A port that somebody else has is EADDRINUSE, and nothing is sent."""
    with nodes("a1") as (_poller, [sender]), udp() as other:
        sender.prober.configure((plan(free_port()),))

        sender.prober.send(send(seq=3, source_port=other.getsockname()[1]))

        assert [SendFailed(session=SessionId(0), seq=3, errno=errno.EADDRINUSE)] == sender.events
        assert 0 == sender.prober.open_probes


def test_unreachable_destination_is_reported_at_once():
    """An address that no route leads to is an error of the send, not a silence."""
    with nodes("a1") as (_poller, [sender]):
        sender.prober.configure((msgspec.structs.replace(plan(free_port()), destination="240.0.0.1"),))

        sender.prober.send(send())

        [failed] = sender.events
        assert isinstance(failed, SendFailed)
        assert failed.errno in {errno.ENETUNREACH, errno.EINVAL, errno.EHOSTUNREACH}


@pytest.mark.parametrize("flow", list(FlowClass))
def test_rotation_under_way_loses_no_answer(flow):
    """A probe signed with the old key is answered with it after both have moved on; the next is signed anew."""
    new = MeshSecret(secret=bytes(range(1, 33)))
    both = [new, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)]
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listen((port,))
        pinned_port = free_port() if flow is FlowClass.PINNED else 0
        sender.prober.configure((plan(port, flow=flow, pinned_port=pinned_port),))
        sender.prober.send(send(seq=1))
        for node in (sender, peer):
            node.peers.use(both)
        sender.prober.send(send(seq=2))
        pump(poller, lambda: len(sender.events) == 2)

        assert {1, 2} == {event.seq for event in sender.events if isinstance(event, ReplyReceived)}
        assert {"probes-sent", "replies-received"} >= set(sender.counters) - {"peer-epochs-confirmed"}
        for node in (sender, peer):
            node.peers.use([new])
        sender.prober.send(send(seq=3))
        pump(poller, lambda: len(sender.events) == 3)

        assert {"answers-sent": 3} == peer.counters


def test_forged_answer_changes_nothing():
    """A flipped bit is counted; the true answer behind it still counts."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober.send(send())
        packet, address = plain.recvfrom(2048)
        true = _answer(peer, packet)
        forged = bytearray(true)
        forged[50] ^= 1
        plain.sendto(forged, address)
        plain.sendto(packet, address)
        plain.sendto(true, address)

        pump(poller, lambda: bool(sender.events))

        assert [ReplyReceived] == [type(event) for event in sender.events]
        assert 1 == sender.counters["replies-bad-base-tag"]
        assert 1 == sender.counters["replies-wrong-sender"]


def test_answer_to_an_earlier_probe_is_a_replay():
    """The recorded answer of one probe does not answer the next."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober.send(send(seq=0))
        recorded = _answer(peer, plain.recvfrom(2048)[0])
        sender.prober.send(send(seq=1))
        _packet, address = plain.recvfrom(2048)
        plain.sendto(recorded, address)

        pump(poller, lambda: bool(sender.counters["replies-replayed"]))

        assert [] == sender.events
        assert 2 == sender.prober.open_probes


def test_pinned_session_keeps_its_port():
    """All probes of a pinned session come from one port, and each is answered."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port, pinned = free_port(), free_port()
        peer.reflector.listen((port,))
        sender.prober.configure((plan(port, flow=FlowClass.PINNED, pinned_port=pinned),))
        for seq in range(3):
            sender.prober.send(send(seq=seq))
            pump(poller, lambda: len(sender.events) > seq)  # noqa: B023 - used at once

        assert [0, 1, 2] == [event.seq for event in sender.events if isinstance(event, ReplyReceived)]
        assert [FlowClass.PINNED] * 3 == [event.flow for event in peer.events if isinstance(event, RequestReceived)]


def test_busy_pinned_port_moves_to_the_next():
    """A pinned session must be pinned, not to a particular number."""
    with nodes("a1") as (_poller, [sender]), udp() as plain, udp() as other:
        taken = other.getsockname()[1]
        sender.prober.configure((plan(plain.getsockname()[1], flow=FlowClass.PINNED, pinned_port=taken),))

        sender.prober.send(send())

        assert taken < plain.recvfrom(2048)[1][1]
        assert sender.counters["pinned-port-moves"] >= 1


def test_icmp_error_for_an_earlier_probe_does_not_cost_the_next():
    """A refused pinned probe leaves an error on its socket; the next probe leaves in spite of it."""
    with nodes("a1") as (_poller, [sender]):
        port = free_port()
        sender.prober.configure((plan(port, flow=FlowClass.PINNED, pinned_port=free_port()),))
        sender.prober.send(send())
        with udp(port=port) as plain:
            sender.prober.send(send(seq=1))

            assert plain.recv(2048)
        assert [] == sender.events


def test_old_probes_are_closed():
    """Nobody waits for an answer longer than a second."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober.send(send())

        sender.prober.expire(monotonic_ns())
        assert 1 == sender.prober.open_probes

        sender.prober.expire(monotonic_ns() + PROBE_LIFE_NS)
        assert 0 == sender.prober.open_probes


def test_open_sockets_are_bounded():
    """Beyond the limit the oldest probe is given up, and counted."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        for seq in range(10):
            sender.prober.send(send(seq=seq))

        assert 8 == sender.prober.open_probes
        assert 2 == sender.counters["probes-open-limit"]


def test_numbers_go_on_when_sessions_are_replaced():
    """A new table of sessions must not look like a replay to the peer."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        numbers = []
        for _ in range(2):
            sender.prober.configure((plan(plain.getsockname()[1]),))
            sender.prober.send(send(seq=0))
            numbers.append(_parsed(plain.recv(2048)).sequence)

        assert [0, 1] == numbers


def test_probe_says_what_the_command_and_the_banner_say():
    """Flags, coordination and banner travel; the next plain probe carries none of the extras."""
    message = Coordination(kind=CoordinationKind.PROPOSE, pair=0, rank=1, generation=2, nonce=3, target=NodeName("b1"))
    banner = Banner(view_up=1, view_known=3, active=(ActivePath(pair=0, rank=1, generation=2),))
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober.announce(sender.own(banner))
        port = free_port()
        for command in (
            SendProbe(session=SessionId(0), seq=0, source_port=port, coordination=message),
            SendProbe(session=SessionId(0), seq=1, source_port=free_port(), is_confirm=True),
            SendProbe(session=SessionId(0), seq=2, source_port=free_port()),
        ):
            sender.prober.send(command)
        proposing, confirming, ordinary = (_parsed(plain.recv(2048)) for _ in range(3))

        assert proposing.coordination is not None
        assert message == sender.dictionary.decode(proposing.coordination)
        assert FLAG_FRESH | FLAG_CONFIRM_BURST == confirming.mesh.flags
        assert (None, FLAG_FRESH, 1, 3) == (
            ordinary.coordination,
            ordinary.mesh.flags,
            ordinary.mesh.heard,
            ordinary.mesh.known,
        )


def test_command_for_a_session_of_an_earlier_table_is_dropped():
    """A late command is counted and harms nobody."""
    with nodes("a1") as (_poller, [sender]):
        sender.prober.send(send())

        assert 1 == sender.counters["sends-without-session"]
        assert [] == sender.events
