"""How a reflector answers each TLV of a request, in place and without changing a length.

The flags of an answered TLV (RFC 8972 section 4):

    understood            U=0, the reflector's fields filled in
    not understood        U=1, value untouched
    value of wrong size   M=1, and nothing behind it is looked at
    cut short             M=1 if there is a whole header to set it in, rest untouched
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from meshwatchd.wire.mesh_tlv import COORDINATION_BYTES, ENTERPRISE
from meshwatchd.wire.report_tlv import (
    ACCESS_REPORT_BYTES,
    FOLLOW_UP,
    FOLLOW_UP_BYTES,
    TIMESTAMP_INFORMATION_BYTES,
    SyncSource,
    TimestampMethod,
)
from meshwatchd.wire.standard_tlv import (
    ADDRESS_BYTES,
    COS_BYTES,
    DIRECT_MEASUREMENT_BYTES,
    IP_BYTES,
    MAC_BYTES,
    MAX_SUB_TLVS,
    PORTS_BYTES,
    LocationType,
)
from meshwatchd.wire.tlv import HEADER_BYTES, INTEGRITY_FAILED, MALFORMED, UNRECOGNIZED, Span, TlvType, scan

ANSWERED: Final = 0
"""Flags of a TLV that was understood."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What the receiver knows of a request beyond its bytes; whatever it does not know is reported as zero.

    Attributes:
        source, destination: packed addresses, 4 or 16 bytes, empty when unknown.
        dscp: 6 bits, None when unknown. The answer is sent with the same value.
        ecn: 2 bits.
        rx_count, tx_count: packets of this session received and sent, this request and its answer included.
        sync_source: what this node's clock follows, one of `SyncSource`.
        follow_up_sequence: number of the answer sent last in this session.
        follow_up_ntp: when the kernel had taken that answer, 64-bit NTP format; 0 when none was sent.
    """

    source: bytes = b""
    source_port: int = 0
    destination: bytes = b""
    destination_port: int = 0
    dscp: int | None = None
    ecn: int = 0
    rx_count: int = 0
    tx_count: int = 0
    sync_source: int = SyncSource.FREE_RUNNING
    follow_up_sequence: int = 0
    follow_up_ntp: int = 0


UNKNOWN_ARRIVAL: Final = Arrival()


class Reflector(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers draw on.

    Attributes:
        addresses: all packed addresses of this node.
        arrival: of the request being answered.
    """

    addresses: frozenset[bytes]
    arrival: Arrival = UNKNOWN_ARRIVAL


Answer = Callable[[bytearray, Span, Reflector], int]
"""Fills one TLV of the answer and returns its flags."""


def answer_tlvs(reply: bytearray, start: int, end: int, *, reflector: Reflector, answers: Mapping[int, Answer]) -> None:
    """Answer the TLVs of reply[start:end], still a copy of the request; `answers` are those understood.

    A sender has no business setting M or I; where one is set, reading ends (RFC 8972 section 4).
    """
    found = scan(reply, start, end)
    for span in found.spans:
        if reply[span.offset] & (MALFORMED | INTEGRITY_FAILED):
            return
        answer = answers.get(span.type)
        flags = UNRECOGNIZED if answer is None else answer(reply, span, reflector)
        reply[span.offset] = flags
        if flags & MALFORMED:
            return
    if found.is_malformed and found.rest + HEADER_BYTES <= end:
        reply[found.rest] = MALFORMED


def _answer_padding(_reply: bytearray, _span: Span, _reflector: Reflector) -> int:
    return ANSWERED


def _answer_class_of_service(reply: bytearray, span: Span, reflector: Reflector) -> int:
    """DSCP2 and ECN as received; RP says whether the sender's wish for the way back is met."""
    if span.length != COS_BYTES:
        return MALFORMED
    arrival = reflector.arrival
    wanted = reply[span.value_offset] >> 2
    # The engine answers with the DSCP of the request whatever DSCP1 asks for: a probe must come back
    # through the same queues, and a stranger must not choose our marks (RFC 8972 section 6).
    is_met = wanted == arrival.dscp
    word = wanted << 26 | (arrival.dscp or 0) << 20 | arrival.ecn << 18 | (not is_met) << 16
    reply[span.value_offset : span.end] = word.to_bytes(COS_BYTES, "big")
    return ANSWERED


def _answer_direct_measurement(reply: bytearray, span: Span, reflector: Reflector) -> int:
    if span.length != DIRECT_MEASUREMENT_BYTES:
        return MALFORMED
    counts = (reflector.arrival.rx_count & 0xFFFF_FFFF, reflector.arrival.tx_count & 0xFFFF_FFFF)
    reply[span.value_offset + 4 : span.end] = b"".join(count.to_bytes(4, "big") for count in counts)
    return ANSWERED


def _answer_destination(reply: bytearray, span: Span, reflector: Reflector) -> int:
    """U=1 when the request was meant for another node (RFC 9503 section 3)."""
    if span.length not in ADDRESS_BYTES:
        return MALFORMED
    return ANSWERED if bytes(reply[span.value_offset : span.end]) in reflector.addresses else UNRECOGNIZED


def _answer_coordination(reply: bytearray, span: Span, _reflector: Reflector) -> int:
    """Returned unchanged: the answer tells the sender that its words arrived, not what is thought of them."""
    if span.length != COORDINATION_BYTES:
        return MALFORMED
    enterprise = int.from_bytes(reply[span.value_offset : span.value_offset + 4], "big")
    return ANSWERED if enterprise == ENTERPRISE else UNRECOGNIZED


def _answer_location(reply: bytearray, span: Span, reflector: Reflector) -> int:
    if span.length < PORTS_BYTES:
        return MALFORMED
    arrival = reflector.arrival
    ports = arrival.destination_port << 16 | arrival.source_port
    reply[span.value_offset : span.value_offset + PORTS_BYTES] = ports.to_bytes(PORTS_BYTES, "big")
    found = scan(reply, span.value_offset + PORTS_BYTES, span.end, most=MAX_SUB_TLVS)
    for sub in found.spans:
        reply[sub.offset] = _answer_location_part(reply, sub, arrival)
    return MALFORMED if found.is_malformed else ANSWERED


_FAMILIES: Final = MappingProxyType(
    {
        (LocationType.DESTINATION_IP, 4): LocationType.DESTINATION_IPV4,
        (LocationType.DESTINATION_IP, 16): LocationType.DESTINATION_IPV6,
        (LocationType.SOURCE_IP, 4): LocationType.SOURCE_IPV4,
        (LocationType.SOURCE_IP, 16): LocationType.SOURCE_IPV6,
    }
)
"""How a question for an address is answered, by its length; an unknown address leaves the question."""


def _answer_location_part(reply: bytearray, sub: Span, arrival: Arrival) -> int:
    """Replace a question by its answer: type and value change, the length stays (RFC 8972 section 4.2.2)."""
    size, value = IP_BYTES, b""
    match sub.type:
        case LocationType.SOURCE_MAC:
            # A UDP socket does not see it: the RFC's answer is then an EUI-64 of zeros.
            size, kind = MAC_BYTES, LocationType.SOURCE_EUI64
        case LocationType.DESTINATION_IP:
            value = arrival.destination
            kind = _FAMILIES.get((LocationType.DESTINATION_IP, len(value)), LocationType.DESTINATION_IP)
        case LocationType.SOURCE_IP:
            value = arrival.source
            kind = _FAMILIES.get((LocationType.SOURCE_IP, len(value)), LocationType.SOURCE_IP)
        case _:
            return UNRECOGNIZED
    if sub.length != size:
        return MALFORMED
    reply[sub.offset + 1] = kind
    reply[sub.value_offset : sub.end] = value.ljust(size, b"\0")
    return ANSWERED


def _answer_timestamp_information(reply: bytearray, span: Span, reflector: Reflector) -> int:
    """Both stamps are software's: the kernel's on arrival, ours on leaving."""
    if span.length != TIMESTAMP_INFORMATION_BYTES:
        return MALFORMED
    source, method = reflector.arrival.sync_source, TimestampMethod.SOFTWARE
    reply[span.value_offset : span.end] = bytes((source, method, source, method))
    return ANSWERED


def _answer_access_report(_reply: bytearray, span: Span, _reflector: Reflector) -> int:
    """Returned unchanged: the sender repeats its report until it comes back (RFC 8972 section 4.6)."""
    return ANSWERED if span.length == ACCESS_REPORT_BYTES else MALFORMED


def _answer_follow_up(reply: bytearray, span: Span, reflector: Reflector) -> int:
    """Zeros until a first answer has left, and always from a reflector without sessions."""
    if span.length != FOLLOW_UP_BYTES:
        return MALFORMED
    arrival = reflector.arrival
    method = TimestampMethod.SOFTWARE if arrival.follow_up_ntp else 0
    FOLLOW_UP.pack_into(reply, span.value_offset, arrival.follow_up_sequence, arrival.follow_up_ntp, method)
    return ANSWERED


STANDARD_ANSWERS: Final[Mapping[int, Answer]] = MappingProxyType(
    {
        int(TlvType.EXTRA_PADDING): _answer_padding,
        int(TlvType.LOCATION): _answer_location,
        int(TlvType.TIMESTAMP_INFORMATION): _answer_timestamp_information,
        int(TlvType.CLASS_OF_SERVICE): _answer_class_of_service,
        int(TlvType.DIRECT_MEASUREMENT): _answer_direct_measurement,
        int(TlvType.ACCESS_REPORT): _answer_access_report,
        int(TlvType.FOLLOW_UP_TELEMETRY): _answer_follow_up,
        int(TlvType.DESTINATION_NODE_ADDRESS): _answer_destination,
    }
)
"""What the RFCs define and any sender may ask."""

STATELESS_ANSWERS: Final[Mapping[int, Answer]] = MappingProxyType(
    {kind: answer for kind, answer in STANDARD_ANSWERS.items() if kind != TlvType.DIRECT_MEASUREMENT}
)
"""Without sessions there is nothing to count."""

MESH_ANSWERS: Final[Mapping[int, Answer]] = MappingProxyType(
    {**STANDARD_ANSWERS, int(TlvType.COORDINATION): _answer_coordination}
)
"""What peers of the mesh may send besides; the mesh TLV has a fixed place and is written by `reflect`."""
