"""Sends probes and recognises their answers.

An answer counts when it verifies under the peer's key and repeats the sequence number and the timestamp of
a probe that is outstanding on the very socket it came to. Everything else is counted by reason and changes
nothing.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.peers import Peers
from meshwatchd.adapters.packet.sockets import PACKET_BYTES, open_probe
from meshwatchd.adapters.packet.stamps import TIMESTAMP_SPACE, NtpClock, arrival_wall_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import Coordination, ReplyReceived, SendFailed
from meshwatchd.model.ids import FlowClass
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.wire import (
    FLAG_CONFIRM_BURST,
    OwnState,
    PairKey,
    ParsedProbe,
    ProbeSpec,
    ProbeTemplate,
    RejectReason,
    verify_and_parse,
)

PROBE_LIFE_NS: Final = 1_000_000_000
"""How long an answer is waited for: longer than any detection time, far shorter than a port's return."""
MAX_OPEN: Final = 4096
"""Probes outstanding at once: 200 sessions at 20 a second of which none is answered."""
MAX_PINNED_PORT_MOVES: Final = 16
_DRAIN: Final = 256
"""Answers taken from one pinned socket in one turn."""

Emit = Callable[[ReplyReceived | SendFailed], None]


class _Session:
    """A plan with its packet, its sequence space and, when pinned, its socket."""

    __slots__ = (
        "address",
        "coordinated",
        "flags",
        "is_confirm",
        "key",
        "own",
        "pinned",
        "plan",
        "ssid",
        "template",
    )

    def __init__(self, plan: SessionPlan, ssid: int, key: PairKey, own: OwnState) -> None:
        self.plan = plan
        self.ssid = ssid
        self.key = key
        self.own = own
        self.address = (plan.destination, plan.port)
        self.flags = translate.session_flags(plan.layer, plan.flow)
        self.is_confirm = False
        self.template = ProbeTemplate(self.spec(), key=key, own=own)
        self.coordinated: tuple[Coordination, ProbeTemplate] | None = None
        self.pinned: socket.socket | None = None

    def spec(
        self, coordination: Coordination | None = None, dictionary: translate.Dictionary | None = None
    ) -> ProbeSpec:
        encoded = None
        if coordination is not None and dictionary is not None:
            encoded = dictionary.encode(coordination)
        return ProbeSpec(
            ssid=self.ssid,
            path=self.plan.path,
            layer=self.plan.layer,
            flags=self.flags,
            destination=socket.inet_aton(self.plan.destination),
            coordination=encoded,
        )


class _Probe:
    """One probe that may still be answered."""

    __slots__ = ("ntp", "sent_ns", "seq", "session", "socket", "wire_sequence")

    def __init__(self, session: _Session, seq: int, wire_sequence: int, ntp: int) -> None:
        self.session = session
        self.seq = seq
        self.wire_sequence = wire_sequence
        self.ntp = ntp
        self.sent_ns = 0
        self.socket: socket.socket | None = None


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
    ) -> None:
        self._poller, self._peers, self._dictionary = poller, peers, dictionary
        self._own, self._counters, self._emit = own, counters, emit
        self._max_open = max_open
        self._clock = NtpClock()
        self._sessions: dict[int, _Session] = {}
        self._pinned: dict[int, _Session] = {}
        # Both in the order of sending, so that the oldest is the first.
        self._fresh: dict[int, _Probe] = {}
        self._outstanding: dict[tuple[int, int], _Probe] = {}
        # The number on the wire is ours, not the engine's: it must not begin anew with the next table of
        # sessions, or the peers' replay windows would refuse the first thousand probes.
        self._sequences: list[int] = []

    def configure(self, plans: Iterable[SessionPlan]) -> None:
        """Replace the table of sessions; outstanding probes are forgotten."""
        self.close()
        for plan in plans:
            if plan.peer not in self._peers:
                self._counters["sessions-without-peer"] += 1
                continue
            key = self._peers.sending_key(plan.peer)
            self._sessions[plan.session] = _Session(plan, plan.session + 1, key, self._own)
        needed = max(self._sessions, default=-1) + 1
        self._sequences.extend([0] * (needed - len(self._sequences)))

    def announce(self, own: OwnState) -> None:
        """Probes say this of the node from here on."""
        self._own = own

    def close(self) -> None:
        """Close every socket and forget every session."""
        for probe in [*self._fresh.values()]:
            self._close_fresh(probe)
        for session in self._sessions.values():
            self._close_pinned(session)
        self._outstanding.clear()
        self._sessions.clear()

    def send(self, command: SendProbe) -> None:
        """Send one probe; whatever keeps it from leaving becomes SendFailed."""
        session = self._sessions.get(command.session)
        if session is None:
            self._counters["sends-without-session"] += 1
            return
        sequence = self._sequences[command.session]
        self._sequences[command.session] = sequence + 1
        probe = _Probe(session, command.seq, sequence, self._clock.stamp())
        packet = self._template(session, command).seal(sequence, probe.ntp)
        try:
            if session.plan.flow is FlowClass.FRESH:
                self._send_fresh(probe, command.source_port, packet)
            else:
                self._send_pinned(probe, packet)
        except OSError as error:
            self._counters["sends-failed"] += 1
            self._emit(SendFailed(session=command.session, seq=command.seq, errno=error.errno or 0))
            return
        self._counters["probes-sent"] += 1

    def expire(self, now_ns: int) -> None:
        """Close what is older than PROBE_LIFE_NS; nobody waits for it any more."""
        limit_ns = now_ns - PROBE_LIFE_NS
        while self._fresh and (oldest := next(iter(self._fresh.values()))).sent_ns < limit_ns:
            self._close_fresh(oldest)
        while self._outstanding:
            key, probe = next(iter(self._outstanding.items()))
            if probe.sent_ns >= limit_ns:
                break
            del self._outstanding[key]

    @property
    def open_probes(self) -> int:
        """Fresh probes whose socket is open."""
        return len(self._fresh)

    def _template(self, session: _Session, command: SendProbe) -> ProbeTemplate:
        key = self._peers.sending_key(session.plan.peer)
        if session.key is not key:
            session.key, session.coordinated = key, None
            session.template.rekey(key)
        if session.own is not self._own:
            session.own = self._own
            session.template.announce(self._own)
            session.coordinated = None
        if command.coordination is not None:
            return self._coordinated(session, command.coordination)
        if session.is_confirm is not command.is_confirm:
            session.is_confirm = command.is_confirm
            session.template.set_flags(session.flags | (FLAG_CONFIRM_BURST if command.is_confirm else 0))
        return session.template

    def _coordinated(self, session: _Session, message: Coordination) -> ProbeTemplate:
        """A template with room for the message; it is repeated on many probes, so the last one is kept."""
        kept = session.coordinated
        if kept is not None and kept[0] == message:
            return kept[1]
        spec = session.spec(message, self._dictionary)
        template = ProbeTemplate(spec, key=session.key, own=self._own)
        session.coordinated = (message, template)
        return template

    def _send_fresh(self, probe: _Probe, source_port: int, packet: bytearray) -> None:
        if len(self._fresh) >= self._max_open:
            self._counters["probes-open-limit"] += 1
            self._close_fresh(next(iter(self._fresh.values())))
        opened = open_probe(probe.session.plan.source, source_port, probe.session.address)
        probe.socket = opened
        fd = opened.fileno()
        # Known before it is sent: over veth and loopback the answer may be here when send() returns.
        self._fresh[fd] = probe
        self._poller.add(fd, self._on_fresh)
        probe.sent_ns = monotonic_ns()
        try:
            opened.send(packet)
        except OSError:
            self._close_fresh(probe)
            raise

    def _send_pinned(self, probe: _Probe, packet: bytearray) -> None:
        session = probe.session
        pinned = session.pinned or self._open_pinned(session)
        probe.sent_ns = monotonic_ns()
        try:
            pinned.send(packet)
        except OSError:
            # send() also reports an ICMP error that answered an earlier probe, and then has sent nothing.
            pinned.send(packet)
        if len(self._outstanding) >= self._max_open:
            self._counters["probes-open-limit"] += 1
            del self._outstanding[next(iter(self._outstanding))]
        self._outstanding[session.plan.session, probe.wire_sequence] = probe

    def _open_pinned(self, session: _Session) -> socket.socket:
        first = session.plan.pinned_port
        for port in range(first, first + MAX_PINNED_PORT_MOVES):
            try:
                session.pinned = open_probe(session.plan.source, port, session.address)
                break
            except OSError:
                if port == first + MAX_PINNED_PORT_MOVES - 1:
                    raise
                self._counters["pinned-port-moves"] += 1
        assert session.pinned is not None
        self._pinned[session.pinned.fileno()] = session
        self._poller.add(session.pinned.fileno(), self._on_pinned)
        return session.pinned

    def _close_fresh(self, probe: _Probe) -> None:
        assert probe.socket is not None
        fd = probe.socket.fileno()
        del self._fresh[fd]
        self._poller.forget(fd)
        probe.socket.close()

    def _close_pinned(self, session: _Session) -> None:
        if session.pinned is not None:
            del self._pinned[session.pinned.fileno()]
            self._poller.forget(session.pinned.fileno())
            session.pinned.close()
            session.pinned = None

    def _on_fresh(self, fd: int) -> None:
        probe = self._fresh[fd]
        assert probe.socket is not None
        while (packet := self._receive(probe.socket)) is not None:
            data, arrived_ns = packet
            answer = self._verify(data, probe.session)
            if answer is not None and self._is_answer(answer, probe):
                self._close_fresh(probe)
                self._accept(answer, probe, arrived_ns)
                return

    def _on_pinned(self, fd: int) -> None:
        session = self._pinned[fd]
        assert session.pinned is not None
        for _ in range(_DRAIN):
            packet = self._receive(session.pinned)
            if packet is None:
                return
            data, arrived_ns = packet
            answer = self._verify(data, session)
            if answer is None:
                continue
            key = (session.plan.session, answer.sender_sequence)
            probe = self._outstanding.get(key)
            if probe is None:
                self._counters["replies-unexpected"] += 1
            elif self._is_answer(answer, probe):
                del self._outstanding[key]
                self._accept(answer, probe, arrived_ns)

    def _receive(self, source: socket.socket) -> tuple[bytes, int] | None:
        """The next packet and when it came (CLOCK_MONOTONIC, nanoseconds); None when there is none."""
        try:
            data, ancillary, _flags, _address = source.recvmsg(PACKET_BYTES, TIMESTAMP_SPACE)
        except BlockingIOError:
            return None
        except OSError:
            # An ICMP error for an earlier packet, mostly ECONNREFUSED. Anybody can forge one: it proves
            # nothing.
            self._counters["icmp-errors"] += 1
            return None
        wall_ns, now_ns = time.time_ns(), monotonic_ns()
        return data, now_ns - max(0, wall_ns - arrival_wall_ns(ancillary, wall_ns))

    def _verify(self, data: bytes, session: _Session) -> ParsedProbe | None:
        parsed = verify_and_parse(data, session.key)
        if parsed is RejectReason.WRONG_KEY_ID:
            # The probe was signed before a rotation, and its answer with what it was signed with.
            key = self._peers.answering_key(session.plan.peer, data)
            parsed = parsed if key is None else verify_and_parse(data, key)
        if isinstance(parsed, ParsedProbe):
            if parsed.is_reply and parsed.ssid == session.ssid:
                return parsed
            self._counters["replies-unexpected"] += 1
        else:
            self._counters[f"replies-{parsed}"] += 1
        return None

    def _is_answer(self, answer: ParsedProbe, probe: _Probe) -> bool:
        if (answer.sender_sequence, answer.sender_timestamp_ntp) == (probe.wire_sequence, probe.ntp):
            return True
        self._counters["replies-replayed"] += 1
        return False

    def _accept(self, answer: ParsedProbe, probe: _Probe, arrived_ns: int) -> None:
        plan = probe.session.plan
        if self._peers.peer(plan.peer).guard.confirm(answer.mesh.epoch):
            self._counters["peer-epochs-confirmed"] += 1
        if answer.is_destination_refused:
            self._counters["replies-translated"] += 1
        self._counters["replies-received"] += 1
        self._emit(
            ReplyReceived(
                session=plan.session,
                seq=probe.seq,
                rtt_ns=max(0, arrived_ns - probe.sent_ns),
                peer_epoch=answer.mesh.epoch,
                banner=translate.banner_of(answer.mesh),
            )
        )
