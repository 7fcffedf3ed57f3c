"""What one run has found out, in sentences: the row's own first, then what was counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from meshwatchd.bisect.observation import Observation
from meshwatchd.model.bisection import Flows, SeriesCounts, SeriesName, TapReport

_WHAT: Final = MappingProxyType(
    {
        SeriesName.UNDERLAY: "probes without overlay",
        SeriesName.KERNEL: "new flows",
        SeriesName.INJECTED: "frames put into the overlay device",
        SeriesName.CRAFTED: "outer packets made by hand",
        SeriesName.FRAMED: "outer frames put into the lower device",
    }
)


def tell_evidence(seen: Observation, flows: Flows, taps: Sequence[TapReport]) -> Iterator[str]:
    """One sentence for each series, for what the peer saw, for known flows, and for what weakens the evidence."""
    for counts in seen.series:
        if counts.sent:
            yield _tell_series(counts, seen)
        elif counts.errors:
            yield f"{_WHAT[counts.name]} could not be sent: {', '.join(counts.errors)}"
    there = seen.counts_there(SeriesName.KERNEL)
    if there is not None:
        yield (
            f"{seen.via} saw of the new flows: {_count(there.at_lower)} at its NIC, {_count(there.at_overlay)} out of"
            f" its overlay device; of its answers {_count(there.answers_at_overlay)} into that and"
            f" {_count(there.answers_at_lower)} out of its NIC"
        )
    known = seen.known_flows
    if known.sent:
        yield f"of the daemon's {known.sent} probes of established flows meanwhile {known.answered} were answered"
    if flows is not Flows.NONE and (seen.overlay_dropped or seen.overlay_errors):
        yield f"{seen.overlay} counted {seen.overlay_dropped} drops and {seen.overlay_errors} errors meanwhile"
    if seen.queue_dropped:
        yield f"the queues of {seen.lower} dropped {seen.queue_dropped} packets meanwhile"
    for tap in taps:
        if tap.dropped:
            yield f"the tap on {tap.device} lost {tap.dropped} packets: counts there may be too small"


def _tell_series(counts: SeriesCounts, seen: Observation) -> str:
    parts = []
    if counts.at_overlay is not None and counts.name in {SeriesName.KERNEL, SeriesName.INJECTED}:
        parts.append(f"{counts.at_overlay} entered {seen.overlay}")
    if counts.at_lower is not None:
        parts.append(f"{counts.at_lower} left {seen.lower}")
        if counts.back_at_lower and counts.back_at_lower != counts.echoed:
            parts.append(f"{counts.back_at_lower} answers reached {seen.lower}")
    parts.append(f"{counts.echoed} were answered")
    errors = f" (refused: {', '.join(counts.errors)})" if counts.errors else ""
    return f"of {counts.sent} {_WHAT[counts.name]} {', '.join(parts)}{errors}"


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
