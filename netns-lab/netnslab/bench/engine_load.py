"""What lateness, flood, busy and scale have in common: a probing rig, an answering rig, and what a span cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from netnslab.bench import cpu, links, rig
from netnslab.bench.figures import MS, US, difference, histogram_percentile, scaled
from netnslab.bench.rig import ANSWERER, PROBER, Rig, RigPlan, Sample, answerer, legs
from netnslab.bench.usage import Usage, measure
from netnslab.bench.world import World

UNLIMITED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A probing rig on machine a and the rig on machine b that answers it."""

    world: World
    probing: Rig
    answering: Rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What happened to a pair over some seconds."""

    before: Sample
    after: Sample
    near: Usage
    far: Usage


@contextmanager
def pair(sessions: int, interval_ms: int, *, is_realtime: bool = True, is_pinned: bool = False) -> Iterator[Pair]:
    """Two machines with so many sessions up between them, four to a leg."""
    with World(["a", "b"]) as world:
        links.build(world, "a", "b", [cpu.LANE])
        near, far = links.numbered(1, sessions), links.numbered(2, sessions)
        links.add_addresses(world, "a", near)
        links.add_addresses(world, "b", far)
        answering = Rig(world, "b", answerer(interval_ms * MS, answers_per_s=UNLIMITED))
        plan = RigPlan(
            node=PROBER,
            peers=(ANSWERER,),
            sessions=legs(near[:1] * sessions, far, is_pinned=is_pinned),
            interval_ns=interval_ms * MS,
            is_realtime=is_realtime,
        )
        probing = Rig(world, "a", plan)
        probing.wait_up()
        yield Pair(world=world, probing=probing, answering=answering)


def watch(both: Pair, seconds: float) -> Span:
    """Let some seconds pass."""
    before = both.probing.sample()
    found = measure({"near": both.probing.pid, "far": both.answering.pid}, seconds=seconds)
    return Span(before=before, after=both.probing.sample(), near=found["near"], far=found["far"])


def lateness(span: Span) -> Mapping[str, Mapping[str, float | None]]:
    """Percentiles of a span in microseconds (resolution 10): of waking up, and of the departure of each turn's last."""
    counts = (
        ("wakeup_us", span.before.wakeups, span.after.wakeups, span.after.wakeups_max_ns),
        ("departure_us", span.before.departures, span.after.departures, span.after.departures_max_ns),
    )
    found = {}
    for name, before, after, max_ns in counts:
        gained = difference(after, before)
        ranks = {
            f"p{percent}": scaled(histogram_percentile(gained, percent), unit=US, digits=0) for percent in (50, 99)
        }
        found[name] = {**ranks, "max": scaled(max_ns, unit=US, digits=0)}
    return found


def verdicts(both: Pair, since_ns: int = 0) -> int:
    """How many times a leg was condemned."""
    return sum(each.event == "down" and each.at_ns >= since_ns for each in both.probing.events())


def stalls(both: Pair, since_ns: int = 0) -> int:
    """How many times the loop was so late that it took itself for stopped."""
    return sum(each.event == "stalled" and each.at_ns >= since_ns for each in both.probing.events())


def gained(span: Span, counter: str) -> int:
    """What a counter of the probing rig grew by."""
    return span.after.counters.get(counter, 0) - span.before.counters.get(counter, 0)


PORT = rig.PORT + 2
"""Where both rigs listen."""
