"""Trials: a fault comes, is noticed or not, and goes, for several detectors side by side.

The worlds of one benchmark are independent of each other, and a fault is put into all of them one after the other
within some milliseconds: what is compared has the same load, and the waiting is done once.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from netnslab.bench import links
from netnslab.bench.daemon_log import wall_offset_ns
from netnslab.bench.figures import MS, ratio, spread
from netnslab.bench.stream_records import StreamOutage, StreamRecords
from netnslab.bench.world import Child, World
from netnslab.process import put_first
from netnslab.waiting import pause_until, wait_until

STREAM_HZ = 1000
HEALTHY_TIMEOUT_S = 60.0
_SETTLE_NS = 300 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a fault strikes: a device of a machine."""

    name: str
    device: str


class Detector(Protocol):
    """One tool on the machines of its world."""

    def aim(self, number: int) -> Target:
        """Get ready for trial `number` (from 0) and say what to break; the tool is healthy."""
        ...

    def is_healthy(self) -> bool:
        """Whether its sessions are up and traffic takes the link under test."""
        ...

    def detections_ns(self, wall_offset_ns: int) -> list[int]:
        """Every instant at which it found its link dead (CLOCK_MONOTONIC)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One fault.

    Attributes:
        before_ns, after_ns: around the nftables transaction that brought it.
        healed_ns: before the one that took it away.
        wall_offset_ns: wall clock minus CLOCK_MONOTONIC at the time.
    """

    before_ns: int
    after_ns: int
    healed_ns: int
    wall_offset_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One trial of one tool; `began_ns` is when the fault struck."""

    detected_ns: int | None
    outage: StreamOutage | None
    began_ns: int


class Stream:
    """A stream of packets between two machines of a world, from its making until it is read.

    Args:
        near, far: machine and address of the sender and of the receiver.
    """

    def __init__(self, world: World, near: tuple[str, str], far: tuple[str, str], *, rate: int = STREAM_HZ) -> None:
        self._sent = world.directory / f"{near[0]}-sent.bin"
        self._arrived = world.directory / f"{far[0]}-arrived.bin"
        command = [sys.executable, "-m", "netnslab.bench.stream"]
        receiving = [*command, "receive", "--address", far[1], "--output", str(self._arrived)]
        sending = [*command, "send", "--source", near[1], "--address", far[1], "--rate", str(rate)]
        self._receiver = _start_first(world, far[0], receiving)
        self._sender = _start_first(world, near[0], [*sending, "--output", str(self._sent)])

    def read(self) -> StreamRecords:
        """End both processes and read what they saw."""
        for child in (self._sender, self._receiver):
            child.end()
        return StreamRecords.read(self._sent, self._arrived)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One tool at work in its world.

    Attributes:
        standby: interface number of the standby where the stream ends.
    """

    tool: str
    world: World
    detector: Detector
    stream: Stream
    standby: int


def take_seat(tool: str, world: World, detector: Detector, *, near: str = "a", far: str = "b") -> Seat:
    """Wait for a tool to be healthy and start the stream between two machines of its world."""
    wait_until(detector.is_healthy, timeout_s=HEALTHY_TIMEOUT_S, what=f"{tool} to be ready", poll_s=0.1)
    stream = Stream(world, (near, links.SERVICE_LOCAL), (far, links.SERVICE_REMOTE))
    return Seat(
        tool=tool,
        world=world,
        detector=detector,
        stream=stream,
        standby=interface_index(world, far, links.STANDBY),
    )


def play(
    seats: Sequence[Seat], count: int, interval_ns: int, hold_ns: int, *, rng: random.Random
) -> list[dict[str, object]]:
    """Put `count` faults into all worlds at random phases; one row of figures for each tool.

    Args:
        seats: the tools.
        count: of faults.
        interval_ns: the period that the phase of a fault is drawn from.
        hold_ns: how long a fault lasts.
        rng: of the phases.
    """
    trials = [_try(seats, number, interval_ns, hold_ns, rng=rng) for number in range(count)]
    rows = []
    for seat in seats:
        judged = _judge(seat, [trial[seat.tool] for trial in trials])
        rows.append({"tool": seat.tool, **summary(judged, standby=seat.standby)})
    return compare(rows)


def summary(judged: Sequence[Judged], *, standby: int) -> dict[str, object]:
    """The figures of one tool; outages only where the stream came back over the standby.

    Args:
        judged: its trials.
        standby: interface number of the standby at the stream's end.
    """
    detections = [each.detected_ns - each.began_ns for each in judged if each.detected_ns is not None]
    rerouted = [
        (each.detected_ns, each.outage)
        for each in judged
        if each.outage is not None and each.outage.interface == standby and each.outage.first_ns is not None
    ]
    outages = [outage.duration_ns for _at, outage in rerouted if outage.duration_ns is not None]
    to_standby = [
        outage.first_ns - detected_ns
        for detected_ns, outage in rerouted
        if detected_ns is not None and outage.first_ns is not None
    ]
    return {
        "trials": len(judged),
        "detected": len(detections),
        "rerouted": len(rerouted),
        "detect_ms": spread(detections, unit=MS),
        "outage_ms": spread(outages, unit=MS),
        "to_standby_ms": spread(to_standby, unit=MS),
    }


def compare(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Add to each row its times as multiples of BIRD's in the same run."""
    bird = next((row for row in rows if row["tool"] == "bird"), None)
    for row in rows if bird is not None else ():
        for figure in ("detect", "outage"):
            for rank in ("p50", "p99"):
                row[f"{figure}_{rank}_to_bird"] = ratio(_figure(row, figure, rank), _figure(bird, figure, rank))
    return list(rows)


def first_after(instants: Sequence[int], trial: Trial) -> int | None:
    """The first of some instants that lies between the fault and its end."""
    return min((at_ns for at_ns in instants if trial.before_ns <= at_ns < trial.healed_ns), default=None)


def interface_index(world: World, name: str, device: str) -> int:
    """The number of a device on a machine."""
    path = Path("/sys/class/net", device, "ifindex")
    return int(world.place(name).space.call(path.read_text))


def _try(seats: Sequence[Seat], number: int, interval_ns: int, hold_ns: int, *, rng: random.Random) -> dict[str, Trial]:
    """One fault in all worlds, each with its own instants."""
    for seat in seats:
        is_healthy, what = seat.detector.is_healthy, f"{seat.tool} to recover"
        wait_until(is_healthy, timeout_s=HEALTHY_TIMEOUT_S, what=what, poll_s=0.1)
    targets = {seat.tool: seat.detector.aim(number) for seat in seats}
    pause_until(time.monotonic_ns() + _SETTLE_NS + rng.randrange(interval_ns * 2))
    instants = {}
    for seat in seats:
        target = targets[seat.tool]
        before_ns = time.monotonic_ns()
        links.silence(seat.world, target.name, target.device)
        instants[seat.tool] = before_ns, time.monotonic_ns()
    pause_until(time.monotonic_ns() + hold_ns)
    offset_ns, healed_ns = wall_offset_ns(), time.monotonic_ns()
    for seat in seats:
        links.heal(seat.world, targets[seat.tool].name)
    return {
        tool: Trial(before_ns=before_ns, after_ns=after_ns, healed_ns=healed_ns, wall_offset_ns=offset_ns)
        for tool, (before_ns, after_ns) in instants.items()
    }


def _judge(seat: Seat, trials: Sequence[Trial]) -> list[Judged]:
    records = seat.stream.read()
    judged = []
    for trial in trials:
        outage = records.outage(trial.before_ns, trial.healed_ns)
        began_ns = (trial.before_ns + trial.after_ns) // 2 if outage is None else outage.began_ns
        detected = first_after(seat.detector.detections_ns(trial.wall_offset_ns), trial)
        judged.append(Judged(detected_ns=detected, outage=outage, began_ns=began_ns))
    return judged


def _figure(row: Mapping[str, object] | None, figure: str, rank: str) -> float | None:
    figures = row[f"{figure}_ms"] if row is not None else None
    value = figures[rank] if isinstance(figures, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _start_first(world: World, name: str, argv: list[str]) -> Child:
    child = world.start(name, argv)
    put_first(child.pid)
    return child
