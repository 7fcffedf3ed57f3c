"""What the answers to a series of STAMP packets say of the way there and back; arithmetic only.

Which way a packet was lost on follows from the reflector's own count, if it tells one: as the number of its answer
(RFC 8762 section 4.3, stateful), or as an answered Direct Measurement (RFC 8972 section 4.5). Numbers alone leave a
doubt: those of a stateful reflector that was reached by everything are the sender's, as a stateless one's always are.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from meshwatchd.wire import StandardReply
from meshwatchd.wire.ntp import NANOSECONDS
from meshwatchd.wire.standard_tlv import DIRECT_MEASUREMENT_BYTES, DirectMeasurement
from meshwatchd.wire.tlv import MALFORMED, UNRECOGNIZED, TlvType

_WHOLE: Final = 1 << 64
_HALF: Final = 1 << 63
_LOW: Final = 0xFFFF_FFFF
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


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Of some delays, in nanoseconds; jitter is the mean difference between neighbours."""

    min_ns: int
    median_ns: int
    max_ns: int
    jitter_ns: int


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Where packets were lost: on the way there, on the way back, or after the last answer, which nobody can tell."""

    forward: int
    reverse: int
    undetermined: int


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
        clock_error_ns: what both clocks together may be off; None with `forward`.
        ttl_seen: TTL with which the last packet reached the reflector, 0 when it does not say.
        ttl_returned: TTL with which the last answer came, 0 when unknown.
        is_ssid_returned: whether all answers repeated the SSID; reflectors older than RFC 8972 do not.
        integrity_failures: answers whose TLVs do not verify, here or there.
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
    clock_error_ns: int | None
    ttl_seen: int
    ttl_returned: int
    is_ssid_returned: bool
    integrity_failures: int
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
        loss=_loss(unique, sent, is_counting=reflector == STATEFUL) if is_one_session else None,
        rtt=_spread([rtt_ns(sample) for sample in unique]),
        forward=None if error_ns is None else _spread([_forward_ns(sample) for sample in unique]),
        reverse=None if error_ns is None else _spread([_reverse_ns(sample) for sample in unique]),
        clock_error_ns=error_ns,
        ttl_seen=last.reply.sender_ttl if last else 0,
        ttl_returned=last.hops_ttl if last else 0,
        is_ssid_returned=all(sample.reply.ssid == ssid for sample in unique),
        integrity_failures=sum(sample.reply.is_integrity_failed for sample in unique),
        tlvs=_tlv_reports(unique),
    )


def rtt_ns(sample: Sample) -> int:
    """The round trip without the reflector's own time, where that is believable."""
    reply = sample.reply
    if reply.error_estimate.is_ptp:
        residence_ns = _ptp_ns(reply.timestamp_ntp) - _ptp_ns(reply.receive_ntp)
    else:
        residence_ns = _between_ns(reply.receive_ntp, reply.timestamp_ntp)
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


def _loss(unique: Sequence[Sample], sent: int, *, is_counting: bool) -> Loss | None:
    """Count what the reflector has seen up to its last answer.

    A number that starts with this session tells of the packets before the first answer as well; one that was
    ahead of us then has counted other sessions, or starts with 1.
    """
    if not unique:
        return None
    first, last = unique[0], unique[-1]
    counted = _measured(last)
    if counted is None:
        if not is_counting:
            return None
        start = 0 if first.reply.sequence <= first.sequence else first.reply.sequence - first.sequence
        counted = (last.reply.sequence - start + 1) & _LOW
    forward = max(0, last.sequence + 1 - counted)
    reverse = max(0, last.sequence + 1 - forward - len(unique))
    return Loss(forward=forward, reverse=reverse, undetermined=sent - last.sequence - 1)


def _spread(delays: Sequence[int]) -> Spread | None:
    if not delays:
        return None
    steps = [abs(later - earlier) for earlier, later in itertools.pairwise(delays)]
    return Spread(
        min_ns=min(delays),
        median_ns=round(statistics.median(delays)),
        max_ns=max(delays),
        jitter_ns=round(statistics.fmean(steps)) if steps else 0,
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
