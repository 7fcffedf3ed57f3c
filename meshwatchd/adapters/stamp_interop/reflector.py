"""Answers STAMP and TWAMP Light senders of other makers that the configuration allows (RFC 8762 section 4.3).

Nothing that arrives here reaches the core: it is a service for neighbours, and no evidence. It runs in the
engine's loop, so its share of a turn is bounded, and its answers in all are rationed.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network
from typing import Final

import msgspec

from meshwatchd.adapters import bpf
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet.peers import TokenBucket
from meshwatchd.adapters.packet.sockets import filtered_packets
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, NtpClock
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.stamp_interop.ancillary import (
    IP_PKTINFO,
    IP_RECVTTL,
    PKTINFO,
    TIMESTAMP_SPACE,
    Ancillary,
    arrived_wall_ns,
)
from meshwatchd.adapters.stamp_interop.gate import Prefix, gate_program
from meshwatchd.adapters.stamp_interop.host import UNKNOWN_CLOCK, clock_state, own_addresses
from meshwatchd.adapters.stamp_interop.sessions import Session, SessionKey, Sessions
from meshwatchd.model.stamp import StampMode, StampSettings
from meshwatchd.wire.answer import Arrival, Reflector
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import ntp_from_ns
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.stamp import AUTH_BASE_BYTES, TWAMP_BYTES
from meshwatchd.wire.standard_reflect import StandardRequest, answer_request, is_answer_to_us, read_request

TURN_NS: Final = 2_000_000
"""How long requests are taken in one turn of the loop: our own probes come first. Ordinary ones take 40 us, nasty ones
half a millisecond."""
PACKET_BYTES: Final = 9216
"""The longest payload of a jumbo frame; what is longer is counted and not answered."""
MAX_REPORTED: Final = 512
"""Pairs of source and reason that are reported one by one; what comes beyond is in the counters alone."""
MAX_HOPS: Final = 255
"""TTL of answers, from which a sender reads the number of hops (RFC 5357 section 4.2.1)."""

_INT: Final = struct.Struct("@i")
_PKTINFO6: Final = struct.Struct("@16sI")
"""struct in6_pktinfo: address, interface index."""
_ANCILLARY_BYTES: Final = TIMESTAMP_SPACE + socket.CMSG_SPACE(_PKTINFO6.size) + 2 * socket.CMSG_SPACE(_INT.size)
_TYPE: Final = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_MULTICAST6: Final = 0xFF

Address = tuple[str, int] | tuple[str, int, int, int]


class _Headers(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel tells of a request beside its bytes."""

    local: bytes
    is_unicast: bool
    ttl: int
    traffic_class: int
    wall_ns: int


class StandardReflector:
    """The listening sockets, one for each IP version among the allowed prefixes.

    Args:
        key: shared with the senders; None in open mode without protection of TLVs.
        report: called with source and reason when a packet of a source is first refused for that reason.

    Attributes:
        problem: why nobody is heard over an IP version, at the last look; empty where all are.
    """

    def __init__(
        self,
        *,
        poller: Poller,
        counters: Counter[str],
        settings: StampSettings,
        key: bytes | None = None,
        report: Callable[[str, str], None],
    ) -> None:
        self._poller, self._counters = poller, counters
        self._port, self._mode = settings.listen, settings.mode
        self._is_stateful = settings.stateful
        self._is_remembering = settings.stateful or settings.mode is StampMode.AUTHENTICATED
        self._key = None if key is None else MacKey(key)
        self._prefixes: dict[int, list[Prefix]] = {}
        for text in settings.allow:
            prefix = ip_network(text)
            self._prefixes.setdefault(prefix.version, []).append(prefix)
        self._bucket = TokenBucket(settings.packets_per_second)
        self._sessions = Sessions()
        self._report, self._reported = report, set[tuple[str, str]]()
        self._clock, self._state = NtpClock(), UNKNOWN_CLOCK
        self._addresses: frozenset[bytes] = frozenset()
        self._listeners: dict[int, socket.socket] = {}
        self.problem = ""

    def retry(self) -> None:
        """Open what could not be opened before, and look again at clock and addresses of this node."""
        self.problem = ""
        for version, prefixes in self._prefixes.items():
            if version not in self._listeners:
                self._open(version, prefixes)
        for listener in self._listeners.values():
            self._state = clock_state()
            self._addresses = own_addresses(listener)

    def close(self) -> None:
        """Close the sockets."""
        for listener in self._listeners.values():
            self._poller.forget(listener.fileno())
            listener.close()
        self._listeners.clear()

    def filtered(self) -> int:
        """Packets the kernel dropped at the sockets: not allowed here, too short, or too many at once."""
        return sum(filtered_packets(listener) for listener in self._listeners.values())

    def _open(self, version: int, prefixes: list[Prefix]) -> None:
        least_bytes = TWAMP_BYTES if self._mode is StampMode.OPEN else AUTH_BASE_BYTES
        try:
            opened = _open_listener(version, self._port, prefixes, least_bytes)
        except OSError as error:
            self._counters["stamp-listen-failed"] += 1
            self.problem = error.strerror or str(error)
            return
        self._listeners[version] = opened
        read = _headers4 if version == 4 else _headers6
        self._poller.add(opened.fileno(), lambda _fd: self._on_readable(opened, read))

    def _on_readable(self, listener: socket.socket, read: Callable[[Ancillary], _Headers]) -> None:
        end_ns = monotonic_ns() + TURN_NS
        while monotonic_ns() < end_ns:
            try:
                data, ancillary, flags, address = listener.recvmsg(PACKET_BYTES, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._counters["stamp-icmp-errors"] += 1
                continue
            refusal = "too-long" if flags & socket.MSG_TRUNC else self._serve(listener, data, read(ancillary), address)
            if refusal:
                self._note(address[0], refusal)
            else:
                self._counters["stamp-answered"] += 1

    def _note(self, source: str, reason: str) -> None:
        """Count a refusal, and report the first of this source; invented sources cannot fill the log."""
        self._counters[f"stamp-{reason}"] += 1
        if (source, reason) not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add((source, reason))
            self._report(source, reason)

    def _serve(self, listener: socket.socket, data: bytes, headers: _Headers, address: Address) -> str:
        """Answer one request; the reason if it gets no answer."""
        if not headers.is_unicast:
            return "not-unicast"
        request = read_request(data, mode=self._mode, key=self._key)
        if isinstance(request, RejectReason):
            return request
        if is_answer_to_us(data, mode=self._mode, now_ntp=self._clock.stamp()):
            return "not-a-request"
        now_ns = monotonic_ns()
        if self._bucket.is_empty(now_ns):
            return "rate-limited"
        key = (address[0], address[1], headers.local, request.ssid)
        session = self._sessions.session(key, now_ns) if self._is_remembering else None
        refusal = self._enter(request, key, session, now_ns)
        if refusal:
            return refusal
        # Charged last: what is forged or recorded must not use up what the others are entitled to.
        self._bucket.take(now_ns)
        reply = self._reply(data, request, headers, key=key, session=session)
        try:
            listener.sendmsg((reply,), _answer_ancillary(headers), 0, address)
        except OSError:
            return "answers-failed"
        if session is not None and self._is_stateful:
            session.left(ntp_from_ns(time.time_ns()))
        return ""

    def _enter(self, request: StandardRequest, key: SessionKey, session: Session | None, now_ns: int) -> str:
        """Take the request as one of this session; the reason if it gets no answer."""
        if session is None:
            if self._mode is StampMode.AUTHENTICATED:
                return "sessions-full"
            if self._is_remembering:
                # Nothing has to be remembered in open mode: this sender gets answers without a count.
                self._note(key[0], "sessions-full")
            return ""
        if self._mode is StampMode.AUTHENTICATED and session.is_replay(request.sequence, request.timestamp_ntp):
            return "replayed"
        session.begin_again(request.sequence, request.timestamp_ntp)
        self._sessions.touch(key, session, now_ns)
        return ""

    def _reply(
        self, data: bytes, request: StandardRequest, headers: _Headers, *, key: SessionKey, session: Session | None
    ) -> bytes:
        number = None if session is None or not self._is_stateful else session.count()
        session = session or Session(0)
        arrival = self._arrival(headers, key, session)
        return answer_request(
            data,
            request,
            mode=self._mode,
            key=self._key,
            reflector=Reflector(addresses=self._addresses | {headers.local}, arrival=arrival),
            reflector_sequence=number,
            rx_ntp=ntp_from_ns(headers.wall_ns),
            tx_ntp=self._clock.stamp(),
            ttl=headers.ttl,
            error_estimate=self._state.estimate.encode(),
        )

    def _arrival(self, headers: _Headers, key: SessionKey, session: Session) -> Arrival:
        source, source_port, _, _ = key
        family = socket.AF_INET if len(headers.local) == 4 else socket.AF_INET6
        return Arrival(
            # A link-local address comes with the name of its interface.
            source=socket.inet_pton(family, source.partition("%")[0]),
            source_port=source_port,
            destination=headers.local,
            destination_port=self._port,
            dscp=headers.traffic_class >> 2,
            ecn=headers.traffic_class & 0x3,
            rx_count=session.answers,
            tx_count=session.answers,
            sync_source=self._state.source,
            follow_up_sequence=session.follow_up_sequence,
            follow_up_ntp=session.follow_up_ntp,
        )


def _open_listener(version: int, port: int, prefixes: list[Prefix], least_bytes: int) -> socket.socket:
    """Raises OSError, mostly EADDRINUSE, or EACCES on a privileged port."""
    listener = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, _TYPE, socket.IPPROTO_UDP)
    try:
        level = socket.IPPROTO_IP if version == 4 else socket.IPPROTO_IPV6
        for option in _OPTIONS[version]:
            listener.setsockopt(level, option, 1)
        listener.setsockopt(level, socket.IP_TTL if version == 4 else socket.IPV6_UNICAST_HOPS, MAX_HOPS)
        listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        bpf.attach(listener, bpf.assemble(gate_program(prefixes, port=port, least_bytes=least_bytes)))
        listener.bind(("", port))
    except OSError:
        listener.close()
        raise
    return listener


_OPTIONS: Final = {
    4: (IP_PKTINFO, IP_RECVTTL, socket.IP_RECVTOS),
    6: (socket.IPV6_V6ONLY, socket.IPV6_RECVPKTINFO, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS),
}


def _headers4(ancillary: Ancillary) -> _Headers:
    local, target, ttl, traffic_class = b"", b"", 0, 0
    messages = tuple(ancillary)
    for level, kind, value in messages:
        if level != socket.IPPROTO_IP:
            continue
        if kind == IP_PKTINFO:
            _interface, local, target = PKTINFO.unpack(value)
        elif kind == socket.IP_TTL:
            (ttl,) = _INT.unpack(value)
        elif kind == socket.IP_TOS:
            traffic_class = value[0]
    wall_ns = arrived_wall_ns(messages, 0) or time.time_ns()
    # A broadcast is addressed to one address and delivered to another.
    return _Headers(local=local, is_unicast=local == target, ttl=ttl, traffic_class=traffic_class, wall_ns=wall_ns)


def _headers6(ancillary: Ancillary) -> _Headers:
    local, ttl, traffic_class = b"", 0, 0
    messages = tuple(ancillary)
    for level, kind, value in messages:
        if level != socket.IPPROTO_IPV6:
            continue
        if kind == socket.IPV6_PKTINFO:
            local, _interface = _PKTINFO6.unpack(value)
        elif kind == socket.IPV6_HOPLIMIT:
            (ttl,) = _INT.unpack(value)
        elif kind == socket.IPV6_TCLASS:
            (traffic_class,) = _INT.unpack(value)
    wall_ns = arrived_wall_ns(messages, 0) or time.time_ns()
    is_unicast = bool(local) and local[0] != _MULTICAST6
    return _Headers(local=local, is_unicast=is_unicast, ttl=ttl, traffic_class=traffic_class, wall_ns=wall_ns)


def _answer_ancillary(headers: _Headers) -> list[tuple[int, int, bytes]]:
    """From the address that was asked, with the DSCP of the request; the routing table chooses the interface."""
    traffic_class = _INT.pack(headers.traffic_class & ~0x3)
    if len(headers.local) == 4:
        info = PKTINFO.pack(0, headers.local, bytes(4))
        return [
            (socket.IPPROTO_IP, IP_PKTINFO, info),
            (socket.IPPROTO_IP, socket.IP_TOS, traffic_class),
        ]
    return [
        (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, _PKTINFO6.pack(headers.local, 0)),
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class),
    ]
