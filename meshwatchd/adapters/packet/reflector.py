"""Answers the probes of peers: the session-reflector of RFC 8762, stateful, for nodes of the mesh only.

The answer goes back from the address the request was sent to and out of the interface it came in by, so
that it tests the same way in the other direction. Only answers to "effective" probes leave the interface to
the routing table: these ask what the routing table does.
"""

from __future__ import annotations

import functools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from meshwatchd import wire
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.peers import Peer, Peers
from meshwatchd.adapters.packet.sockets import (
    IP_PKTINFO,
    LISTENER_ANCILLARY_BYTES,
    PACKET_BYTES,
    PKTINFO,
    TTL,
    filtered_packets,
    open_listener,
)
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, Ancillary, NtpClock, arrival_wall_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import OtherKeySeen, RequestReceived
from meshwatchd.wire import OwnState, PairKey, ParsedProbe, ReplayVerdict, ntp_from_ns, peek, verify_and_parse

DRAIN: Final = 256
"""Requests taken from one socket in one turn, some 6 ms of work: a flood cannot starve our own probes."""
MAX_SESSIONS: Final = 4096
_NO_ADDRESS: Final = bytes(4)

Emit = Callable[[RequestReceived | OtherKeySeen], None]


class Reflector:
    """The listening sockets and everything that happens on them."""

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
        self._poller, self._peers, self._dictionary = poller, peers, dictionary
        self._own, self._counters, self._emit = own, counters, emit
        self._routed_port = routed_port
        self._clock = NtpClock()
        self._listeners: dict[int, socket.socket] = {}
        self._ports: dict[int, int] = {}
        self._wanted: tuple[int, ...] = ()

    def listen(self, ports: Iterable[int]) -> None:
        """Listen on exactly these ports; one that is taken is counted and left to `listen_again`."""
        self._wanted = tuple(sorted(set(ports)))
        for port in [port for port in self._ports if port not in self._wanted]:
            self._close(port)
        self.listen_again()

    def listen_again(self) -> None:
        """Open the wanted ports that could not be opened before."""
        for port in self._wanted:
            if port not in self._ports:
                try:
                    listener = open_listener(port)
                except OSError:
                    self._counters["listen-failed"] += 1
                    continue
                self._ports[port] = listener.fileno()
                self._listeners[listener.fileno()] = listener
                self._poller.add(listener.fileno(), self._on_readable)

    def announce(self, own: OwnState) -> None:
        """Answers say this of the node from here on."""
        self._own = own

    def close(self) -> None:
        """Close all listening sockets."""
        self._wanted = ()
        for port in list(self._ports):
            self._close(port)

    def filtered(self) -> int:
        """Packets the kernel dropped at the listening sockets that are open."""
        return sum(filtered_packets(listener) for listener in self._listeners.values())

    def _close(self, port: int) -> None:
        fd = self._ports.pop(port)
        self._poller.forget(fd)
        self._listeners.pop(fd).close()

    def _on_readable(self, fd: int) -> None:
        listener = self._listeners[fd]
        is_routed = self._ports.get(self._routed_port) == fd
        for _ in range(DRAIN):
            try:
                data, ancillary, _flags, address = listener.recvmsg(PACKET_BYTES, LISTENER_ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._counters["icmp-errors"] += 1
                continue
            accepted = self._admit(data)
            if isinstance(accepted, str):
                self._counters[f"requests-{accepted}"] += 1
            else:
                peer, key, request, verdict = accepted
                self._answer(
                    listener,
                    data,
                    ancillary,
                    address,
                    peer=peer,
                    key=key,
                    request=request,
                    is_routed=is_routed,
                )
                self._tell(peer, request, is_fresh=verdict is ReplayVerdict.FRESH)

    def _admit(self, data: bytes) -> tuple[Peer, PairKey, ParsedProbe, ReplayVerdict] | str:
        """Verify a request; the reason why it gets no answer otherwise."""
        claim = peek(data)
        if claim is None:
            return "not-mesh"
        claimed = self._peers.claimed(*claim)
        if claimed is None:
            return self._refuse(*claim)
        peer, key = claimed
        now_ns = monotonic_ns()
        if peer.bucket.is_empty(now_ns):
            # Whoever has used up its share costs no hashing either: its flood must not take others' time.
            return "rate-limited"
        parsed = verify_and_parse(data, key)
        if not isinstance(parsed, ParsedProbe):
            return parsed
        if parsed.is_reply:
            return "not-a-request"
        verdict = peer.guard.accept(parsed.mesh.epoch, parsed.sequence, session=parsed.ssid)
        if verdict not in {ReplayVerdict.FRESH, ReplayVerdict.UNCONFIRMED_EPOCH}:
            return "replayed"
        # Charged behind the signature: forged packets must not use up what honest peers are entitled to.
        if not (peer.bucket.take(now_ns) and self._peers.bucket.take(now_ns)):
            return "rate-limited"
        if key.key_id != self._peers.signing_id and peer.other_keys.take(now_ns):
            self._emit(OtherKeySeen(peer=peer.name, key_id=key.key_id, is_known=True))
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
        listener: socket.socket,
        data: bytes,
        ancillary: Ancillary,
        address: tuple[str, int],
        *,
        peer: Peer,
        key: PairKey,
        request: ParsedProbe,
        is_routed: bool,
    ) -> None:
        arrival = _Arrival(ancillary)
        reply = wire.reflect(
            data,
            request,
            key=key,
            own=self._own,
            reflector=_reflector(arrival.header_address),
            reflector_sequence=_count(peer, request.ssid),
            rx_ntp=ntp_from_ns(arrival.wall_ns),
            tx_ntp=self._clock.stamp(),
            ttl=arrival.ttl,
        )
        interface = 0 if is_routed else arrival.interface
        info = PKTINFO.pack(interface, arrival.local_address, _NO_ADDRESS)
        try:
            listener.sendmsg((reply,), ((socket.IPPROTO_IP, IP_PKTINFO, info),), 0, address)
        except OSError:
            self._counters["answers-failed"] += 1
            return
        self._counters["answers-sent"] += 1

    def _tell(self, peer: Peer, request: ParsedProbe, *, is_fresh: bool) -> None:
        layer = translate.LAYERS.get(request.mesh.layer)
        if layer is None:
            self._counters["requests-unknown-layer"] += 1
            return
        message = request.coordination
        self._emit(
            RequestReceived(
                peer=peer.name,
                layer=layer,
                path=request.mesh.path,
                flow=translate.flow_of(request.mesh.flags),
                is_fresh_epoch=is_fresh,
                banner=translate.banner_of(request.mesh),
                coordination=self._dictionary.decode(message) if message is not None else None,
            )
        )


class _Arrival:
    """What the kernel tells about a request beside its bytes."""

    __slots__ = ("header_address", "interface", "local_address", "ttl", "wall_ns")

    def __init__(self, ancillary: Ancillary) -> None:
        self.interface, self.local_address, self.header_address = 0, _NO_ADDRESS, _NO_ADDRESS
        self.ttl = 0
        self.wall_ns = 0
        for level, kind, value in ancillary:
            if level == socket.IPPROTO_IP and kind == IP_PKTINFO:
                self.interface, self.local_address, self.header_address = PKTINFO.unpack(value)
            elif level == socket.IPPROTO_IP and kind == socket.IP_TTL:
                (self.ttl,) = TTL.unpack(value)
            elif kind == SO_TIMESTAMPNS:
                self.wall_ns = arrival_wall_ns(((level, kind, value),), 0)
        self.wall_ns = self.wall_ns or time.time_ns()


@functools.lru_cache(maxsize=64)
def _reflector(address: bytes) -> wire.Reflector:
    # Whatever address the kernel delivered the request to is one of this node's.
    return wire.Reflector(addresses=frozenset((address,)))


def _count(peer: Peer, ssid: int) -> int:
    """The number of this answer in the peer's session; beyond MAX_SESSIONS it is always 0."""
    count = peer.answered.get(ssid, 0)
    if ssid in peer.answered or len(peer.answered) < MAX_SESSIONS:
        peer.answered[ssid] = (count + 1) & 0xFFFF_FFFF
    return count
