"""How soon a silent fault is noticed, and how long traffic is gone: ours, BIRD's BFD and FRR's, side by side.

Each detector has two machines of its own, joined by the link under test and a standby, and a 1 kHz stream from one to
the other. In every trial the link under test is silenced in all worlds, at a random phase. BIRD routes the stream's
destination by a static route that follows its BFD session; ours by a rule; FRR only detects.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from rich.console import Console

from netnslab.bench import faulting, links, report
from netnslab.bench.bird import BfdSession, BfdTimers, Bird, configuration, log_path, rerouting
from netnslab.bench.faulting import STREAM_HZ, Detector, Seat, Target
from netnslab.bench.figures import MS
from netnslab.bench.frr import Frr
from netnslab.bench.links import Lane, LinkKind
from netnslab.bench.rig import ANSWERER, PROBER, Rig, RigPlan, Session, answerer
from netnslab.bench.world import World
from netnslab.waiting import pause_until

NAME = "detection"
TOOLS = ("bird", "frr", "ours", "ours-untrusted", "ours-fresh-only")
UNTRUSTED = "ours-untrusted"
TRUSTED = frozenset({"ours", "ours-fresh-only"})
"""Those that get a lane for each fault."""
TURNS = 5
"""Lanes without trust that are broken in turn: one that is broken each second has used up its bursts, as none outside
has, and a lane for each fault is more than two cores can carry where each has a WireGuard of its own."""
INTERVALS_MS = (20, 50, 100)
MULTIPLIER = 3
COLUMNS = (
    *("link", "interval_ms", "tool", "detected", "detect_ms.p50", "detect_ms.p99", "detect_ms.max"),
    *("outage_ms.p50", "outage_ms.p99", "outage_ms.max", "to_standby_ms.p50", "to_standby_ms.p99"),
    *("detect_p50_to_bird", "detect_p99_to_bird", "trusted"),
)
METHOD = (
    "Detection: from the sending of the first packet of an independent 1 kHz stream that was lost to the daemon's own"
    " record of the change: BIRD's and bfdd's log of the session, ours the verdict of the group. Outage: from the same"
    " instant to the arrival of the next packet. To standby: from detection to the kernel's stamp of the first packet"
    " that came over the standby. All detectors run at the same time in namespaces of their own. Ours: one fresh"
    " session and its known-flow control, both at the interval, answered by a node that does not probe itself; one lane"
    " for each fault, watched for a minute before. ours-untrusted: five lanes, broken in turn, ten seconds after"
    " the start; each fault ends trust. ours-fresh-only: as ours without the control. Percentiles: nearest rank."
)
RESERVE_TABLE, RESERVE_PRIORITY = 7711, 5461
PROFILES = {20: "fast", 50: "default", 100: "default"}
"""The profile whose other timers belong to an interval; at 100 ms only the interval is longer."""
TRUST_NS = 62_000 * MS
"""How long a lane must have been calm before the engine trusts it (core.delay), and some more."""
SETTLED_NS = 10_000 * MS
"""So long after its start an engine has forgotten how slowly answers came while the worlds were built."""
_HOLD_NS = 300 * MS


class BirdDetector:
    """BIRD with a static route that follows its BFD session."""

    def __init__(self, world: World, lane: Lane, interval_ms: int) -> None:
        self._lane = lane
        timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
        near = BfdSession(local=lane.local, remote=lane.remote, device=lane.device)
        far = BfdSession(local=lane.remote, remote=lane.local, device=lane.device)
        routes = rerouting(
            links.SERVICE_REMOTE, via=lane.remote, standby=links.STANDBY_REMOTE, source=links.SERVICE_LOCAL
        )
        Bird(world, "b", configuration(log_path(world, "b"), [far], timers))
        self._bird = Bird(world, "a", configuration(log_path(world, "a"), [near], timers, more=routes))
        self._place = world.place("a")

    def aim(self, number: int) -> Target:
        """The one lane."""
        del number
        return Target(name="a", device=self._lane.lowest)

    def is_healthy(self) -> bool:
        """Its session is Up, and the kernel has the route over the link under test."""
        route = self._place.run(["ip", "route", "get", links.SERVICE_REMOTE]).stdout
        return bool(self._bird.sessions_up()) and f"dev {self._lane.device}" in route

    def detections_ns(self, wall_offset_ns: int) -> list[int]:
        """From its log."""
        return [change.wall_ns - wall_offset_ns for change in self._bird.changes() if change.state == "down"]


class FrrDetector:
    """Two bfdd; no routes."""

    def __init__(self, world: World, lane: Lane, interval_ms: int) -> None:
        self._lane = lane
        timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
        Frr(world, "b", [BfdSession(local=lane.remote, remote=lane.local, device=lane.device)], timers)
        self._frr = Frr(world, "a", [BfdSession(local=lane.local, remote=lane.remote, device=lane.device)], timers)
        world.place("a").batch("ip", [f"route add {over(lane)}"])

    def aim(self, number: int) -> Target:
        """The one lane."""
        del number
        return Target(name="a", device=self._lane.lowest)

    def is_healthy(self) -> bool:
        """Its session is up."""
        return bool(self._frr.sessions_up())

    def detections_ns(self, wall_offset_ns: int) -> list[int]:
        """From its log."""
        return [change.wall_ns - wall_offset_ns for change in self._frr.changes() if change.state == "down"]


class OwnDetector:
    """The product's engine with a leg for each lane, and a rule that diverts while one is condemned.

    Args:
        world: whose place "a" probes; those who answer are there already.
        lanes: one for each fault, or one for all.
        sessions: of all lanes, each with its lane's number for group and path.
        peers: the nodes they lead to.
        interval_ms: of each session.

    Attributes:
        began_ns: since when all lanes are watched.
    """

    def __init__(
        self,
        world: World,
        lanes: Sequence[Lane],
        *,
        sessions: tuple[Session, ...],
        peers: tuple[str, ...],
        interval_ms: int,
    ) -> None:
        self._lanes = lanes
        self._place = world.place("a")
        standby = f"via {links.STANDBY_REMOTE} dev {links.STANDBY} src {links.SERVICE_LOCAL}"
        lines = [f"route add {links.SERVICE_REMOTE}/32 {standby} table {RESERVE_TABLE}"]
        self._place.batch("ip", [f"route add {over(lanes[0])}", *lines])
        plan = RigPlan(
            node=PROBER,
            peers=peers,
            sessions=sessions,
            profile=PROFILES.get(interval_ms, "default"),
            interval_ns=interval_ms * MS,
            switch={"priority": RESERVE_PRIORITY, "table": RESERVE_TABLE},
        )
        self._rig = Rig(world, "a", plan)
        self._rig.wait_up()
        self.began_ns = time.monotonic_ns()

    def aim(self, number: int) -> Target:
        """The next lane; traffic is sent over it first."""
        lane = self._lanes[number % len(self._lanes)]
        self._place.batch("ip", [f"route replace {over(lane)}"])
        return Target(name="a", device=lane.lowest)

    def is_healthy(self) -> bool:
        """No leg is condemned."""
        return not self._rig.is_down()

    def detections_ns(self, wall_offset_ns: int) -> list[int]:
        """The verdicts."""
        del wall_offset_ns
        return [each.at_ns for each in self._rig.events() if each.event == "down"]

    def trusted(self) -> int:
        """Verdicts that were passed on trusted lanes."""
        return sum(each.is_trusted for each in self._rig.events() if each.event == "down")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    kinds = [str(kind) for kind in LinkKind]
    parser.add_argument("--trials", type=int, default=25, help="faults for each link and interval (default 25)")
    parser.add_argument("--links", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--intervals", nargs="+", type=int, default=list(INTERVALS_MS), help="milliseconds")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--seed", type=int, default=0, help="of the random phases (default 0)")


def run(options: argparse.Namespace) -> dict[str, object]:
    """All links and intervals that were asked for; returns the document."""
    rng = random.Random(options.seed)
    rows: list[dict[str, object]] = []
    progress = Console(stderr=True, highlight=False)
    for kind in map(LinkKind, options.links):
        for interval_ms in options.intervals:
            progress.print(f"detection: {kind}, {interval_ms} ms x {MULTIPLIER}, {options.trials} trials")
            rows += _play(kind, interval_ms, options, rng)
    return report.document(NAME, METHOD, rows, trials=options.trials, multiplier=MULTIPLIER, stream_hz=STREAM_HZ)


def _play(kind: LinkKind, interval_ms: int, options: argparse.Namespace, rng: random.Random) -> list[dict[str, object]]:
    hold_ns = interval_ms * MS * MULTIPLIER * 2 + _HOLD_NS
    with ExitStack() as stack:
        seats = [_seat(stack, tool, kind, interval_ms, trials=options.trials) for tool in options.tools]
        own = {seat.tool: seat.detector for seat in seats if isinstance(seat.detector, OwnDetector)}
        wait_watched(own)
        rows = faulting.play(seats, options.trials, interval_ms * MS, hold_ns, rng=rng)
        trusted = {tool: detector.trusted() for tool, detector in own.items()}
    return [
        {"link": str(kind), "interval_ms": interval_ms, **row, "trusted": trusted.get(str(row["tool"]))} for row in rows
    ]


def _seat(stack: ExitStack, tool: str, kind: LinkKind, interval_ms: int, *, trials: int) -> Seat:
    world = stack.enter_context(World(["a", "b"]))
    lanes = [Lane(kind=kind, index=index) for index in range(lane_count(tool, trials))]
    links.build(world, "a", "b", lanes)
    detector: Detector
    if tool == "bird":
        detector = BirdDetector(world, lanes[0], interval_ms)
    elif tool == "frr":
        detector = FrrDetector(world, lanes[0], interval_ms)
    else:
        detector = _own(world, lanes, interval_ms, has_control=tool != "ours-fresh-only")
    return faulting.take_seat(tool, world, detector)


def wait_watched(own: Mapping[str, OwnDetector]) -> None:
    """Wait until the lanes of each of these tools have been watched for as long as it takes."""
    for tool, detector in own.items():
        pause_until(detector.began_ns + (TRUST_NS if tool in TRUSTED else SETTLED_NS))


def lane_count(tool: str, trials: int) -> int:
    """How many lanes a tool gets for so many faults."""
    if tool in TRUSTED:
        return trials
    return TURNS if tool == UNTRUSTED else 1


def _own(world: World, lanes: Sequence[Lane], interval_ms: int, *, has_control: bool) -> OwnDetector:
    sessions = tuple(
        Session(source=lane.local, destination=lane.remote, is_pinned=is_pinned, group=lane.index, path=lane.index)
        for lane in lanes
        for is_pinned in ((False, True) if has_control else (False,))
    )
    Rig(world, "b", answerer(interval_ms * MS, profile=PROFILES.get(interval_ms, "default")))
    return OwnDetector(world, lanes, sessions=sessions, peers=(ANSWERER,), interval_ms=interval_ms)


def over(lane: Lane) -> str:
    """The stream's route over a lane."""
    return f"{links.SERVICE_REMOTE}/32 via {lane.remote} dev {lane.device} src {links.SERVICE_LOCAL}"
