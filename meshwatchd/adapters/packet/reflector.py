"""Answers the probes of peers: the session-reflector of RFC 8762, stateful, for nodes of the mesh only.

The answer goes back from the address the request was sent to and out of the interface it came in by, so
that it tests the same way in the other direction. Only answers to "effective" probes leave the interface to
the routing table: these ask what the routing table does. And on a device where each packet carries its own
destination (Cilium's VXLAN) nobody but the routing table, or the eBPF behind it, knows where an answer goes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.delivery import ANSWER_CONTROL_BYTES, REQUEST_CONTROL_BYTES, Delivery, read_delivery
from meshwatchd.adapters.packet.listeners import Listener, Listeners
from meshwatchd.adapters.packet.mmsg import Datagram, ReceiveBatch, SendBatch
from meshwatchd.adapters.packet.peers import Peer, Peers
from meshwatchd.adapters.packet.sockets import IP_HEADERS_BYTES, LONGEST_BYTES, set_fragmenting
from meshwatchd.adapters.packet.stamps import STAMP_BYTES, NtpClock, arrival_ntp
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import OtherKeySeen, RequestReceived
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import FLAG_BRIEF, FLAG_CONFIRM_BURST, FLAG_FRAGMENTS, FLAG_SIZE, OwnState
from meshwatchd.wire.mould import Mould, Pieces, cut, is_signed
from meshwatchd.wire.parse import ParsedProbe, check_tags, verify_and_parse
from meshwatchd.wire.reflect import read_asked, reflect, reflect_again
from meshwatchd.wire.replay import FIRST_SERIES, ReplayVerdict
from meshwatchd.wire.seal import peek

DRAIN: Final = 256
"""Requests taken from one socket in one turn, some 6 ms of work: a flood cannot starve our own probes."""
BATCH: Final = 32
"""Requests that are answered together: the first answer waits for the last, some 0.5 ms."""
MAX_SESSIONS: Final = 4096
MAX_FAMILIAR: Final = 8192
"""Requests that are remembered with their answers; some 800 bytes each, one or two for each session."""

Emit = Callable[[RequestReceived | OtherKeySeen], None]


class _Now(NamedTuple):
    """One instant: CLOCK_MONOTONIC and CLOCK_REALTIME in nanoseconds, and the next timestamp of an answer."""

    now_ns: int
    wall_ns: int
    tx_ntp: int


class _Familiar(msgspec.Struct, gc=False):
    """A verified request and what became of it, for those that repeat all but its base packet.

    Nearly all requests do: what is new in them is number, time and signature, so that nothing else is looked at.

    Attributes:
        peer, key: its signer.
        epoch: of the signer.
        event, is_fresh: what was told, and what that says of the epoch.
        way: how it came, as ancillary data without its stamp; `ttl` is part of that.
        way_back: ancillary data of the answer.
        own, is_routed: this node's state and the kind of port that went into the answer.
        mould: of the answer.
    """

    peer: Peer
    key: PairKey
    epoch: int
    event: RequestReceived
    is_fresh: bool
    way: bytes
    ttl: int
    way_back: bytes
    own: OwnState
    is_routed: bool
    mould: Mould


class Reflector:
    """Everything that happens on the listening sockets.

    Attributes:
        listeners: which they are.
    """

    def __init__(
        self,
        *,
        poller: Poller,
        peers: Peers,
        dictionary: translate.Dictionary,
        own: OwnState,
        counters: Counter[str],
        emit: Emit,
        routed_port: int,
    ) -> None:
        self._peers, self._dictionary = peers, dictionary
        self._own, self._counters, self._emit = own, counters, emit
        self._voice: translate.Voice | None = None
        self.listeners = Listeners(poller, self._on_readable, counters=counters, routed_port=routed_port)
        self._clock = NtpClock()
        self._incoming = ReceiveBatch(BATCH, LONGEST_BYTES, REQUEST_CONTROL_BYTES)
        self._outgoing = SendBatch(BATCH, LONGEST_BYTES, ANSWER_CONTROL_BYTES)
        # Answers that may be fragmented leave behind the others: DF is the socket's, not a packet's.
        self._in_fragments: list[tuple[bytes, bytes, bytes]] = []
        # By third and fifth piece (see `wire.mould.Pieces`).
        self._familiar: dict[tuple[bytes, bytes], _Familiar] = {}
        self._rotations = 0
        self._external: frozenset[int] = frozenset()

    def announce(self, own: OwnState, voice: translate.Voice | None = None) -> None:
        """Answers say this of the node from here on; in a mesh of many locations each says its part of it."""
        self._own, self._voice = own, voice

    def route_back(self, interfaces: Iterable[int]) -> None:
        """Answer what comes in by these interfaces by the routing table from here on."""
        external = frozenset(interfaces)
        if external != self._external:
            self._external = external
            self._familiar.clear()

    def _on_readable(self, fd: int) -> None:
        listener = self.listeners.by_fd[fd]
        if self._rotations != self._peers.rotations:
            self._rotations = self._peers.rotations
            self._familiar.clear()
        for _ in range(DRAIN // BATCH):
            try:
                requests = self._incoming.receive(fd)
            except OSError:
                self._counters["receive-errors"] += 1
                return
            now = _Now(monotonic_ns(), time.time_ns(), self._clock.stamp(len(requests)))
            self._hear(listener, requests, now)
            self._send_answers(fd)
            if self._in_fragments:
                self._send_in_fragments(listener, fd)
            if len(requests) < BATCH:
                return

    def _hear(self, listener: Listener, requests: list[Datagram], now: _Now) -> None:
        """Answer requests and tell of them, or count why not."""
        familiar, own, voice, is_routed, tx_ntp = self._familiar, self._own, self._voice, listener.is_routed, now.tx_ntp
        for datagram in requests:
            pieces, known = cut(datagram[0]), None
            if pieces is not None:
                known = familiar.get((pieces[2], pieces[4]))
            if (
                known is not None
                and pieces is not None
                and known.own is (own if voice is None else voice.always_to(known.peer.name))
                and known.is_routed is is_routed
                and known.way == datagram[2][STAMP_BYTES:]
            ):
                reason = self._hear_again(known, datagram, pieces, now, tx_ntp=tx_ntp)
            else:
                reason = self._hear_first(listener, datagram, pieces, now, tx_ntp=tx_ntp)
            if reason:
                self._counters[f"requests-{reason}"] += 1
            tx_ntp += 1

    def _hear_again(self, known: _Familiar, datagram: Datagram, pieces: Pieces, now: _Now, *, tx_ntp: int) -> str:
        """Take a request that is like one before it; the reason why it gets no answer, empty if it does."""
        data, name, control = datagram
        peer, key, now_ns = known.peer, known.key, now.now_ns
        if peer.bucket.is_empty(now_ns):
            return "rate-limited"
        if not is_signed(pieces, key.receive):
            return check_tags(data, key) or ""
        asked = read_asked(data)
        sequence, _timestamp, _error, ssid = asked
        verdict = peer.guard.accept(known.epoch, sequence, session=ssid)
        is_fresh = verdict is ReplayVerdict.FRESH
        if not is_fresh and verdict is not ReplayVerdict.UNCONFIRMED_EPOCH:
            return "replayed"
        if not (peer.bucket.take(now_ns) and self._peers.bucket.take(now_ns)):
            return "rate-limited"
        reply = reflect_again(
            known.mould,
            asked,
            key=key,
            reflector_sequence=_count(peer, ssid),
            rx_ntp=arrival_ntp(control, now.wall_ns),
            tx_ntp=tx_ntp,
            ttl=known.ttl,
        )
        self._outgoing.add(reply, name, known.way_back)
        if known.is_fresh is not is_fresh:
            known.event, known.is_fresh = msgspec.structs.replace(known.event, is_fresh_epoch=is_fresh), is_fresh
        self._emit(known.event)
        return ""

    def _hear_first(
        self, listener: Listener, datagram: Datagram, pieces: Pieces | None, now: _Now, *, tx_ntp: int
    ) -> str:
        """Take a request that may be anything; the reason why it gets no answer, empty if it does."""
        data, _name, control = datagram
        accepted = self._admit(data, now.now_ns)
        if isinstance(accepted, str):
            return accepted
        peer, key, request, verdict = accepted
        if request.ssid < FIRST_SERIES:
            peer.reads_brief = request.mesh.flags & FLAG_BRIEF != 0
        is_fresh = verdict is ReplayVerdict.FRESH
        delivery = read_delivery(control[STAMP_BYTES:])
        if delivery.interface in self._external:
            delivery = msgspec.structs.replace(delivery, answer=delivery.routed_answer)
        own = self._own_to(peer)
        reply = self._answer(
            listener, datagram, delivery, now._replace(tx_ntp=tx_ntp), peer=peer, key=key, own=own, request=request
        )
        size_bytes = 0
        if request.mesh.flags & FLAG_SIZE and not request.mesh.flags & FLAG_FRAGMENTS:
            size_bytes = len(data) + IP_HEADERS_BYTES[listener.socket.family]
        event = self._event(peer, request, size_bytes, is_fresh=is_fresh)
        if event is None:
            return "unknown-layer"
        self._emit(event)
        is_plain = request.coordination is None and not request.has_questions
        if is_plain and pieces is not None and key.secret_id == self._peers.signing_id:
            if len(self._familiar) >= MAX_FAMILIAR:
                self._familiar.clear()
            self._familiar[pieces[2], pieces[4]] = _Familiar(
                peer=peer,
                key=key,
                epoch=request.mesh.epoch,
                event=event,
                is_fresh=is_fresh,
                way=control[STAMP_BYTES:],
                ttl=delivery.ttl,
                way_back=delivery.routed_answer if listener.is_routed else delivery.answer,
                own=own,
                is_routed=listener.is_routed,
                mould=Mould(reply),
            )
        return ""

    def _own_to(self, peer: Peer) -> OwnState:
        return self._own if self._voice is None else self._voice.to(peer.name)

    def _send_answers(self, fd: int) -> None:
        count = len(self._outgoing)
        failed = len(self._outgoing.send(fd))
        if failed:
            self._counters["answers-failed"] += failed
        if count > failed:
            self._counters["answers-sent"] += count - failed

    def _send_in_fragments(self, listener: Listener, fd: int) -> None:
        set_fragmenting(listener.socket, may_fragment=True)
        for answer in self._in_fragments:
            self._outgoing.add(*answer)
            self._send_answers(fd)
        self._in_fragments.clear()
        set_fragmenting(listener.socket, may_fragment=False)

    def _admit(self, data: bytes, now_ns: int) -> tuple[Peer, PairKey, ParsedProbe, ReplayVerdict] | str:
        """Verify a request; the reason why it gets no answer otherwise."""
        claim = peek(data)
        if claim is None:
            return "not-mesh"
        claimed = self._peers.claimed(*claim)
        if claimed is None:
            return self._refuse(*claim)
        peer, key = claimed
        if peer.bucket.is_empty(now_ns):
            # Whoever has used up its share costs no hashing either: its flood must not take others' time.
            return "rate-limited"
        parsed = verify_and_parse(data, key)
        if not isinstance(parsed, ParsedProbe):
            return parsed
        if parsed.is_reply:
            return "not-a-request"
        verdict = peer.guard.accept(parsed.mesh.epoch, parsed.sequence, session=parsed.ssid)
        if verdict is not ReplayVerdict.FRESH and verdict is not ReplayVerdict.UNCONFIRMED_EPOCH:
            return "replayed"
        # Charged behind the signature: forged packets must not use up what honest peers are entitled to.
        if not (peer.bucket.take(now_ns) and self._peers.bucket.take(now_ns)):
            return "rate-limited"
        if key.secret_id != self._peers.signing_id and peer.other_keys.take(now_ns):
            self._emit(OtherKeySeen(peer=peer.name, key_id=key.secret_id, is_known=True))
        return peer, key, parsed, verdict

    def _refuse(self, node_id: int, key_id: int) -> str:
        """Why there is no key for a request; a peer's name under an unknown key is worth telling."""
        peer = self._peers.named(node_id)
        if peer is None:
            return "unknown-peer"
        if peer.other_keys.take(monotonic_ns()):
            self._emit(OtherKeySeen(peer=peer.name, key_id=key_id))
        return "unknown-key"

    def _answer(
        self,
        listener: Listener,
        datagram: Datagram,
        delivery: Delivery,
        now: _Now,
        *,
        peer: Peer,
        key: PairKey,
        own: OwnState,
        request: ParsedProbe,
    ) -> bytes:
        """Put the answer to a verified request into the batch; returns it."""
        data, name, control = datagram
        count = _count(peer, request.ssid)
        asked = delivery.reflector
        if request.has_questions:
            asked = delivery.asked(name, port=listener.port, count=count + 1)
        reply = reflect(
            data,
            request,
            key=key,
            own=own,
            reflector=asked,
            reflector_sequence=count,
            rx_ntp=arrival_ntp(control, now.wall_ns),
            tx_ntp=now.tx_ntp,
            ttl=delivery.ttl,
        )
        way_back = delivery.routed_answer if listener.is_routed else delivery.answer
        if request.mesh.flags & FLAG_FRAGMENTS:
            self._in_fragments.append((reply, name, way_back))
        else:
            self._outgoing.add(reply, name, way_back)
        return reply

    def _event(self, peer: Peer, request: ParsedProbe, size_bytes: int, *, is_fresh: bool) -> RequestReceived | None:
        """What is told of a request; None for a layer that this version does not know."""
        mesh, message = request.mesh, request.coordination
        layer = translate.LAYERS.get(mesh.layer)
        if layer is None:
            return None
        return RequestReceived(
            peer=peer.name,
            layer=layer,
            path=mesh.path,
            flow=translate.flow_of(mesh.flags),
            is_fresh_epoch=is_fresh,
            is_confirm=bool(mesh.flags & FLAG_CONFIRM_BURST),
            banner=translate.banner_of(mesh),
            coordination=self._dictionary.decode(message) if message is not None else None,
            size_bytes=size_bytes,
        )


def _count(peer: Peer, ssid: int) -> int:
    """The number of this answer in the peer's session; beyond MAX_SESSIONS it is always 0."""
    answered = peer.answered
    count = answered.get(ssid)
    if count is None:
        if len(answered) >= MAX_SESSIONS:
            return 0
        count = 0
    answered[ssid] = (count + 1) & 0xFFFF_FFFF
    return count
