"""The story of a failover as lines of one time line. Pure: facts and flows in, entries out.

Six daemons tell the same story six times. Here each turn of it becomes one entry, told by whoever
was first, with those who agreed named beneath; what each node does to its own routes stays an entry
of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from netnslab.daemons import Event
from netnslab.traffic_records import Flow
from netnslab.traffic_report import Outage

MS = 1_000_000
# Stalls closer than this are told together.
STALLS_NS = 1_000 * MS


class Tone(StrEnum):
    """What an entry means for traffic; the view chooses colours and signs by it."""

    FAULT = "fault"
    BAD = "bad"
    INFO = "info"
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        who: a node, `traffic` or `lab`.
        details: lines beneath it, such as the evidence of a verdict.
    """

    at_ns: int
    who: str
    text: str
    tone: Tone = Tone.INFO
    details: tuple[str, ...] = ()


# Layers travel as numbers (the daemon's catalogue of layers).
LAYERS = MappingProxyType(
    {0: "self", 1: "underlay", 2: "WireGuard", 3: "IPIP", 4: "overlay", 5: "relay", 6: "effective"}
)

# Facts that need no more than a sentence; braces are filled from the fact's fields.
SENTENCES: Mapping[str, tuple[Tone, str]] = MappingProxyType(
    {
        "failover.proposed": (Tone.INFO, "asks the other relay to move to path {to_rank}: {reason}"),
        "failover.doubted": (Tone.BAD, "keeps path {rank}, which carries only {received} of {sent} probes"),
        "failover.rolled_back": (Tone.BAD, "takes the move to path {rank} back: {reason}"),
        "failover.held": (Tone.BAD, "does nothing: {reason}"),
        "plan.refused": (Tone.BAD, "change refused: {reason}"),
        "agent.restarted": (Tone.INFO, "agent restarted"),
        "override.adopted": (Tone.INFO, "adopts path {rank}, found in the kernel"),
        "detour.taken": (Tone.GOOD, "goes around its own leg by {relay}"),
        "detour.left": (Tone.GOOD, "goes by its own leg again"),
        "collision.found": (Tone.BAD, "finds a foreign object in the way: {what}"),
        "object.reasserted": (Tone.BAD, "puts back what somebody removed: {what}"),
    }
)


def tell(events: Iterable[Event]) -> list[Entry]:
    """The entries of all daemons' facts, in the order of time."""
    ordered = sorted(events, key=lambda event: (event.at_ns, event.node))
    entries = [entry for event in ordered if (entry := _entry_of_one(event))]
    entries += _first_misses(ordered) + _verdicts(ordered) + _verifications(ordered) + _stalls(ordered)
    return sorted(entries, key=lambda entry: entry.at_ns)


def tell_outage(outage: Outage, *, back_over: str) -> list[Entry]:
    """The first loss and the return of service, as the traffic source saw them.

    Args:
        outage: of all new flows together.
        back_over: what service came back over, such as `the standby path`.
    """
    if outage.first_lost_ns is None:
        return [Entry(at_ns=outage.injected_ns, who="traffic", text="no new flow is lost", tone=Tone.GOOD)]
    entries = [Entry(at_ns=outage.first_lost_ns, who="traffic", text="first new flow is lost", tone=Tone.BAD)]
    if outage.restored_ns is not None and outage.duration_ns is not None:
        text = f"first packet over {back_over}; from here every new flow succeeds"
        lost = f"outage {outage.duration_ns / MS:.0f} ms, {outage.lost} flows lost"
        entries.append(Entry(at_ns=outage.restored_ns, who="traffic", text=text, tone=Tone.GOOD, details=(lost,)))
    return entries


def success_strip(flows: Sequence[Flow], *, since_ns: int, until_ns: int, buckets: int) -> tuple[float | None, ...]:
    """The share of new flows that succeeded in each of `buckets` equal parts of a period; None if none."""
    started, succeeded = [0] * buckets, [0] * buckets
    for flow in flows:
        if since_ns <= flow.start_ns < until_ns:
            place = (flow.start_ns - since_ns) * buckets // (until_ns - since_ns)
            started[place] += 1
            succeeded[place] += flow.is_ok
    return tuple(
        good / all_of_them if all_of_them else None for good, all_of_them in zip(succeeded, started, strict=True)
    )


def _entry_of_one(event: Event) -> Entry | None:
    """Facts that each node tells for itself; None for those that are told together, or not at all."""
    fields = event.fields
    match event.name:
        case "failover.applied":
            text = f"switches to path {fields['to_rank']}{_relays(fields)}"
            operations = _texts(fields.get("operations"))
            return Entry(at_ns=event.at_ns, who=event.node, text=text, tone=Tone.GOOD, details=operations)
        case "failback.applied":
            text = "returns to the primary path"
            return Entry(at_ns=event.at_ns, who=event.node, text=text, tone=Tone.GOOD)
        case "proposal.answered":
            verb = "grants" if fields["is_granted"] else f"refuses ({fields['reason']})"
            text = f"{verb} the move to path {fields['to_rank']} that {fields['peer']} asked for"
            return Entry(at_ns=event.at_ns, who=event.node, text=text)
        case name if name in SENTENCES:
            tone, sentence = SENTENCES[name]
            text = sentence.format_map(_Lenient(fields))
            return Entry(at_ns=event.at_ns, who=event.node, text=text, tone=tone)
        case _:
            return None


def _first_misses(events: Sequence[Event]) -> list[Entry]:
    """The first suspicion of each path; which node has it first is a matter of phase."""
    first: dict[object, Event] = {}
    for event in events:
        if event.name == "session.suspected":
            first.setdefault(event.fields.get("path"), event)
    return [_first_miss(event, path) for path, event in first.items()]


def _first_miss(event: Event, path: object) -> Entry:
    layer, peer = _layer(event.fields.get("layer")), event.fields.get("peer")
    text = f"first suspicious miss: {layer} probe to {peer} over path {path}; confirm burst"
    return Entry(at_ns=event.at_ns, who=event.node, text=text)


def _verdicts(events: Sequence[Event]) -> list[Entry]:
    """Each run of equal verdicts as one entry: the first node's, with its evidence and those who agree."""
    runs: list[list[Event]] = []
    latest: dict[tuple[object, object], list[Event]] = {}
    for event in events:
        if event.name != "verdict.changed":
            continue
        verdict = _verdict(event)
        key = (verdict.get("fault"), verdict.get("culprit"))
        run = latest.get(key)
        if run is None or event.node in {member.node for member in run}:
            run = latest[key] = []
            runs.append(run)
        run.append(event)
    return [_verdict_entry(run) for run in runs]


def _verdict_entry(run: Sequence[Event]) -> Entry:
    first, verdict = run[0], _verdict(run[0])
    is_recovery = verdict.get("fault") == "none"
    place = f" at {verdict['culprit']}" if verdict.get("culprit") else ""
    text = "verdict: nothing wrong" if is_recovery else f"verdict: {verdict.get('fault')}{place}"
    details = tuple(f"because {line}" for line in _texts(verdict.get("because")))
    if len(run) > 1:
        others = ", ".join(sorted(event.node for event in run[1:]))
        details += (f"agreed by {others} within {(run[-1].at_ns - first.at_ns) / MS:.0f} ms",)
    return Entry(
        at_ns=first.at_ns,
        who=first.node,
        text=text,
        tone=Tone.GOOD if is_recovery else Tone.BAD,
        details=details,
    )


def _verifications(events: Sequence[Event]) -> list[Entry]:
    """The first proof that probes arrive over the new path, for each move."""
    first: dict[object, Event] = {}
    for event in events:
        if event.name == "failover.verified":
            first.setdefault(event.fields.get("rank"), event)
    return [
        Entry(
            at_ns=event.at_ns,
            who=event.node,
            text=f"verified: {event.fields.get('received')} of {event.fields.get('sent')} probes"
            f" arrive where traffic goes (path {rank})",
            tone=Tone.GOOD,
        )
        for rank, event in first.items()
    ]


def _stalls(events: Sequence[Event]) -> list[Entry]:
    """Daemons that had to wait for a processor; those within a second are one cause, this machine, and one entry."""
    runs: list[list[Event]] = []
    for event in events:
        if event.name != "clock.stalled":
            continue
        if not runs or event.at_ns - runs[-1][0].at_ns > STALLS_NS:
            runs.append([])
        runs[-1].append(event)
    return [_stall_entry(run) for run in runs]


def _stall_entry(run: Sequence[Event]) -> Entry:
    worst_ns = max(_nanoseconds(event.fields.get("late_ns")) for event in run)
    others = ", ".join(sorted({event.node for event in run} - {run[0].node}))
    text = f"waited for a processor{f', as did {others}' if others else ''}: {worst_ns / MS:.0f} ms at worst"
    return Entry(at_ns=run[0].at_ns, who=run[0].node, text=text)


def _nanoseconds(value: object) -> int:
    return value if isinstance(value, int) else 0


def _verdict(event: Event) -> Mapping[str, object]:
    """The verdict of a fact, whether it is an object of its own or spread among the fields."""
    nested = event.fields.get("verdict")
    return nested if isinstance(nested, Mapping) else event.fields


def _relays(fields: Mapping[str, object]) -> str:
    relays = _texts(fields.get("relays"))
    return f" (relays {' and '.join(relays)})" if relays else ""


def _layer(number: object) -> str:
    return LAYERS.get(number, str(number)) if isinstance(number, int) else str(number)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


class _Lenient(dict[str, object]):
    """Fills a sentence even where a fact lacks a field: a time line must never fail over a word."""

    def __missing__(self, key: str) -> str:
        return "?"
