"""The history: each incident of this node, read back from its events.

A pure function of event lines, so that the daemon, a bundle on another machine and a stopped node's state directory
give the same answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from meshwatchd.adapters.control.explain import tell
from meshwatchd.adapters.control.incidents import Incident, Step
from meshwatchd.core.operators.incidents import LEAD_NS, Outage, instant
from meshwatchd.model.faults import FaultCode, Severity

MAX_INCIDENTS = 200
"""The latest are listed; with the event files' bounds that is months of a quiet mesh."""
MAX_EVENTS = 1000
"""Of one incident: a path that flaps for a night has more, and the first ones tell the story."""

Event = Mapping[str, object]

_SEVERITIES = (Severity.OK.value, Severity.WARNING.value, Severity.CRITICAL.value)
_JUDGEMENTS = ("verdict.changed", "fault.raised", "fault.cleared")
_ENDS = ("verdict.changed", "fault.cleared", "failback.applied")
"""Kept of a longer incident as well."""


def read_incidents(lines: Iterable[Event], number: int | None = None) -> tuple[Incident, ...]:
    """The incidents of a history.

    Args:
        lines: events in their order, as kept; those without a number count where they led to an incident.
        number: the only one wanted, with its events.
    """
    drafts: dict[int, list[Event]] = {}
    lead: deque[Event] = deque(maxlen=64)
    boot: object = None
    for line in lines:
        boot = line.get("boot")
        of = line.get("incident")
        if line.get("event") == "daemon.started":
            # Sessions of an earlier engine lead to nothing that this one finds.
            lead.clear()
            _cut(drafts, line)
        elif not isinstance(of, int):
            lead.append(line)
        elif number in (None, of):
            if of not in drafts:
                drafts[of] = [{**each, "incident": of} for each in lead if _leads_to(each, line)]
                if len(drafts) > MAX_INCIDENTS:
                    del drafts[next(iter(drafts))]
            if len(drafts[of]) < MAX_EVENTS or line.get("event") in _ENDS:
                drafts[of].append(line)
    made = (_incident(of, draft, boot, is_whole=number is not None) for of, draft in drafts.items())
    return tuple(each for each in made if each is not None)


def _cut(drafts: Mapping[int, list[Event]], start: Event) -> None:
    """Put the start of an engine into the incidents that it ends."""
    for of, draft in drafts.items():
        is_same_boot = draft[-1].get("boot") == start.get("boot")
        last = next((line for line in reversed(draft) if line.get("event") in (*_JUDGEMENTS, "daemon.started")), None)
        if is_same_boot and last is not None and _severity(last):
            draft.append({**start, "incident": of})


def _leads_to(line: Event, first: Event) -> bool:
    """Sessions that fell, and moves that this node followed before it had a verdict of its own."""
    is_near = line.get("boot") == first.get("boot") and 0 <= instant(first) - instant(line) <= LEAD_NS
    return is_near and line.get("pair", first.get("pair")) == first.get("pair")


def _incident(number: int, lines: Sequence[Event], boot: object, *, is_whole: bool) -> Incident | None:
    judged = [line for line in lines if line.get("event") in (*_JUDGEMENTS, "daemon.started")]
    broken = [line for line in judged if _severity(line)]
    if not broken:
        return None
    worst = max(broken, key=lambda line: (line.get("fault") != FaultCode.UNDETERMINED, _severity(line)))
    first, last = broken[0], judged[-1]
    has_ended = not _severity(last)
    is_over = has_ended or last.get("boot") != boot
    is_end_seen = has_ended and last.get("event") != "daemon.started"
    until = last if has_ended else lines[-1]
    return Incident(
        number=number,
        observer=str(first.get("node", "")),
        location=str(first.get("location", "")),
        fault=str(worst.get("fault", "")),
        severity=_SEVERITIES[max(map(_severity, broken))],
        layer=str(worst.get("layer", "")),
        culprit=str(worst.get("culprit", "")),
        direction=str(worst.get("direction", "unknown")),
        began=str(first.get("time", "")),
        ended=str(last.get("time", "")) if is_end_seen else "",
        is_over=is_over,
        duration_ns=max(0, instant(until) - instant(first)),
        outage_ns=_outage(lines, instant(until)),
        because=_sentences(worst.get("because")),
        steps=tuple(_steps(lines)),
        events=tuple(dict(line) for line in lines) if is_whole else (),
    )


def _severity(line: Event) -> int:
    severity = line.get("severity")
    return _SEVERITIES.index(severity) if isinstance(severity, str) and severity in _SEVERITIES else 0


def _outage(lines: Iterable[Event], until_ns: int) -> int | None:
    outage = Outage()
    for line in lines:
        outage.take(line)
    return outage.lost_ns(until_ns) or None


def _steps(lines: Iterable[Event]) -> Iterator[Step]:
    for line in lines:
        text = tell(line)
        if text is not None:
            yield Step(time=str(line.get("time", "")), text=text)


def _sentences(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()
