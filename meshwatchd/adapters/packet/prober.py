"""Sends probes and recognises their answers.

Probes are collected and leave together; each is dated and sealed just before it leaves. An answer counts when it comes
to the socket its probe left by, from the address the probe was sent to, verifies under the peer's key, and repeats
sequence number and timestamp of a probe that is outstanding. Everything else is counted by reason and changes nothing.

Sending takes sendto(2), not sendmmsg(2): see the figures in `mmsg`.
"""

from __future__ import annotations

import errno
import struct
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.mmsg import ReceiveBatch
from meshwatchd.adapters.packet.peers import Peers
from meshwatchd.adapters.packet.ports import SourcePort, SourcePorts
from meshwatchd.adapters.packet.session import FamiliarAnswer, ProbeSession
from meshwatchd.adapters.packet.sockets import PACKET_BYTES
from meshwatchd.adapters.packet.stamps import STAMP_BYTES, NtpClock, arrival_wall_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.events import ReplyReceived, SendFailed
from meshwatchd.model.ids import SessionId
from meshwatchd.model.load import AnswersDropped
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import FLAG_BRIEF, OwnState
from meshwatchd.wire.mould import cut, is_signed, shared
from meshwatchd.wire.parse import ParsedProbe, RejectReason, check_tags, verify_and_parse

PROBE_LIFE_NS: Final = 1_000_000_000
"""How long an answer is waited for: longer than any detection time, far shorter than a port's return."""
MAX_OUTSTANDING: Final = 65_536
"""Probes that may still be answered: 4 000 sessions at 10 a second of which none is, and as many again for bursts;
some 200 bytes each."""
MAX_OPEN: Final = 4096
"""Source ports in use at once: 200 sessions that each take ports of their own, 20 a second."""
BATCH: Final = 32
"""Answers taken with one system call."""

_CLAIM: Final = struct.Struct("> 26x H 20x I 12x Q")
"""SSID, sender's sequence number and timestamp of an answer: which probe it claims to answer (RFC 8762 section 4.3.2).
"""
_SSID_SHIFT: Final = 32

DEEP: Final = 4 * BATCH
"""So many answers waiting in one socket are a backlog, and the kernel is asked whether there was room for all of them:
the smallest buffer that a socket may have without privileges holds twice as many."""

Emit = Callable[[ReplyReceived | SendFailed | AnswersDropped], None]
_Queued = tuple[ProbeSession, SendProbe]


class _Flight:
    """Probes that left by one port, one behind the other.

    Attributes:
        began_ns: when the first of them left; CLOCK_MONOTONIC.
        keys: of all of them in the table of outstanding probes, answered or not.
    """

    __slots__ = ("began_ns", "keys", "port")

    def __init__(self, port: SourcePort[_Queued], began_ns: int) -> None:
        self.port = port
        self.began_ns = began_ns
        self.keys = array("Q")


class _Probe(msgspec.Struct, gc=False):
    """One probe that may still be answered."""

    session: ProbeSession
    seq: int
    ntp: int
    sent_ns: int
    flight: _Flight


class Prober:
    """All probes of this node."""

    def __init__(
        self,
        *,
        poller: Poller,
        peers: Peers,
        dictionary: translate.Dictionary,
        own: OwnState,
        counters: Counter[str],
        emit: Emit,
        max_open: int = MAX_OPEN,
        max_outstanding: int = MAX_OUTSTANDING,
    ) -> None:
        self._peers, self._dictionary = peers, dictionary
        self._own, self._counters, self._emit = own, counters, emit
        self._voice: translate.Voice | None = None
        self._max_outstanding = max_outstanding
        self._clock = NtpClock()
        self._sessions: dict[int, ProbeSession] = {}
        self._ports: SourcePorts[_Queued] = SourcePorts(
            poller=poller, reader=self._on_readable, counters=counters, max_open=max_open
        )
        self._queued: list[SourcePort[_Queued]] = []
        # Source, port and kind of the last of these.
        self._asked: tuple[str, int, bool] | None = None
        self._incoming = ReceiveBatch(BATCH, PACKET_BYTES, STAMP_BYTES)
        # By SSID and number on the wire; flights in the order of sending, so that the oldest is the first.
        self._outstanding: dict[int, _Probe] = {}
        self._flights: deque[_Flight] = deque()
        # The number on the wire is ours, not the engine's: it must not begin anew with the next table of
        # sessions, or the peers' replay windows would refuse the first thousand probes.
        self._sequences: list[int] = []

    def configure(self, plans: Iterable[SessionPlan]) -> None:
        """Take over a table of sessions; those whose plans are the same go on, with what they have under way."""
        self.flush()
        before, self._sessions = self._sessions, {}
        for plan in plans:
            if plan.peer not in self._peers:
                self._counters["sessions-without-peer"] += 1
                continue
            known = before.get(plan.session)
            if known is not None and known.plan == plan:
                self._sessions[plan.session] = known
                del before[plan.session]
                continue
            try:
                session = ProbeSession(plan, key=self._peers.sending_key(plan.peer), own=self._own)
            except DecodeError:
                self._counters["sessions-without-address"] += 1
                continue
            self._sessions[plan.session] = session
        self._forget(before.values())
        needed = max(self._sessions, default=-1) + 1
        self._sequences.extend([0] * (needed - len(self._sequences)))

    def _forget(self, gone: Iterable[ProbeSession]) -> None:
        """Nobody waits for the answers to these sessions any more."""
        numbers = {session.ssid for session in gone}
        for key in [key for key in self._outstanding if key >> _SSID_SHIFT in numbers] if numbers else ():
            del self._outstanding[key]

    def announce(self, own: OwnState, voice: translate.Voice | None = None) -> None:
        """Probes say this of the node from here on; in a mesh of many locations each says its part of it."""
        self._own, self._voice = own, voice

    def close(self) -> None:
        """Close every socket and forget every session."""
        self._ports.close()
        self._queued.clear()
        self._asked = None
        self._outstanding.clear()
        self._flights.clear()
        self._sessions.clear()

    def send(self, command: SendProbe) -> None:
        """Let one probe leave with the next `flush`; a source port that cannot be had becomes SendFailed."""
        session = self._sessions.get(command.session)
        if session is None:
            self._counters["sends-without-session"] += 1
            return
        asked = (session.plan.source, command.source_port, session.is_kept)
        if asked == self._asked:
            # Nearly all that is due together leaves by one port, which is open as long as something waits there.
            self._queued[-1].queue.append((session, command))
        else:
            try:
                port = self._ports.use(asked[0], asked[1], is_kept=asked[2])
            except OSError as error:
                self._fail(command.session, command.seq, error.errno or 0)
                return
            if not port.queue:
                self._queued.append(port)
                self._asked = asked
            port.queue.append((session, command))
        if command.coordination is not None:
            self.flush()

    def flush(self) -> None:
        """Send what waits; whatever keeps a probe from leaving becomes SendFailed."""
        for port in self._queued:
            self._launch(port)
            port.queue.clear()
        self._queued.clear()
        self._asked = None

    def expire(self, now_ns: int) -> None:
        """Forget what is older than PROBE_LIFE_NS, and close the ports it left by: nobody waits for it any more."""
        limit_ns = now_ns - PROBE_LIFE_NS
        flights = self._flights
        while flights and flights[0].began_ns < limit_ns:
            self._give_up(flights.popleft())
        self._ports.expire(limit_ns)

    @property
    def open_probes(self) -> int:
        """Probes that may still be answered."""
        return len(self._outstanding)

    @property
    def open_ports(self) -> int:
        """Source ports in use."""
        return len(self._ports)

    def _launch(self, port: SourcePort[_Queued]) -> None:
        """Number, date, sign and send everything that waits at one port."""
        queue, outstanding, sequences = port.queue, self._outstanding, self._sequences
        self._make_room(len(queue))
        own, dictionary, peers, send_to = self._own, self._dictionary, self._peers, port.send_to
        voice = self._voice
        ntp, failed, rotations = self._clock.stamp(len(queue)), 0, peers.rotations
        port.used_ns = monotonic_ns()
        flight = _Flight(port, port.used_ns)
        self._flights.append(flight)
        for session, command in queue:
            number = command.session
            sequence = sequences[number]
            sequences[number] = sequence + 1
            if session.rotations != rotations:
                session.use_key(peers.sending_key(session.plan.peer))
                session.rotations = rotations
            if session.reads_brief and not peers.peer(session.plan.peer).reads_brief:
                # An older daemon has taken the place of the one that answered last.
                session.reads_brief = False
            if voice is not None:
                own = voice.to(session.plan.peer)
            packet = session.template(command, own, dictionary).seal(sequence, ntp)
            key = session.ssid << _SSID_SHIFT | sequence
            flight.keys.append(key)
            # Known before it is sent: over veth and loopback the answer may be here when send_to() returns.
            outstanding[key] = _Probe(session, command.seq, ntp, monotonic_ns(), flight)
            ntp += 1
            try:
                if session.control:
                    port.send_with(packet, session.control, session.address)
                else:
                    send_to(packet, session.address)
            except OSError as error:
                if code := _send_anew(port, session, packet, error):
                    failed += 1
                    del outstanding[key]
                    self._fail(number, command.seq, code)
        self._counters["probes-sent"] += len(queue) - failed

    def _fail(self, session: SessionId, seq: int, error: int) -> None:
        self._counters["sends-failed"] += 1
        self._emit(SendFailed(session=session, seq=seq, errno=error))

    def _make_room(self, count: int) -> None:
        """Give up the oldest probes when there are too many."""
        while self._flights and len(self._outstanding) + count > self._max_outstanding:
            self._counters["probes-open-limit"] += 1
            self._give_up(self._flights.popleft())

    def _give_up(self, flight: _Flight) -> None:
        for key in flight.keys:
            self._outstanding.pop(key, None)

    def _on_readable(self, fd: int) -> None:
        """Take all answers out of a socket.

        Honest ones cannot be more than there are probes outstanding; a flood is cut off there.
        """
        port = self._ports[fd]
        full = len(self._outstanding) + BATCH
        left = full
        while left > 0:
            try:
                packets = self._incoming.receive(fd)
            except OSError:
                self._counters["receive-errors"] += 1
                return
            wall_ns, now_ns = time.time_ns(), monotonic_ns()
            ahead_ns, taken = wall_ns - now_ns, 0
            for data, name, control in packets:
                arrived_ns = arrival_wall_ns(control, wall_ns) - ahead_ns
                taken += self._take(port, data, name, min(now_ns, arrived_ns))
            self._counters["replies-received"] += taken
            if taken < len(packets):
                port.guard()
            if len(packets) < BATCH:
                break
            left -= BATCH
        if full - left >= DEEP and (dropped := port.take_dropped()):
            self._counters["replies-dropped"] += dropped
            self._emit(AnswersDropped(packets=dropped))

    def _take(self, port: SourcePort[_Queued], data: bytes, name: bytes, arrived_ns: int) -> bool:
        """Judge one packet, and whether it is an answer; what costs least is looked at first, the signature last."""
        counters = self._counters
        if len(data) < _CLAIM.size:
            # Of a port that is not guarded yet.
            counters["replies-unexpected"] += 1
            return False
        ssid, sequence, ntp = _CLAIM.unpack_from(data)
        key = ssid << _SSID_SHIFT | sequence
        probe = self._outstanding.get(key)
        if probe is None:
            counters["replies-unexpected"] += 1
            return False
        session = probe.session
        if probe.flight.port is not port or name != session.name:
            counters["replies-misdirected"] += 1
            return False
        familiar, pieces = session.familiar, cut(data)
        if (
            familiar is not None
            and pieces is not None
            and familiar.key is session.key
            and familiar.head == pieces[2]
            and familiar.tail == pieces[4]
        ):
            # It says what the answer before it said: only its signature and its claim are new.
            if is_signed(pieces, session.key.receive) and ntp == probe.ntp:
                del self._outstanding[key]
                self._accept(familiar, probe, arrived_ns)
                return True
            counters[f"replies-{check_tags(data, session.key) or 'replayed'}"] += 1
            return False
        signer: PairKey | None = session.key
        answer = verify_and_parse(data, session.key)
        if answer is RejectReason.WRONG_KEY_ID:
            # The probe was signed before a rotation, and its answer with what it was signed with.
            signer = self._peers.answering_key(session.plan.peer, data)
            answer = answer if signer is None else verify_and_parse(data, signer)
        if not isinstance(answer, ParsedProbe):
            counters[f"replies-{answer}"] += 1
        elif not answer.is_reply:
            counters["replies-unexpected"] += 1
        elif ntp != probe.ntp:
            counters["replies-replayed"] += 1
        else:
            del self._outstanding[key]
            familiar = FamiliarAnswer(
                key=signer,
                head=b"" if pieces is None else shared(pieces[2]),
                tail=b"" if pieces is None else shared(pieces[4]),
                epoch=answer.mesh.epoch,
                banner=translate.banner_of(answer.mesh),
                guard=self._peers.peer(session.plan.peer).guard,
                is_destination_refused=answer.is_destination_refused,
            )
            session.familiar, session.reads_brief = familiar, answer.mesh.flags & FLAG_BRIEF != 0
            self._accept(familiar, probe, arrived_ns)
            return True
        return False

    def _accept(self, answer: FamiliarAnswer, probe: _Probe, arrived_ns: int) -> None:
        probe.session.unanswered = 0
        epoch, guard = answer.epoch, answer.guard
        if guard.epoch != epoch and guard.confirm(epoch):
            self._counters["peer-epochs-confirmed"] += 1
        if answer.is_destination_refused:
            self._counters["replies-translated"] += 1
        self._emit(
            ReplyReceived(
                session=probe.session.plan.session,
                seq=probe.seq,
                rtt_ns=max(0, arrived_ns - probe.sent_ns),
                peer_epoch=epoch,
                banner=answer.banner,
            )
        )


def _send_anew(port: SourcePort[_Queued], session: ProbeSession, packet: bytes, error: OSError) -> int:
    """Send once more where the device was made anew meanwhile; the error number, 0 for none.

    Who deletes kilo0 or tunl0 and makes it again has done nothing to the way: that is no probe lost.
    """
    if session.find_device():
        try:
            port.send_with(packet, session.control, session.address)
        except OSError as again:
            error = again
        else:
            return 0
    return error.errno or errno.EIO
