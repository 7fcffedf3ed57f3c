"""The figures of the failover benchmark. Pure: records and facts in, figures out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netnslab.daemons import Event
from netnslab.traffic_records import Flow, FlowKind, Punctuality
from netnslab.traffic_report import count_lost, injection_instant, measure_outage, percentile

MS = 1_000_000
# What is aimed at; reported, not asserted: a loaded machine is no broken promise.
GOAL_P50_NS, GOAL_P99_NS = 200 * MS, 400 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One round; None as an outage means that service was not restored while the fault lasted.

    Attributes:
        diverted: nodes with an override in their kernel, read with ip(8) while the fault was on.
        both_sides_switched: whether all who said that they moved, and the other relay of each failover, have an
            override in their kernel; a detour has one side.
        applied_ns: by node, from the injection to the daemon's own `failover.applied` or `detour.taken`.
        verdict_ns: from the injection to the first verdict, and what that was.
        lost_on_return: flows lost from the restoration to the end of the round, failback included.
        source_late_ns: how late the traffic source itself was at worst, in the seconds around the injection. A
            figure like the outage says: the machine stood still, measure again.
    """

    fault: str
    injected_ns: int
    outage_ns: int | None
    udp_outage_ns: int | None
    tcp_outage_ns: int | None
    lost: int
    lost_on_return: int
    diverted: tuple[str, ...]
    both_sides_switched: bool
    applied_ns: Mapping[str, int]
    verdict_ns: int | None
    verdict: str
    source_late_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The instants of one round, before the records are judged."""

    fault: str
    before_ns: int
    after_ns: int
    healed_ns: int
    ended_ns: int
    diverted: tuple[str, ...]


def judge(played: Round, flows: Sequence[Flow], events: Sequence[Event], windows: Sequence[Punctuality]) -> Injection:
    """Put what the traffic source and the daemons recorded of one round together."""
    injected_ns = injection_instant(flows, before_ns=played.before_ns, after_ns=played.after_ns)
    until_ns = played.healed_ns
    outage = measure_outage(flows, injected_ns, until_ns=until_ns)
    kinds = {
        kind: measure_outage((flow for flow in flows if flow.kind is kind), injected_ns, until_ns=until_ns)
        for kind in FlowKind
    }
    during = [event for event in events if played.before_ns <= event.at_ns < until_ns]
    applied = [event for event in during if event.name in ("failover.applied", "detour.taken")]
    verdict = next((event for event in during if event.name == "verdict.changed"), None)
    relays = {relay for event in applied for relay in _relays(event)}
    return Injection(
        fault=played.fault,
        injected_ns=injected_ns,
        outage_ns=outage.duration_ns,
        udp_outage_ns=kinds[FlowKind.UDP].duration_ns,
        tcp_outage_ns=kinds[FlowKind.TCP].duration_ns,
        lost=outage.lost,
        lost_on_return=count_lost(flows, since_ns=outage.restored_ns or until_ns, until_ns=played.ended_ns),
        diverted=played.diverted,
        both_sides_switched=bool(relays) and relays <= set(played.diverted),
        applied_ns={event.node: event.at_ns - injected_ns for event in applied},
        verdict_ns=verdict.at_ns - injected_ns if verdict else None,
        verdict=_fault_code(verdict),
        source_late_ns=_lateness_ns(windows, since_ns=injected_ns, until_ns=outage.restored_ns or until_ns),
    )


def _lateness_ns(windows: Sequence[Punctuality], *, since_ns: int, until_ns: int) -> int:
    """The worst of the windows that overlap a period."""
    overlapping = (w for w in windows if w.at_ns > since_ns and w.at_ns - w.window_ns < until_ns)
    return max((window.lateness_max_ns for window in overlapping), default=0)


def _relays(event: Event) -> tuple[str, ...]:
    """Whose kernels have to have moved; what a detour has is a neighbour, which changes nothing."""
    if event.name == "detour.taken":
        return (event.node,)
    relays = event.fields.get("relays")
    return tuple(map(str, relays)) if isinstance(relays, list) else ()


def _fault_code(verdict: Event | None) -> str:
    if verdict is None:
        return ""
    nested = verdict.fields.get("verdict", verdict.fields)
    return str(nested.get("fault", "")) if isinstance(nested, Mapping) else ""


def summarise(injections: Sequence[Injection]) -> dict[str, object]:
    """Percentiles and totals of the injections of one fault; times in milliseconds."""
    outages = [each.outage_ns for each in injections if each.outage_ns is not None]
    verdicts = [each.verdict_ns for each in injections if each.verdict_ns is not None]
    p50_ns, p99_ns = percentile(outages, 50), percentile(outages, 99)
    is_complete = len(outages) == len(injections) > 0
    return {
        "injections": len(injections),
        "restored": len(outages),
        "both_sides_switched": sum(each.both_sides_switched for each in injections),
        "outage_p50_ms": _ms(p50_ns),
        "outage_p99_ms": _ms(p99_ns),
        "outage_max_ms": _ms(max(outages, default=None)),
        "udp_outage_p50_ms": _ms(percentile(_known(each.udp_outage_ns for each in injections), 50)),
        "tcp_outage_p50_ms": _ms(percentile(_known(each.tcp_outage_ns for each in injections), 50)),
        "verdict_p50_ms": _ms(percentile(verdicts, 50)),
        "source_late_max_ms": _ms(max((each.source_late_ns for each in injections), default=None)),
        "lost_flows": sum(each.lost for each in injections),
        "lost_flows_on_return": sum(each.lost_on_return for each in injections),
        "meets_goal": is_complete and p50_ns is not None and p50_ns <= GOAL_P50_NS and (p99_ns or 0) <= GOAL_P99_NS,
    }


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else round(value_ns / MS, 1)
