"""Another maker's STAMP and TWAMP Light, small and from the RFCs' own tables; knows nothing of meshwatchd.

Offsets are those of RFC 8762 figures 2, 4, 5 and 7, RFC 8972 figures 1 to 4 and RFC 5357 sections 4.1.2 and
4.2.1. What a test wants to see broken is broken by its `habits`.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

NTP_EPOCH_S = 2_208_988_800
U, M, I = 0x80, 0x40, 0x20  # noqa: E741 - the RFC's letters
PADDING, HMAC_TLV = 1, 8
LATE_S = 0.005

Tlvs = Sequence[tuple[int, int, bytes]]
"""Flags, type, value."""


def ntp_now() -> int:
    """64-bit NTP."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return (seconds + NTP_EPOCH_S) << 32 | (nanoseconds << 32) // 10**9


def mac(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256, truncated to 128 bits."""
    return hmac.new(key, data, hashlib.sha256).digest()[:16]


def write_tlvs(tlvs: Tlvs) -> bytes:
    """One behind the other."""
    return b"".join(bytes((flags, kind)) + len(value).to_bytes(2, "big") + value for flags, kind, value in tlvs)


def read_tlvs(area: bytes) -> list[tuple[int, int, bytes]]:
    """All whole ones."""
    found = []
    while len(area) >= 4:
        length = int.from_bytes(area[2:4], "big")
        if len(area) < 4 + length:
            break
        found.append((area[0], area[1], area[4 : 4 + length]))
        area = area[4 + length :]
    return found


def sender_packet(
    sequence: int, *, timestamp: int | None = None, ssid: int = 0, tlvs: Tlvs = (), key: bytes | None = None
) -> bytes:
    """A session-sender's packet, authenticated if there is a key, with an HMAC TLV if there are TLVs then."""
    stamp = (ntp_now() if timestamp is None else timestamp).to_bytes(8, "big")
    number, rest = sequence.to_bytes(4, "big"), b"\x80\x01" + ssid.to_bytes(2, "big")
    area = write_tlvs(tlvs)
    if key is None:
        return number + stamp + rest + bytes(28) + area
    base = number + bytes(12) + stamp + rest + bytes(68)
    if tlvs:
        area += write_tlvs([(U, HMAC_TLV, mac(key, number + area))])
    return base + mac(key, base) + area


def twamp_packet(sequence: int, padding: bytes, *, timestamp: int | None = None) -> bytes:
    """A TWAMP session-sender's packet in unauthenticated mode: 14 bytes, and padding of any content."""
    stamp = (ntp_now() if timestamp is None else timestamp).to_bytes(8, "big")
    return sequence.to_bytes(4, "big") + stamp + b"\x80\x01" + padding


@dataclass
class Answer:
    """A session-reflector's packet, field by field."""

    sequence: int
    timestamp: int
    error: int
    ssid: int
    received: int
    sender_sequence: int
    sender_timestamp: int
    sender_error: int
    sender_ttl: int
    zeros: bytes
    tlvs: list[tuple[int, int, bytes]] = field(default_factory=list)


def read_answer(data: bytes, key: bytes | None = None) -> Answer:
    """Every field from its place; an answer that does not verify is an AssertionError."""

    def number(start: int, size: int) -> int:
        return int.from_bytes(data[start : start + size], "big")

    if key is None:
        assert len(data) >= 41
        places = ((0, 4), (4, 8), (12, 2), (14, 2), (16, 8), (24, 4), (28, 8), (36, 2), (40, 1))
        zeros, area = data[38:40] + data[41:44], data[44:]
    else:
        assert len(data) >= 112
        assert data[96:112] == mac(key, data[:96])
        places = ((0, 4), (16, 8), (24, 2), (26, 2), (32, 8), (48, 4), (64, 8), (72, 2), (80, 1))
        gaps = ((4, 16), (28, 32), (40, 48), (52, 64), (74, 80), (81, 96))
        zeros, area = b"".join(data[start:end] for start, end in gaps), data[112:]
    names = (
        "sequence",
        "timestamp",
        "error",
        "ssid",
        "received",
        "sender_sequence",
        "sender_timestamp",
        "sender_error",
    )
    fields = {name: number(*place) for name, place in zip((*names, "sender_ttl"), places, strict=True)}
    return Answer(zeros=zeros, tlvs=read_tlvs(area), **fields)


def is_tlv_area_signed(data: bytes, key: bytes, start: int) -> bool:
    """Whether the last TLV is the tag over sequence number and all TLVs before it."""
    return data[-20:-16] == bytes((0, HMAC_TLV, 0, 16)) and data[-16:] == mac(key, data[:4] + data[start:-20])


@dataclass(frozen=True)
class Habits:
    """How a reflector behaves.

    Attributes:
        key: authenticated mode.
        is_stateful: counts its answers.
        is_twamp: TWAMP Light: copies no SSID, knows no TLV, sends 41 bytes and the beginning of the padding.
        lose_there, lose_back: sequence numbers of requests not seen, of answers not sent.
        repeat: requests answered twice.
        repeat_late: requests answered a second time some milliseconds later.
        hold: requests answered after the next one.
        spoil: a byte of these answers is changed.
        error: the error estimate, as 16 bits.
    """

    key: bytes | None = None
    is_stateful: bool = True
    is_twamp: bool = False
    lose_there: tuple[int, ...] = ()
    lose_back: tuple[int, ...] = ()
    repeat: tuple[int, ...] = ()
    repeat_late: tuple[int, ...] = ()
    hold: tuple[int, ...] = ()
    spoil: tuple[int, ...] = ()
    error: int = 0x0001


class PeerReflector:
    """A session-reflector on loopback.

    Attributes:
        seen: all requests, in order.
        sources: the ports they came from.
    """

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.seen: list[bytes] = []
        self.sources: list[int] = []
        self._count = 0
        self._held: list[tuple[bytes, tuple[str, int]]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])

    def serve(self) -> None:
        """Answer until a packet without content comes."""
        while data := self._take():
            pass
        assert data == b""
        self._socket.close()

    def stop(self) -> None:
        """Send that packet."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))

    def _take(self) -> bytes:
        data, source = self._socket.recvfrom(65_535)
        received = ntp_now()
        number = int.from_bytes(data[:4], "big")
        if not data or number in self.habits.lose_there:
            return data
        self.seen.append(data)
        self.sources.append(source[1])
        reply = self._answer(data, received)
        if number in self.habits.spoil:
            reply = reply[:30] + bytes((reply[30] ^ 1,)) + reply[31:]
        if number in self.habits.hold:
            self._held.append((reply, source))
            return data
        for _ in range((number not in self.habits.lose_back) + (number in self.habits.repeat)):
            self._socket.sendto(reply, source)
        while self._held:
            self._socket.sendto(*self._held.pop())
        if number in self.habits.repeat_late:
            time.sleep(LATE_S)
            self._socket.sendto(reply, source)
        return data

    def _answer(self, data: bytes, received: int) -> bytes:
        habits = self.habits
        count, self._count = self._count, self._count + 1
        number = count.to_bytes(4, "big") if habits.is_stateful else data[:4]
        error, stamps = habits.error.to_bytes(2, "big"), [ntp_now().to_bytes(8, "big"), received.to_bytes(8, "big")]
        if habits.is_twamp:
            head = number + stamps[0] + error + bytes(2) + stamps[1] + data[:14] + bytes(2) + b"\xff"
            return head + data[14 : 14 + len(data) - len(head)]
        if habits.key is None:
            head = number + stamps[0] + error + data[14:16] + stamps[1] + data[:14] + bytes(2) + b"\xff" + bytes(3)
            return head + write_tlvs(self._tlvs(data[44:]))
        assert data[96:112] == mac(habits.key, data[:96])
        head = number + bytes(12) + stamps[0] + error + data[26:28] + bytes(4) + stamps[1] + bytes(8)
        head += data[:4] + bytes(12) + data[16:26] + bytes(6) + b"\xff" + bytes(15)
        tlvs = self._tlvs(data[112:])
        area = write_tlvs([tlv for tlv in tlvs if tlv[1] != HMAC_TLV])
        if tlvs:
            area += write_tlvs([(0, HMAC_TLV, mac(habits.key, number + area))])
        return head + mac(habits.key, head) + area

    def _tlvs(self, area: bytes) -> list[tuple[int, int, bytes]]:
        """Understands Extra Padding only."""
        return [(0 if kind == PADDING else U, kind, value) for _, kind, value in read_tlvs(area)]


@contextmanager
def peer_reflector(habits: Habits | None = None) -> Iterator[PeerReflector]:
    """One that serves in a thread until the end."""
    peer = PeerReflector(habits or Habits())
    thread = threading.Thread(target=peer.serve)
    thread.start()
    try:
        yield peer
    finally:
        peer.stop()
        thread.join()
