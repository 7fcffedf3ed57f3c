"""What the records of the traffic source say about an outage. Pure: records in, figures out.

The outage around an injection, as an application feels it:

    ok  ok  ok | x   x   ok  x   x   ok  ok  ok  ok  ... at least STEADY_NS without a loss
               |                     ^
      injected_ns                restored_ns           duration = restored_ns - injected_ns

Flows are placed by when they *started*. A flow that succeeds between losses (it rode on state that
a middle box remembered, or on luck) does not end the outage: service is back only when every new
flow succeeds for STEADY_NS. UDP and TCP are judged each alone as well, for they fail differently; a
TCP flow that succeeds did so with its first SYN (traffic_flows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netnslab.traffic_records import Flow, Punctuality, Records

STEADY_NS = 1_000_000_000
# A flow that started this long before the fault may still have had a packet in the air: several round
# trips of the lab, and far less than the outage that is measured.
IN_FLIGHT_NS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One outage, seen by new flows.

    Attributes:
        duration_ns: from the injection to `restored_ns`; 0 when nothing was lost; None when service
            was not steadily back before the records (or the period asked for) ended.
        first_lost_ns: start of the first flow that was lost after the injection.
        last_lost_ns: start of the last one.
        restored_ns: start of the first flow from which on all succeeded for STEADY_NS.
        lost: flows lost or refused, with those that were in flight when the fault came.
        survived: flows that succeeded while the outage lasted.
    """

    injected_ns: int
    duration_ns: int | None
    first_lost_ns: int | None
    last_lost_ns: int | None
    restored_ns: int | None
    lost: int
    survived: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """How the long-lived connection fared.

    Attributes:
        survived: it was established, never reset, and every message came back in order.
        longest_stall_ns: longest time without an echo (10 ms is the normal distance).
        stalled_at_ns: when that stall began; None without two echoes.
    """

    survived: bool
    sent: int
    answered: int
    longest_stall_ns: int
    stalled_at_ns: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """Whether the source itself can be trusted; the worst window counts.

    Attributes:
        cpu_ratio: processor time over time, 1.0 = one core.
    """

    lateness_p99_ns: int
    lateness_max_ns: int
    skipped: int
    cpu_ratio: float


def measure_outage(
    flows: Iterable[Flow], injected_ns: int, *, until_ns: int | None = None, steady_ns: int = STEADY_NS
) -> Outage:
    """Find the outage that a fault at `injected_ns` caused.

    Args:
        flows: of one kind or of several, of one direction or of both, in any order.
        injected_ns: when the fault was complete; CLOCK_MONOTONIC, as in the records.
        until_ns: flows that started later are not looked at, such as those after the fault was healed.
        steady_ns: how long all must succeed before service counts as restored.
    """
    seen = sorted(
        (flow for flow in flows if until_ns is None or flow.start_ns < until_ns),
        key=lambda flow: flow.start_ns,
    )
    after = [flow for flow in seen if flow.start_ns >= injected_ns]
    in_flight = count_lost(seen, since_ns=injected_ns - IN_FLIGHT_NS, until_ns=injected_ns)
    first_lost = next((flow for flow in after if not flow.is_ok), None)
    if first_lost is None:
        return Outage(
            injected_ns=injected_ns,
            duration_ns=0,
            first_lost_ns=None,
            last_lost_ns=None,
            restored_ns=injected_ns,
            lost=in_flight,
            survived=0,
        )
    restored_ns = _restored_ns(after, since_ns=first_lost.start_ns, steady_ns=steady_ns)
    during = [flow for flow in after if restored_ns is None or flow.start_ns < restored_ns]
    lost = [flow for flow in during if not flow.is_ok]
    return Outage(
        injected_ns=injected_ns,
        duration_ns=None if restored_ns is None else restored_ns - injected_ns,
        first_lost_ns=first_lost.start_ns,
        last_lost_ns=lost[-1].start_ns,
        restored_ns=restored_ns,
        lost=in_flight + len(lost),
        survived=len(during) - len(lost),
    )


def injection_instant(flows: Iterable[Flow], *, before_ns: int, after_ns: int) -> int:
    """When a fault began that was injected by a command which ran from `before_ns` to `after_ns`.

    The command takes some 20 ms, and somewhere within the kernel takes its rules over. The first flow that
    is lost cannot be much later than that (one distance between flows); without a loss, the end of the
    command stands.
    """
    lost = (flow.start_ns for flow in flows if not flow.is_ok and before_ns <= flow.start_ns < after_ns)
    return min(lost, default=after_ns)


def count_lost(flows: Iterable[Flow], *, since_ns: int, until_ns: int) -> int:
    """Flows that started in [since_ns, until_ns) and did not succeed."""
    return sum(not flow.is_ok for flow in flows if since_ns <= flow.start_ns < until_ns)


def longest_gap_ns(flows: Iterable[Flow], *, since_ns: int, until_ns: int) -> int:
    """The longest part of [since_ns, until_ns) in which no flow that succeeded was started."""
    starts = sorted(flow.start_ns for flow in flows if flow.is_ok and since_ns <= flow.start_ns < until_ns)
    marks = [since_ns, *starts, until_ns]
    return max(after - before for before, after in itertools.pairwise(marks))


def judge_stream(records: Records) -> StreamReport:
    """Whether the long-lived connection survived, and its longest stall."""
    events = {event.event: event for event in records.stream}
    connected, ended = events.get("connected"), next(reversed(records.stream), None)
    broken = events.get("reset") or events.get("disordered")
    longest_ns, began_ns = max(silences(records), default=(0, None))
    return StreamReport(
        survived=connected is not None and broken is None and bool(records.echoes),
        sent=ended.sent if ended else 0,
        answered=len(records.echoes),
        longest_stall_ns=longest_ns,
        stalled_at_ns=began_ns,
        reason=broken.reason if broken else "",
    )


def silences(records: Records) -> list[tuple[int, int]]:
    """The times between echoes of the long-lived connection: how long in nanoseconds, and since when."""
    connected = next((event for event in reversed(records.stream) if event.event == "connected"), None)
    ended = next(reversed(records.stream), None)
    arrivals = sorted(echo.arrival_ns for echo in records.echoes)
    if connected:
        arrivals.insert(0, connected.at_ns)
    if ended and ended.event == "finished":
        arrivals.append(ended.at_ns)  # silence up to the end is a stall too
    return [(after - before, before) for before, after in itertools.pairwise(arrivals)]


def judge_source(windows: Sequence[Punctuality]) -> SourceHealth:
    """The worst of the source's own windows, and its share of a core over all of them."""
    measured_ns = sum(window.window_ns for window in windows)
    return SourceHealth(
        lateness_p99_ns=max((window.lateness_p99_ns for window in windows), default=0),
        lateness_max_ns=max((window.lateness_max_ns for window in windows), default=0),
        skipped=sum(window.skipped for window in windows),
        cpu_ratio=sum(window.cpu_ns for window in windows) / measured_ns if measured_ns else 0.0,
    )


def percentile(values: Iterable[int], percent: float) -> int | None:
    """Nearest-rank percentile: the smallest value that `percent` of all do not exceed; None of nothing.

    With 20 values p99 is the largest, which is what a bound over 20 injections has to mean.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


def _restored_ns(flows: Sequence[Flow], *, since_ns: int, steady_ns: int) -> int | None:
    """Start of the first success that opens a loss-free `steady_ns`; `flows` are in order of start."""
    candidate: int | None = None
    for flow in flows:
        if flow.start_ns < since_ns:
            continue
        if not flow.is_ok:
            candidate = None
        elif candidate is None:
            candidate = flow.start_ns
        if candidate is not None and flow.start_ns - candidate >= steady_ns:
            return candidate
    return None
