"""Probes leave by the port that was asked for, and only true answers count."""

from __future__ import annotations

import errno
import socket

import msgspec
import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet.prober import BATCH, DEEP, PROBE_LIFE_NS
from meshwatchd.adapters.packet.sockets import open_probe
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import (
    ActivePath,
    Banner,
    Coordination,
    CoordinationKind,
    OtherKeySeen,
    ReplyReceived,
    RequestReceived,
    SendFailed,
)
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import FlowClass, NodeName, SessionId
from meshwatchd.model.load import AnswersDropped
from meshwatchd.model.outputs import SendProbe
from meshwatchd.wire.answer import Reflector as Answers
from meshwatchd.wire.auth import KeyRole, MeshSecret
from meshwatchd.wire.mesh_tlv import FLAG_CONFIRM_BURST, FLAG_FRESH
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.reflect import reflect
from tests.support.packet_node import SECRET, PacketNode, free_port, key, nodes, plan, send, stamping_kernel, udp
from tests.support.pump import pump


def _send(node: PacketNode, *commands: SendProbe) -> None:
    for command in commands:
        node.prober.send(command)
    node.prober.flush()


def _await_events(poller: Poller, node: PacketNode, count: int) -> None:
    pump(poller, lambda: len(node.events) == count)


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


def _failures(node: PacketNode) -> list[tuple[int, int, int]]:
    failed = [event for event in node.events if isinstance(event, SendFailed)]
    return [(event.session, event.seq, event.errno) for event in failed]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_probe_is_answered(address):
    """A probe to a living reflector becomes ReplyReceived with a plausible round trip, over either family."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listeners.listen((port,))
        sender.prober.configure((plan(port, address=address),))
        before_ns = monotonic_ns()

        _send(sender, send(seq=7))
        pump(poller, lambda: bool(sender.events))

        [reply] = sender.events
        assert isinstance(reply, ReplyReceived)
        assert (SessionId(0), 7, 1002) == (reply.session, reply.seq, reply.peer_epoch)
        assert 0 < reply.rtt_ns <= monotonic_ns() - before_ns
        assert 0 == sender.prober.open_probes
        assert {"probes-sent": 1, "replies-received": 1, "peer-epochs-confirmed": 1} == sender.counters


def test_probes_wait_for_the_flush():
    """They leave together; a message between relays does not wait, nor does what was before it."""
    message = Coordination(kind=CoordinationKind.GRANT, pair=0, rank=1, generation=2, nonce=3, target=NodeName("b1"))
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        plain.settimeout(0.01)
        sender.prober.configure((plan(plain.getsockname()[1]),))
        port = free_port()
        sender.prober.send(send(seq=0, source_port=port))
        with pytest.raises(TimeoutError):
            plain.recv(2048)

        sender.prober.send(msgspec.structs.replace(send(seq=1, source_port=port), coordination=message))
        assert [0, 1] == [_parsed(plain.recv(2048)).sequence for _ in range(2)]


def test_one_port_serves_many_sessions():
    """All sessions of a node may use one new port at the same time: their flows differ in the other port."""
    count = 2 * BATCH + 1
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port, listening = free_port(), [free_port() for _ in range(3)]
        peer.reflector.listeners.listen(listening)
        sender.prober.configure(plan(listening[number % 3], session=number) for number in range(count))

        _send(sender, *(send(seq=7, source_port=port, session=number) for number in range(count)))
        assert (1, count) == (sender.prober.open_ports, sender.prober.open_probes)
        pump(poller, lambda: len(sender.events) == count)

        replies = [event for event in sender.events if isinstance(event, ReplyReceived)]
        assert list(range(count)) == sorted(reply.session for reply in replies)
        assert {7} == {reply.seq for reply in replies}


def test_round_trip_time_leaves_our_own_lateness_out():
    """An answer that waits in its socket while we are stopped shows the time it came, not the time it was read."""
    with stamping_kernel(), nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send())
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
            _send(sender, send(source_port=port))
            seen.append(plain.recvfrom(2048)[1][1])

        assert ports == seen


def test_busy_port_is_reported_at_once():
    """A port that somebody else has is EADDRINUSE, and nothing is sent; each session may try the next."""
    with nodes("a1") as (_poller, [sender]), udp() as other:
        sender.prober.configure((plan(free_port()), plan(free_port(), session=1)))
        port = other.getsockname()[1]

        sender.prober.send(send(seq=3, source_port=port))
        sender.prober.send(send(seq=4, source_port=port, session=1))

        assert [(0, 3, errno.EADDRINUSE), (1, 4, errno.EADDRINUSE)] == _failures(sender)
        assert (0, 0) == (sender.prober.open_probes, sender.prober.open_ports)


def test_unreachable_destination_costs_only_its_own_probe():
    """An address that no route leads to is an error of the send, not a silence; its neighbours in the batch leave."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listeners.listen((port,))
        lost = msgspec.structs.replace(plan(port, session=1), destination="240.0.0.1")
        sender.prober.configure((plan(port), lost, plan(port, session=2)))
        shared = free_port()

        _send(sender, *(send(source_port=shared, session=number) for number in (0, 1, 2, 1)))
        failures = _failures(sender)
        sender.events.clear()
        pump(poller, lambda: len(sender.events) == 2)

        assert [1, 1] == [session for session, _seq, _errno in failures]
        assert {error for *_, error in failures} <= {errno.ENETUNREACH, errno.EINVAL, errno.EHOSTUNREACH}
        assert {0, 2} == {event.session for event in sender.events if isinstance(event, ReplyReceived)}
        assert (2, 2) == (sender.counters["probes-sent"], sender.counters["sends-failed"])
        assert 0 == sender.prober.open_probes


@pytest.mark.parametrize("destination", ["nowhere", "fe80::1", "fe80::1%lo", "::1"])
def test_session_without_a_usable_address_is_no_session(destination):
    """No literal, link-local, or of another family than the source: counted, and the others go on."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        bad = msgspec.structs.replace(plan(free_port(), session=1), destination=destination)
        sender.prober.configure((bad, plan(plain.getsockname()[1])))

        _send(sender, send(session=1), send())

        assert plain.recv(2048)
        assert (1, 1) == (sender.counters["sessions-without-address"], sender.counters["sends-without-session"])


@pytest.mark.parametrize("flow", list(FlowClass))
def test_rotation_under_way_loses_no_answer(flow):
    """A probe signed with the old key is answered with it after both have moved on; the next is signed anew."""
    new = MeshSecret(secret=bytes(range(1, 33)))
    both = [new, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)]
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listeners.listen((port,))
        sender.prober.configure((plan(port, flow=flow),))
        _send(sender, send(seq=1))
        for node in (sender, peer):
            node.peers.use(both)
        _send(sender, send(seq=2))
        pump(poller, lambda: len(sender.events) == 2)

        assert {1, 2} == {event.seq for event in sender.events if isinstance(event, ReplyReceived)}
        assert {"probes-sent", "replies-received"} >= set(sender.counters) - {"peer-epochs-confirmed"}
        for node in (sender, peer):
            node.peers.use([new])
        _send(sender, send(seq=3))
        pump(poller, lambda: len(sender.events) == 3)

        assert {"answers-sent": 3} == peer.counters


def test_passing_to_a_key_of_the_pair_loses_no_answer():
    """What is under way is answered under the key it was signed with; at the end the mesh's key counts for nothing."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listeners.listen((port,))
        sender.prober.configure((plan(port),))

        def bind(node, other, **state):
            node.peers.bind([PairBinding(peer=NodeName(other), shared=bytes(range(50, 82)), **state)])

        steps = [(peer, "a1", {}), (sender, "b1", {"signs": True}), (peer, "a1", {"signs": True, "is_alone": True})]
        for number, (node, other, state) in enumerate(steps):
            _send(sender, send(seq=number))
            bind(node, other, **state)
            _await_events(poller, sender, number + 1)
        _send(sender, send(seq=3))
        pump(poller, lambda: len(sender.events) == 4)
        assert {"answers-sent": 4} == peer.counters
        assert all(isinstance(event, ReplyReceived) for event in sender.events)

        bind(sender, "b1")
        _send(sender, send(seq=4))
        pump(poller, lambda: peer.counters["requests-unknown-key"] == 1)
        assert 4 == peer.counters["answers-sent"]
        assert [OtherKeySeen] == [type(event) for event in peer.events if not isinstance(event, RequestReceived)]


def test_forged_answer_changes_nothing():
    """A flipped bit is counted; the true answer behind it still counts."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send())
        packet, address = plain.recvfrom(2048)
        true = _answer(peer, packet)
        forged = bytearray(true)
        forged[40] ^= 1
        plain.sendto(forged, address)
        plain.sendto(packet, address)
        plain.sendto(true, address)

        pump(poller, lambda: bool(sender.events))

        assert [ReplyReceived] == [type(event) for event in sender.events]
        assert 1 == sender.counters["replies-bad-base-tag"]
        assert 1 == sender.counters["replies-wrong-sender"]


def test_answer_to_another_port_is_refused():
    """It must come to the socket its probe left by, as it does on every path that translates nothing."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send(seq=0), send(seq=1))
        (packet, address), (_other, elsewhere) = plain.recvfrom(2048), plain.recvfrom(2048)
        plain.sendto(_answer(peer, packet), elsewhere)
        pump(poller, lambda: bool(sender.counters["replies-misdirected"]))
        assert [] == sender.events

        plain.sendto(_answer(peer, packet), address)
        pump(poller, lambda: bool(sender.events))
        assert 1 == sender.prober.open_probes


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_answer_from_another_address_is_refused(source):
    """Whoever was asked must answer, from the port that was asked: neither another host nor another process."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain, udp(source) as other:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send())
        packet, address = plain.recvfrom(2048)
        other.sendto(_answer(peer, packet), address)
        pump(poller, lambda: bool(sender.counters["replies-misdirected"]))
        assert [] == sender.events

        plain.sendto(_answer(peer, packet), address)
        pump(poller, lambda: bool(sender.events))


def test_answer_counts_once():
    """The same answer again is unexpected."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send())
        packet, address = plain.recvfrom(2048)
        for _ in range(2):
            plain.sendto(_answer(peer, packet), address)
        pump(poller, lambda: bool(sender.counters["replies-unexpected"]))

        assert 1 == len(sender.events)


def test_answers_that_its_own_socket_had_no_room_for_are_told():
    """The kernel threw them away: their silence says nothing of the network."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        sender.prober._max_outstanding = 1000
        fresh = free_port()

        def ask(count: int) -> None:
            for seq in range(count):
                _send(sender, send(seq=seq, source_port=fresh))
                packet, port = plain.recvfrom(2048)
                plain.sendto(_answer(peer, packet), port)
            poller.dispatch(poller.wait())

        ask(1)
        [source] = sender.prober._ports._by_fd.values()
        source._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 150_000)
        ask(800)
        [told] = [event for event in sender.events if isinstance(event, AnswersDropped)]
        heard = len([event for event in sender.events if isinstance(event, ReplyReceived)])
        assert 801 == heard + told.packets
        assert DEEP < heard < 801
        assert told.packets == sender.counters["replies-dropped"]

        ask(DEEP)
        assert heard + DEEP == len([event for event in sender.events if isinstance(event, ReplyReceived)])
        assert told.packets == sender.counters["replies-dropped"]


def test_answer_with_the_number_of_another_table_is_a_replay():
    """A probe of the same session and number, signed at another time, as a restarted daemon sends it."""
    with nodes("a1", "a1", "b1") as (poller, [before, sender, peer]), udp() as plain:
        recorded = []
        port = free_port()
        for node in (before, sender):
            node.prober.configure((plan(plain.getsockname()[1]),))
            _send(node, send(source_port=port))
            packet, address = plain.recvfrom(2048)
            recorded.append(_answer(peer, packet))
            if node is before:
                node.prober.close()
        plain.sendto(recorded[0], address)
        pump(poller, lambda: bool(sender.counters["replies-replayed"]))

        assert [] == sender.events
        assert 1 == sender.prober.open_probes


def test_a_session_that_stays_keeps_what_it_has_under_way():
    """Another table with the same plan in it: the answer to a probe from before it still counts, once."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        ours = plan(plain.getsockname()[1])
        sender.prober.configure((ours,))
        _send(sender, send(source_port=free_port()))
        packet, address = plain.recvfrom(2048)
        sender.prober.configure((plan(free_port(), session=1), ours))
        plain.sendto(_answer(peer, packet), address)
        pump(poller, lambda: bool(sender.events))

        assert [ReplyReceived] == [type(event) for event in sender.events]
        assert 0 == sender.prober.open_probes


def test_answers_of_earlier_sessions_are_unexpected():
    """A table of sessions in which an id stands for another plan forgets what was asked under it."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        port = free_port()
        for number in range(2):
            sender.prober.configure((plan(plain.getsockname()[1], flow=tuple(FlowClass)[number]),))
            _send(sender, send(source_port=port))
            packet, address = plain.recvfrom(2048)
            if number == 0:
                recorded = _answer(peer, packet)
        plain.sendto(recorded, address)
        pump(poller, lambda: bool(sender.counters["replies-unexpected"]))

        assert [] == sender.events


def test_known_flows_keep_their_ports():
    """Fresh ports close when their life is over; those of known flows stay, and their flows with them."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port, fresh, known = free_port(), free_port(), free_port()
        peer.reflector.listeners.listen((port,))
        sender.prober.configure((plan(port), plan(port, flow=FlowClass.PINNED, session=1)))
        for seq in range(3):
            _send(sender, send(seq=seq, source_port=fresh), send(seq=seq, source_port=known, session=1))
        pump(poller, lambda: len(sender.events) == 6)

        flows = [event.flow for event in peer.events if isinstance(event, RequestReceived)]
        assert 3 == flows.count(FlowClass.PINNED) == flows.count(FlowClass.FRESH)
        sender.prober.expire(monotonic_ns() + 2 * PROBE_LIFE_NS)
        assert 1 == sender.prober.open_ports
        open_probe("127.0.0.1", fresh).close()
        with pytest.raises(OSError, match="in use"):
            open_probe("127.0.0.1", known)


def test_old_probes_and_their_ports_are_given_up():
    """Nobody waits for an answer longer than a second."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        _send(sender, send())

        sender.prober.expire(monotonic_ns())
        assert (1, 1) == (sender.prober.open_probes, sender.prober.open_ports)

        sender.prober.expire(monotonic_ns() + PROBE_LIFE_NS)
        assert (0, 0) == (sender.prober.open_probes, sender.prober.open_ports)


def test_open_ports_are_bounded():
    """Beyond the limit the port that was used longest ago is closed, and counted."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        for seq in range(10):
            _send(sender, send(seq=seq))

        assert (8, 10) == (sender.prober.open_ports, sender.prober.open_probes)
        assert 2 == sender.counters["source-ports-limit"]


def test_outstanding_probes_are_bounded():
    """Beyond the limit the oldest are given up, and counted; their numbers answer nothing any more."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        port = free_port()
        for first in range(0, 120, 10):
            _send(sender, *(send(seq=first + seq, source_port=port) for seq in range(10)))

        assert 100 == sender.prober.open_probes
        assert 2 == sender.counters["probes-open-limit"]


def test_numbers_go_on_when_sessions_are_replaced():
    """A new table of sessions must not look like a replay to the peer."""
    with nodes("a1") as (_poller, [sender]), udp() as plain:
        numbers = []
        for _ in range(2):
            sender.prober.configure((plan(plain.getsockname()[1]),))
            _send(sender, send(seq=0))
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
        _send(
            sender,
            SendProbe(session=SessionId(0), seq=0, source_port=port, coordination=message),
            SendProbe(session=SessionId(0), seq=1, source_port=free_port(), is_confirm=True),
            SendProbe(session=SessionId(0), seq=2, source_port=free_port()),
        )
        proposing, confirming, ordinary = (_parsed(plain.recv(2048)) for _ in range(3))

        assert proposing.coordination is not None
        assert message == sender.dictionary.decode(proposing.coordination)
        assert FLAG_FRESH | FLAG_CONFIRM_BURST == confirming.mesh.flags & 0xFF
        assert (None, FLAG_FRESH, 1, 3) == (
            ordinary.coordination,
            ordinary.mesh.flags & 0xFF,
            ordinary.mesh.heard,
            ordinary.mesh.known,
        )


def test_command_for_a_session_of_an_earlier_table_is_dropped():
    """A late command is counted and harms nobody."""
    with nodes("a1") as (_poller, [sender]):
        _send(sender, send())

        assert 1 == sender.counters["sends-without-session"]
        assert [] == sender.events
