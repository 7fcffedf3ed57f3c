"""What the answers to a series of STAMP packets say of the way there and back; arithmetic only.

Which way a packet was lost on follows from the reflector's own count, if it tells one: as the number of its answer
(RFC 8762 section 4.3, stateful), or as an answered Direct Measurement (RFC 8972 section 4.5); see `loss`. Numbers alone
leave a doubt: those of a stateful reflector that was reached by everything are the sender's, as a stateless one's
always are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from meshwatchd.adapters.stamp_interop.loss import Counted, Loss, find_loss
from meshwatchd.adapters.stamp_interop.spread import Jitter, Spread, mean_step, spread_of
from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.ntp import NANOSECONDS
from meshwatchd.wire.standard_probe import StandardReply
from meshwatchd.wire.standard_tlv import DIRECT_MEASUREMENT_BYTES, DirectMeasurement, Location, LocationType
from meshwatchd.wire.tlv import MALFORMED, UNRECOGNIZED, TlvType

_WHOLE: Final = 1 << 64
_HALF: Final = 1 << 63
_LOW: Final = 0xFFFF_FFFF
_PAIR: Final = 2
STATEFUL, STATELESS, UNKNOWN = "stateful", "stateless", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer to a packet that was asked for, in the order of arrival.

    Attributes:
        sequence: the sender's number of the packet.
        turnaround_ns: from sending to arrival, by the sender's monotonic clock.
        arrival_ntp: when it arrived, 64-bit NTP format.
        hops_ttl: TTL of the answer, 0 when unknown.
    """

    sequence: int
    turnaround_ns: int
    arrival_ntp: int
    hops_ttl: int
    reply: StandardReply


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where the packet went that reached the reflector last: its Location (RFC 8972 section 4.2).

    Attributes:
        source, destination: addresses, empty where the reflector does not write them.
    """

    source: str
    source_port: int
    destination: str
    destination_port: int


class TlvReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the reflector returned the TLVs of one type.

    Attributes:
        returned: answers that carried it.
        unrecognized, malformed: of those, how many had the flag U, or M.
        value: of the last one, in hexadecimal.
    """

    type: int
    name: str
    returned: int
    unrecognized: int
    malformed: int
    value: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        duplicates: answers beyond the first to the same packet.
        reordered: answers that came after one to a later packet.
        discarded: packets that are no answers to ours, by reason.
        unsent: packets that could not leave this machine and are not among those sent, by reason.
        reflector: stateful, stateless or unknown.
        loss: None where the reflector tells no count.
        rtt: without the time the packet spent in the reflector.
        forward, reverse: one-way delays; None unless both clocks say that they are synchronized.
        jitter: by direction; None with fewer than two answers. Needs no synchronized clock.
        clock_error_ns: what both clocks together may be off; None with `forward`.
        ttl_seen: TTL with which the last packet reached the reflector, 0 when it does not say.
        ttl_returned: TTL with which the last answer came, 0 when unknown.
        is_ssid_returned: whether all answers repeated the SSID; reflectors older than RFC 8972 do not.
        integrity_failures: answers whose TLVs do not verify, here or there.
        place: None unless the reflector answers Location.
    """

    sent: int
    received: int
    duplicates: int
    reordered: int
    discarded: dict[str, int]
    unsent: dict[str, int] = {}
    reflector: str
    loss: Loss | None
    rtt: Spread | None
    forward: Spread | None
    reverse: Spread | None
    jitter: Jitter | None = None
    clock_error_ns: int | None
    ttl_seen: int
    ttl_returned: int
    is_ssid_returned: bool
    integrity_failures: int
    place: Place | None = None
    tlvs: tuple[TlvReport, ...]

    @property
    def lost(self) -> int:
        """Packets without an answer."""
        return self.sent - self.received


def evaluate(
    samples: Sequence[Sample],
    *,
    sent: int,
    ssid: int = 0,
    own_error_ns: int | None = None,
    discarded: Mapping[str, int] | None = None,
    unsent: Mapping[str, int] | None = None,
    is_one_session: bool = True,
) -> Measurement:
    """Sum up a series.

    Args:
        samples: in the order of arrival, duplicates included.
        sent: how many packets, numbered from 0.
        ssid: that they carried.
        own_error_ns: how far the sender's clock may be off; None when it is not synchronized.
        discarded: by reason.
        unsent: by reason.
        is_one_session: all from one port; else every packet is a session of its own to the reflector.
    """
    first: dict[int, Sample] = {}
    reordered, highest = 0, -1
    for sample in samples:
        if sample.sequence in first:
            continue
        first[sample.sequence] = sample
        reordered += sample.sequence < highest
        highest = max(highest, sample.sequence)
    unique = [first[sequence] for sequence in sorted(first)]
    reflector = _reflector(unique) if is_one_session else UNKNOWN
    error_ns = _clock_error_ns(unique, own_error_ns)
    last = samples[-1] if samples else None
    return Measurement(
        sent=sent,
        received=len(unique),
        duplicates=len(samples) - len(unique),
        reordered=reordered,
        discarded=dict(discarded or {}),
        unsent=dict(unsent or {}),
        reflector=reflector,
        loss=_loss(samples, sent, is_counting=reflector == STATEFUL) if is_one_session else None,
        rtt=spread_of([rtt_ns(sample) for sample in unique]),
        forward=None if error_ns is None else spread_of([_forward_ns(sample) for sample in unique]),
        reverse=None if error_ns is None else spread_of([_reverse_ns(sample) for sample in unique]),
        jitter=_jitter(unique),
        clock_error_ns=error_ns,
        ttl_seen=last.reply.sender_ttl if last else 0,
        ttl_returned=last.hops_ttl if last else 0,
        is_ssid_returned=all(sample.reply.ssid == ssid for sample in unique),
        integrity_failures=sum(sample.reply.is_integrity_failed for sample in unique),
        place=_place(unique),
        tlvs=_tlv_reports(unique),
    )


def rtt_ns(sample: Sample) -> int:
    """The round trip without the reflector's own time, where that is believable."""
    residence_ns = _reflector_ns(sample, sample.reply.receive_ntp, sample.reply.timestamp_ntp)
    is_believable = 0 <= residence_ns < sample.turnaround_ns
    return sample.turnaround_ns - residence_ns if is_believable else sample.turnaround_ns


def _ptp_ns(timestamp: int) -> int:
    """Truncated PTP format: 32 bits of seconds, 32 bits of nanoseconds (RFC 8186 section 2.2)."""
    return (timestamp >> 32) * NANOSECONDS + (timestamp & _LOW)


def _between_ns(earlier_ntp: int, later_ntp: int) -> int:
    """Nanoseconds from one NTP timestamp to another, negative if they are the other way round."""
    difference = (later_ntp - earlier_ntp + _HALF) % _WHOLE - _HALF
    return (difference * NANOSECONDS) >> 32


def _forward_ns(sample: Sample) -> int:
    return _between_ns(sample.reply.sender_timestamp_ntp, sample.reply.receive_ntp)


def _reverse_ns(sample: Sample) -> int:
    return _between_ns(sample.reply.timestamp_ntp, sample.arrival_ntp)


def _clock_error_ns(unique: Sequence[Sample], own_error_ns: int | None) -> int | None:
    estimates = [sample.reply.error_estimate for sample in unique]
    if own_error_ns is None or not estimates:
        return None
    if not all(estimate.is_synchronized and not estimate.is_ptp for estimate in estimates):
        return None
    return own_error_ns + max(estimate.error_ns for estimate in estimates)


def _reflector(unique: Sequence[Sample]) -> str:
    """One number that is its own, and the reflector counts; one that should be and is not shows that it does not."""
    if any(sample.reply.sequence != sample.sequence for sample in unique):
        return STATEFUL
    has_lost = any(
        counted is not None and counted <= sample.sequence for sample in unique for counted in (_measured(sample),)
    )
    return STATELESS if has_lost else UNKNOWN


def _measured(sample: Sample) -> int | None:
    """How many packets had reached the reflector, by its Direct Measurement; None if it does not say."""
    for tlv in sample.reply.tlvs:
        is_answered = not tlv.flags & (UNRECOGNIZED | MALFORMED) and len(tlv.value) == DIRECT_MEASUREMENT_BYTES
        if tlv.type == TlvType.DIRECT_MEASUREMENT and is_answered:
            return DirectMeasurement.from_tlv(tlv).reflector_rx
    return None


def _loss(samples: Sequence[Sample], sent: int, *, is_counting: bool) -> Loss | None:
    """By what all answers count the same way; None where nothing is counted."""
    if not samples:
        return None
    measured = [_measured(sample) for sample in samples]
    numbers = [counted - 1 for counted in measured if counted is not None]
    if None in measured:
        if not is_counting:
            return None
        numbers = [sample.reply.sequence for sample in samples]
    return find_loss(
        [
            Counted(sample.sequence, number, sample.reply.timestamp_ntp)
            for sample, number in zip(samples, numbers, strict=True)
        ],
        sent,
    )


def _jitter(unique: Sequence[Sample]) -> Jitter | None:
    if len(unique) < _PAIR:
        return None
    zero = unique[0]
    forward, reverse = [], []
    for sample in unique:
        # Each clock by itself, from its own first reading on: the formats of the two may differ.
        sent = _between_ns(zero.reply.sender_timestamp_ntp, sample.reply.sender_timestamp_ntp)
        arrived = _between_ns(zero.arrival_ntp, sample.arrival_ntp)
        forward.append(_reflector_ns(sample, zero.reply.receive_ntp, sample.reply.receive_ntp) - sent)
        reverse.append(arrived - _reflector_ns(sample, zero.reply.timestamp_ntp, sample.reply.timestamp_ntp))
    return Jitter(forward_ns=mean_step(forward), reverse_ns=mean_step(reverse))


def _reflector_ns(sample: Sample, earlier: int, later: int) -> int:
    if sample.reply.error_estimate.is_ptp:
        return _ptp_ns(later) - _ptp_ns(earlier)
    return _between_ns(earlier, later)


def _place(unique: Sequence[Sample]) -> Place | None:
    for sample in reversed(unique):
        for tlv in sample.reply.tlvs:
            if tlv.type == TlvType.LOCATION and not tlv.flags & (UNRECOGNIZED | MALFORMED):
                with suppress(DecodeError):
                    return _read_place(Location.from_tlv(tlv))
    return None


def _read_place(location: Location) -> Place:
    source = location.address(LocationType.SOURCE_IPV4, LocationType.SOURCE_IPV6)
    destination = location.address(LocationType.DESTINATION_IPV4, LocationType.DESTINATION_IPV6)
    return Place(
        source=str(source or ""),
        source_port=location.source_port,
        destination=str(destination or ""),
        destination_port=location.destination_port,
    )


def _tlv_reports(unique: Sequence[Sample]) -> tuple[TlvReport, ...]:
    names = {int(kind): kind.name.lower().replace("_", "-") for kind in TlvType}
    found = [tlv for sample in unique for tlv in sample.reply.tlvs]
    reports = []
    for kind in sorted({tlv.type for tlv in found}):
        these = [tlv for tlv in found if tlv.type == kind]
        reports.append(
            TlvReport(
                type=kind,
                name=names.get(kind, str(kind)),
                returned=len(these),
                unrecognized=sum(bool(tlv.flags & UNRECOGNIZED) for tlv in these),
                malformed=sum(bool(tlv.flags & MALFORMED) for tlv in these),
                value=these[-1].value.hex(),
            )
        )
    return tuple(reports)
