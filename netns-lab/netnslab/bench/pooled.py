"""Four sessions through one leader: the leg to the leader dies, and all four see it.

    a --- test0 --- l --- b1 (where the stream ends, and the standby), b2, b3, b4

BIRD has four multihop BFD sessions; b1 announces the stream's destination by a BGP session that follows its own BFD
session, and a static route over the standby takes over when it is gone. Ours has four fresh sessions in one group.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console

from netnslab.bench import faulting, links, report
from netnslab.bench.bird import BfdSession, BfdTimers, Bird, configuration, log_path
from netnslab.bench.detection import PROFILES, OwnDetector, lane_count, wait_watched
from netnslab.bench.faulting import STREAM_HZ, Detector, Seat, Target
from netnslab.bench.figures import MS
from netnslab.bench.links import Lane, LinkKind
from netnslab.bench.rig import PORT, PROBER, Rig, RigPlan, Session
from netnslab.bench.world import World

NAME = "pooled"
TOOLS = ("bird", "ours", "ours-untrusted", "ours-fresh-only")
MULTIPLIER = 3
MEMBERS = ("b1", "b2", "b3", "b4")
LEADER = "l"
COLUMNS = (
    *("interval_ms", "tool", "detected", "rerouted", "detect_ms.p50", "detect_ms.p99", "detect_ms.max"),
    *("outage_ms.p50", "outage_ms.p99", "outage_ms.max", "to_standby_ms.p99"),
    *("outage_p50_to_bird", "outage_p99_to_bird", "trusted"),
)
METHOD = (
    "As the benchmark detection, with a leader between the prober and four nodes; the device to the leader is silenced"
    " in both directions. BIRD detects when its first session goes down, and reroutes when the BGP session that"
    " announces the destination falls with its BFD session. Ours: four fresh sessions in one group, with their four"
    " known-flow controls at the same interval (ours-fresh-only: without); one lane a fault, watched for a minute"
    " before (ours-untrusted: five lanes in turn)."
)
_HOLD_NS = 400 * MS


class BirdStar:
    """Five BIRDs: one here, one on each node behind the leader."""

    def __init__(self, world: World, lane: Lane, interval_ms: int) -> None:
        self._lane = lane
        timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
        self._far = []
        for number, name in enumerate(MEMBERS, 1):
            session = BfdSession(local=address(number, lane), remote=lane.local, device=None)
            text = configuration(log_path(world, name), [session], timers, more=far_protocols(number, lane))
            self._far.append(Bird(world, name, text))
        listed = [
            BfdSession(local=lane.local, remote=address(number, lane), device=None)
            for number in range(1, len(MEMBERS) + 1)
        ]
        self._near = Bird(world, "a", configuration(log_path(world, "a"), listed, timers, more=near_protocols(lane)))
        self._place = world.place("a")

    def aim(self, number: int) -> Target:
        """The one leg."""
        del number
        return Target(name="a", device=self._lane.lowest)

    def is_healthy(self) -> bool:
        """All sessions are Up, and the kernel has the route over the leader."""
        route = self._place.run(["ip", "route", "get", links.SERVICE_REMOTE]).stdout
        return len(self._near.sessions_up()) == len(MEMBERS) and f"dev {self._lane.device}" in route

    def detections_ns(self, wall_offset_ns: int) -> list[int]:
        """From its log."""
        return [change.wall_ns - wall_offset_ns for change in self._near.changes() if change.state == "down"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--trials", type=int, default=25, help="faults for each interval (default 25)")
    parser.add_argument("--intervals", nargs="+", type=int, default=[50], help="milliseconds (default 50)")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--seed", type=int, default=0, help="of the random phases (default 0)")


def run(options: argparse.Namespace) -> dict[str, object]:
    """All intervals that were asked for; returns the document."""
    rng = random.Random(options.seed)
    rows: list[dict[str, object]] = []
    progress = Console(stderr=True, highlight=False)
    for interval_ms in options.intervals:
        progress.print(f"pooled: {interval_ms} ms x {MULTIPLIER}, {options.trials} trials")
        hold_ns = interval_ms * MS * MULTIPLIER * 2 + _HOLD_NS
        with ExitStack() as stack:
            seats = [_seat(stack, tool, interval_ms, trials=options.trials) for tool in options.tools]
            own = {seat.tool: seat.detector for seat in seats if isinstance(seat.detector, OwnDetector)}
            wait_watched(own)
            found = faulting.play(seats, options.trials, interval_ms * MS, hold_ns, rng=rng)
            trusted = {tool: detector.trusted() for tool, detector in own.items()}
        rows += [{"interval_ms": interval_ms, **row, "trusted": trusted.get(str(row["tool"]))} for row in found]
    return report.document(NAME, METHOD, rows, trials=options.trials, multiplier=MULTIPLIER, stream_hz=STREAM_HZ)


def address(number: int, lane: Lane) -> str:
    """The address by which node b`number` is reached over a lane."""
    return f"10.{30 + number}.{lane.index}.2"


def near_protocols(lane: Lane) -> str:
    """BIRD's protocols on the near end: a BGP session for each node, and the standby's static route."""
    numbers = range(1, len(MEMBERS) + 1)
    ways = " ".join(f"route {address(number, lane)}/32 via {lane.remote};" for number in numbers)
    service, source = links.SERVICE_REMOTE, links.SERVICE_LOCAL
    sessions = "".join(
        _bgp(f"b{number}", (lane.local, 65000), (address(number, lane), 65000 + number), "import all; export none;")
        for number in numbers
    )
    export = f"if net != {service}/32 then reject; krt_prefsrc = {source}; accept;"
    return (
        f"protocol kernel {{ ipv4 {{ export filter {{ {export} }}; }}; }}\n"
        f"protocol static ways {{ ipv4; {ways} }}\n"
        f"protocol static standby {{ ipv4 {{ preference 10; }}; route {service}/32 via {links.STANDBY_REMOTE}; }}\n"
        f"{sessions}"
    )


def far_protocols(number: int, lane: Lane) -> str:
    """BIRD's protocols on node b`number`: only b1 announces the destination."""
    own = address(number, lane)
    announced = (
        f"protocol static service {{ ipv4; route {links.SERVICE_REMOTE}/32 blackhole; }}\n" if number == 1 else ""
    )
    return announced + _bgp("near", (own, 65000 + number), (lane.local, 65000), "import none; export all;")


def _bgp(name: str, own: tuple[str, int], other: tuple[str, int], policy: str) -> str:
    hurry = "connect delay time 1; connect retry time 1; error wait time 1, 2;"
    return (
        f"protocol bgp {name} {{ local {own[0]} as {own[1]}; neighbor {other[0]} as {other[1]}; multihop 3; bfd on;"
        f" {hurry} ipv4 {{ {policy} }}; }}\n"
    )


def _seat(stack: ExitStack, tool: str, interval_ms: int, *, trials: int) -> Seat:
    world = stack.enter_context(World(["a", LEADER, *MEMBERS]))
    lanes = [Lane(kind=LinkKind.VETH, index=index) for index in range(lane_count(tool, trials))]
    _build(world, lanes)
    detector: Detector
    if tool == "bird":
        detector = BirdStar(world, lanes[0], interval_ms)
    else:
        detector = _own(world, lanes, interval_ms, has_control=tool != "ours-fresh-only")
    return faulting.take_seat(tool, world, detector, far="b1")


def _build(world: World, lanes: Sequence[Lane]) -> None:
    links.join(
        world,
        ("a", f"{links.STANDBY_LOCAL}/24"),
        ("b1", f"{links.STANDBY_REMOTE}/24"),
        device=links.STANDBY,
    )
    for lane in lanes:
        links.add_lane(world, lane, *lane.ends("a", LEADER))
    for number, name in enumerate(MEMBERS, 1):
        gateway = f"10.{30 + number}.255.1"
        links.join(world, (LEADER, f"{gateway}/16"), (name, f"{address(number, lanes[0])}/16"), device=f"far{number}")
        more = [f"addr add {address(number, lane)}/16 dev far{number}" for lane in lanes[1:]]
        world.place(name).batch("ip", [*more, f"route add default via {gateway}"])
        ways = [f"route add {address(number, lane)}/32 via {lane.remote} dev {lane.device}" for lane in lanes]
        world.place("a").batch("ip", ways)
    world.place("a").batch("ip", [f"addr add {links.SERVICE_LOCAL}/32 dev lo"])
    world.place("b1").batch("ip", [f"addr add {links.SERVICE_REMOTE}/32 dev lo"])
    world.place(LEADER).batch("ip", [f"route add {links.SERVICE_REMOTE}/32 via {address(1, lanes[0])}"])
    back = f"route add {links.SERVICE_LOCAL}/32 via {lanes[0].local} dev {lanes[0].device}"
    world.place(LEADER).batch("ip", [back])
    for number in range(1, len(MEMBERS) + 1):
        links.wait_for_answer(world, "a", address(number, lanes[-1]))


def _own(world: World, lanes: Sequence[Lane], interval_ms: int, *, has_control: bool) -> OwnDetector:
    """A group of sessions for each lane."""
    for name in MEMBERS:
        answering = RigPlan(
            node=name,
            peers=(PROBER,),
            listen=(PORT + 2,),
            profile=PROFILES.get(interval_ms, "default"),
            interval_ns=interval_ms * MS,
        )
        Rig(world, name, answering)
    sessions = tuple(
        Session(
            source=lane.local,
            destination=address(number, lane),
            peer=name,
            is_pinned=is_pinned,
            group=lane.index,
            path=lane.index,
        )
        for lane in lanes
        for is_pinned in ((False, True) if has_control else (False,))
        for number, name in enumerate(MEMBERS, 1)
    )
    return OwnDetector(world, lanes, sessions=sessions, peers=MEMBERS, interval_ms=interval_ms)
