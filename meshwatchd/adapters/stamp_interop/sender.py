"""The session-sender: asks a reflector of any maker and listens, in one thread and without a daemon."""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from meshwatchd.adapters.packet.sockets import set_fragmenting
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, NtpClock
from meshwatchd.adapters.stamp_interop.ancillary import IP_RECVTTL, TIMESTAMP_SPACE, Ancillary, arrived_wall_ns
from meshwatchd.adapters.stamp_interop.clock_reading import read_clocks, turnaround_ns
from meshwatchd.adapters.stamp_interop.host import clock_state
from meshwatchd.adapters.stamp_interop.measurement import Measurement, Sample, evaluate
from meshwatchd.wire.ntp import ntp_from_ns
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.standard_probe import StandardProbe, read_reply

PACKET_BYTES: Final = 65_535
MAX_HOPS: Final = 255
"""TTL of packets, from which a reflector reads the number of hops (RFC 5357 section 4.1.2)."""
_INT: Final = struct.Struct("@i")
_ANCILLARY_BYTES: Final = TIMESTAMP_SPACE + socket.CMSG_SPACE(_INT.size)
_TTL_KINDS: Final = frozenset({(socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)})
PROHIBITED: Final = "prohibited"
_ICMP_ERRORS: Final = {
    errno.ECONNREFUSED: "unreachable",
    errno.ENOPROTOOPT: "unreachable",
    errno.EMSGSIZE: "too-big",
    errno.EHOSTUNREACH: PROHIBITED,
    errno.ENETUNREACH: PROHIBITED,
    errno.EHOSTDOWN: PROHIBITED,
    errno.ENONET: PROHIBITED,
    errno.EACCES: PROHIBITED,
}
"""What a router or the host has answered to an earlier packet: no such port, fragmentation needed, or a firewall that
rejects. A connected socket is told of no route and no neighbour by none of these (icmp_err_convert in
net/ipv4/icmp.c, tab_unreach in net/ipv6/icmp.c: those are not fatal)."""
_MILLISECOND_NS: Final = 1_000_000
LINGER_NS: Final = 50 * _MILLISECOND_NS
"""With every packet answered, a copy of the last answers may still be on its way: as long as the slowest answer took,
and this at least."""


_Target = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""As getaddrinfo(3) returns it."""
_IPV6_FIELDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What to send.

    Attributes:
        address, port: of the reflector; a host name is looked up once.
        family: socket.AF_INET or AF_INET6, where a name has addresses of both; AF_UNSPEC takes the first.
        source, source_port: where packets leave from; empty and 0 leave it to the kernel.
        probe: the kind of packet.
        count: how many.
        interval_ns: from one to the next.
        wait_ns: for answers, after the last one.
        dscp: of the packets, 0..63.
        is_fresh: each packet from a source port of its own, so that no flow table on the way knows it.
        is_unfragmented: DF is set, whatever the kernel believes of the path's MTU.
    """

    address: str
    port: int
    probe: StandardProbe
    count: int
    interval_ns: int
    wait_ns: int
    dscp: int = 0
    is_fresh: bool = False
    is_unfragmented: bool = False
    family: int = socket.AF_UNSPEC
    source: str = ""
    source_port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    at_ns: int
    timestamp_ntp: int
    fd: int


def resolve(series: Series) -> Series:
    """The series with its host name looked up: the address in numbers, and its family.

    Raises:
        OSError: there is none of this name and family.
    """
    family, target = _look_up(series)
    # The scope of a link-local address is a number of its own in what getaddrinfo(3) returns.
    scope = f"%{target[3]}" if len(target) == _IPV6_FIELDS and target[3] else ""
    return replace(series, address=f"{target[0]}{scope}", family=family)


def _look_up(series: Series) -> tuple[int, _Target]:
    found = socket.getaddrinfo(
        series.address, series.port, series.family, type=socket.SOCK_DGRAM, proto=socket.IPPROTO_UDP
    )
    return found[0][0], found[0][4]


def measure(series: Series, on_sample: Callable[[Sample], None]) -> Measurement:
    """Send the series and sum up the answers; an interrupt ends it early and is no error.

    Raises:
        OSError: the address is none, or nothing can be sent to it.
    """
    sender = _Sender(series, on_sample)
    try:
        sender.run()
    except KeyboardInterrupt:
        pass
    finally:
        sender.close()
    return sender.result()


class _Sender:
    def __init__(self, series: Series, on_sample: Callable[[Sample], None]) -> None:
        self._series, self._on_sample = series, on_sample
        self._family, self._target = _look_up(series)
        self._clock, self._state = NtpClock(), clock_state()
        self._poll = select.poll()
        self._sockets: dict[int, socket.socket] = {}
        self._closing: list[tuple[int, int]] = []
        self._sent: list[_Sent] = []
        self._samples: list[Sample] = []
        self._answered: set[int] = set()
        self._last_answer_ns = 0
        self._slowest_ns = LINGER_NS
        self._discarded: Counter[str] = Counter()
        self._unsent: Counter[str] = Counter()

    def run(self) -> None:
        """Send at the interval, listen in between, and for a while afterwards."""
        series = self._series
        due_ns = time.monotonic_ns()
        for _ in range(series.count):
            self._listen_until(due_ns)
            self._send()
            # Behind by more than an interval: go on from here, or the packets left would leave in one burst.
            due_ns = max(due_ns + series.interval_ns, time.monotonic_ns() - series.interval_ns)
        self._listen_until(time.monotonic_ns() + series.wait_ns, is_last=True)

    def close(self) -> None:
        """Close all sockets."""
        for opened in self._sockets.values():
            opened.close()
        self._sockets.clear()

    def result(self) -> Measurement:
        """What came of it."""
        estimate = self._state.estimate
        return evaluate(
            self._samples,
            sent=len(self._sent),
            ssid=self._series.probe.ssid,
            own_error_ns=estimate.error_ns if estimate.is_synchronized else None,
            discarded=self._discarded,
            unsent=self._unsent,
            is_one_session=not self._series.is_fresh,
        )

    def _send(self) -> None:
        """Send the next packet; where the first has left, later ones that cannot are part of the measurement."""
        try:
            self._send_one()
        except OSError as error:
            if not self._sent:
                raise
            self._unsent[error.strerror or str(error)] += 1

    def _send_one(self) -> None:
        opened = self._socket()
        timestamp = self._clock.stamp()
        packet = self._series.probe.encode(len(self._sent), timestamp, self._state.estimate)
        sent = _Sent(at_ns=time.monotonic_ns(), timestamp_ntp=timestamp, fd=opened.fileno())
        try:
            opened.send(packet)
        except OSError as error:
            if error.errno not in _ICMP_ERRORS:
                raise
            # Of an earlier packet, and reported once in the place of sending this one; unless it comes again.
            opened.send(packet)
            self._note_icmp(error)
        self._sent.append(sent)

    def _note_icmp(self, error: OSError) -> None:
        self._discarded[_ICMP_ERRORS.get(error.errno or 0, "unreachable")] += 1

    def _socket(self) -> socket.socket:
        if self._sockets and not self._series.is_fresh:
            return next(iter(self._sockets.values()))
        opened = socket.socket(self._family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.IPPROTO_UDP)
        try:
            _prepare(opened, self._family, self._series)
            opened.connect(self._target)
        except OSError:
            opened.close()
            raise
        self._sockets[opened.fileno()] = opened
        self._poll.register(opened, select.POLLIN)
        if self._series.is_fresh:
            self._closing.append((time.monotonic_ns() + self._series.wait_ns, opened.fileno()))
        return opened

    def _listen_until(self, due_ns: int, *, is_last: bool = False) -> None:
        while True:
            if is_last and len(self._answered) == len(self._sent):
                due_ns = min(due_ns, self._last_answer_ns + self._slowest_ns)
            left_ns = due_ns - time.monotonic_ns()
            if left_ns <= 0:
                return
            for fd, _events in self._poll.poll(-(-left_ns // _MILLISECOND_NS) if left_ns > _MILLISECOND_NS else 0):
                self._drain(fd)
            self._close_old()

    def _close_old(self) -> None:
        """Close fresh sockets nobody will answer to any more."""
        now_ns = time.monotonic_ns()
        while self._closing and self._closing[0][0] < now_ns:
            _, fd = self._closing.pop(0)
            self._poll.unregister(fd)
            self._sockets.pop(fd).close()

    def _drain(self, fd: int) -> None:
        opened = self._sockets[fd]
        while True:
            try:
                data, ancillary, _flags, _address = opened.recvmsg(PACKET_BYTES, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._note_icmp(error)
                continue
            self._take(fd, data, ancillary)

    def _take(self, fd: int, data: bytes, ancillary: Ancillary) -> None:
        reading = read_clocks()
        messages = tuple(ancillary)
        reply = read_reply(data, self._series.probe)
        if isinstance(reply, RejectReason):
            self._discarded[reply] += 1
            return
        number = reply.sender_sequence
        sent = self._sent[number] if number < len(self._sent) else None
        if sent is None or (sent.timestamp_ntp, sent.fd) != (reply.sender_timestamp_ntp, fd):
            self._discarded["unexpected"] += 1
            return
        arrival_ns = arrived_wall_ns(messages, reading.wall_ns)
        sample = Sample(
            sequence=number,
            turnaround_ns=turnaround_ns(reading, sent_ns=sent.at_ns, arrived_wall_ns=arrival_ns),
            arrival_ntp=ntp_from_ns(arrival_ns),
            hops_ttl=next((_INT.unpack(value)[0] for level, kind, value in messages if (level, kind) in _TTL_KINDS), 0),
            reply=reply,
        )
        self._samples.append(sample)
        if number not in self._answered:
            self._answered.add(number)
            self._last_answer_ns, self._slowest_ns = reading.after_ns, max(self._slowest_ns, sample.turnaround_ns)
        self._on_sample(sample)


def _prepare(opened: socket.socket, family: int, series: Series) -> None:
    """Raises OSError, mostly where the source is none of this node's or its port is taken."""
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    if family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, MAX_HOPS)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, series.dscp << 2)
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, MAX_HOPS)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, series.dscp << 2)
    if series.is_unfragmented:
        set_fragmenting(opened, may_fragment=False)
    if not series.source and not series.source_port:
        return
    try:
        opened.bind((series.source, series.source_port))
    except OSError as error:
        place = f"from {series.source or 'any address'} port {series.source_port or 'any'}"
        raise OSError(error.errno, f"{place}: {error.strerror or error}") from error
