"""Processor time and memory of both ends with many sessions up: BIRD, FRR, ours with fresh flows, ours with known ones.

And the floor under ours: the same packets in Python without an engine (enginerig.floor).

A session is one pair of addresses on one veth. BFD's ends both send; ours probe from one end and are answered by the
other, so that every session costs one packet in each direction an interval in all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from netnslab.bench import bird, links, report
from netnslab.bench.bird import BfdSession, BfdTimers, Bird
from netnslab.bench.figures import MS, ratio
from netnslab.bench.frr import Frr
from netnslab.bench.links import Lane, LinkKind
from netnslab.bench.rig import ANSWERER, PROBER, Rig, RigPlan, answerer, legs
from netnslab.bench.usage import Usage, measure, total_percent
from netnslab.bench.world import World
from netnslab.waiting import pause_until

NAME = "cpu"
TOOLS = ("bird", "frr", "ours-fresh", "ours-known", "floor")
SIZES = ("50x50", "200x50")
MULTIPLIER = 3
COLUMNS = (
    *("sessions", "interval_ms", "tool", "rounds", "cpu_percent.median", "cpu_percent.min", "cpu_percent.max"),
    *("near_percent", "far_percent", "rss_near_kib", "rss_far_kib", "packets_per_s", "up", "to_bird"),
)
METHOD = (
    "utime + stime of both ends' processes (bfdd without zebra) from /proc/PID/stat over the given seconds, in per cent"
    " of one core, all sessions up when it began; median, least and greatest of the rounds. Tools are"
    " taken in turn within a round. Ratio: median of the rounds' ratios to BIRD. RSS: VmRSS at the end. packets_per_s:"
    " probes and answers that ours really exchanged; BFD sends sessions x 2 / interval, less jitter. Ours go from one"
    " address to as many as there are sessions, as a node's do; BIRD and FRR tell sessions apart by the remote address"
    " alone, so theirs have a pair of addresses each. floor: as many known flows, whose packets are signed, sent,"
    " received and verified by the product's functions at both ends, and nothing else."
)
LANE = Lane(kind=LinkKind.VETH)
_SETTLE_S = 2.0
_UNLIMITED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One span of one tool.

    Attributes:
        up: sessions that were up at its end, on the end that had fewer.
    """

    near: Usage
    far: Usage
    up: int
    packets_per_s: float | None = None

    @property
    def percent(self) -> float:
        """Both ends together."""
        return total_percent([self.near, self.far])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--rounds", type=int, default=5, help="of each tool and size (default 5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round (default 20)")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="SESSIONSxMILLISECONDS (default 50x50 200x50)")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))


def run(options: argparse.Namespace) -> dict[str, object]:
    """All sizes that were asked for; returns the document."""
    rows: list[dict[str, object]] = []
    progress = Console(stderr=True, highlight=False)
    for size in options.sizes:
        sessions, interval_ms = map(int, size.split("x"))
        rounds: dict[str, list[Round]] = {tool: [] for tool in options.tools}
        for number in range(options.rounds):
            for tool in options.tools:
                progress.print(f"cpu: {sessions} sessions x {interval_ms} ms, round {number + 1}, {tool}")
                rounds[tool].append(_TAKERS[tool](sessions, interval_ms, options.seconds))
        rows += summarise(sessions, interval_ms, rounds)
    return report.document(NAME, METHOD, rows, rounds=options.rounds, seconds=options.seconds)


def summarise(sessions: int, interval_ms: int, rounds: Mapping[str, Sequence[Round]]) -> list[dict[str, object]]:
    """One row for each tool."""
    reference = [each.percent for each in rounds.get("bird", ())]
    rows = []
    for tool, taken in rounds.items():
        percents = [each.percent for each in taken]
        ratios = [own / other for own, other in zip(percents, reference, strict=False) if other]
        rates = [each.packets_per_s for each in taken if each.packets_per_s is not None]
        rows.append(
            {
                "sessions": sessions,
                "interval_ms": interval_ms,
                "tool": tool,
                "rounds": len(taken),
                "cpu_percent": {
                    "median": round(statistics.median(percents), 2),
                    "min": min(percents),
                    "max": max(percents),
                },
                "near_percent": round(statistics.median(each.near.cpu_percent for each in taken), 2),
                "far_percent": round(statistics.median(each.far.cpu_percent for each in taken), 2),
                "rss_near_kib": max(each.near.rss_kib for each in taken),
                "rss_far_kib": max(each.far.rss_kib for each in taken),
                "up": min(each.up for each in taken),
                "packets_per_s": round(statistics.median(rates)) if rates else None,
                "to_bird": ratio(statistics.median(ratios), 1) if ratios else None,
                "cpu_percent_of_rounds": percents,
            }
        )
    return rows


def _bird(sessions: int, interval_ms: int, seconds: float) -> Round:
    timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
    with World(["a", "b"]) as world:
        near, far = _addressed(world, sessions)
        ends = []
        for name, own, other in (("a", near, far), ("b", far, near)):
            listed = _bfd_sessions(own, other)
            ends.append(Bird(world, name, bird.configuration(bird.log_path(world, name), listed, timers)))
        for end in ends:
            end.wait_up(sessions)
        found = _watch({"near": ends[0].pid, "far": ends[1].pid}, seconds)
        return Round(near=found["near"], far=found["far"], up=min(len(end.sessions_up()) for end in ends))


def _frr(sessions: int, interval_ms: int, seconds: float) -> Round:
    timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
    with World(["a", "b"]) as world:
        near, far = _addressed(world, sessions)
        ends = [Frr(world, "a", _bfd_sessions(near, far), timers), Frr(world, "b", _bfd_sessions(far, near), timers)]
        for end in ends:
            end.wait_up(sessions)
        found = _watch({"near": ends[0].pid, "far": ends[1].pid}, seconds)
        return Round(near=found["near"], far=found["far"], up=min(len(end.sessions_up()) for end in ends))


def _ours(sessions: int, interval_ms: int, seconds: float, *, is_pinned: bool, module: str = "enginerig") -> Round:
    with World(["a", "b"]) as world:
        near, far = _addressed(world, sessions)
        answering = Rig(world, "b", answerer(interval_ms * MS, answers_per_s=_UNLIMITED), module=module)
        plan = RigPlan(
            node=PROBER,
            peers=(ANSWERER,),
            sessions=legs(near[:1] * sessions, far, is_pinned=is_pinned),
            interval_ns=interval_ms * MS,
        )
        probing = Rig(world, "a", plan, module=module)
        probing.wait_up()
        pause_until(time.monotonic_ns() + round(_SETTLE_S * 1e9))
        before = probing.sample()
        found = measure({"near": probing.pid, "far": answering.pid}, seconds=seconds)
        after = probing.sample()
        elapsed_s = (after.at_ns - before.at_ns) / 1e9
        exchanged = sum(
            after.counters.get(name, 0) - before.counters.get(name, 0) for name in ("probes-sent", "replies-received")
        )
        return Round(
            near=found["near"],
            far=found["far"],
            up=after.states.get("up", 0),
            packets_per_s=exchanged / elapsed_s,
        )


_TAKERS: Mapping[str, Callable[[int, int, float], Round]] = {
    "bird": _bird,
    "frr": _frr,
    "ours-fresh": lambda *size: _ours(*size, is_pinned=False),
    "ours-known": lambda *size: _ours(*size, is_pinned=True),
    "floor": lambda *size: _ours(*size, is_pinned=True, module="enginerig.floor"),
}


def _addressed(world: World, sessions: int) -> tuple[list[str], list[str]]:
    links.build(world, "a", "b", [LANE])
    near, far = links.numbered(1, sessions), links.numbered(2, sessions)
    links.add_addresses(world, "a", near)
    links.add_addresses(world, "b", far)
    return near, far


def _bfd_sessions(own: Sequence[str], other: Sequence[str]) -> list[BfdSession]:
    pairs = zip(own, other, strict=True)
    return [BfdSession(local=local, remote=remote, device=LANE.device) for local, remote in pairs]


def _watch(pids: Mapping[str, int], seconds: float) -> dict[str, Usage]:
    pause_until(time.monotonic_ns() + round(_SETTLE_S * 1e9))
    return measure(pids, seconds=seconds)
