"""The product's probe engine as a process of a world: see the package `enginerig`, which the lab does not import."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from netnslab.bench.world import Child, World
from netnslab.errors import LabError
from netnslab.waiting import wait_until

PORT = 18618
"""Base of the probe ports: +2 belongs to the first path."""
SECRET_HEX = bytes(range(32)).hex()
PROBER, ANSWERER = "a1", "b1"
OPTIONS = ("-P", "-X", "no_debug_ranges")
"""As the daemon starts its engine."""
MEMBERS = 4
"""Sessions that share a leg."""
UP_TIMEOUT_S = 60.0
_SAMPLE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session to run (enginerig.config.RigSession)."""

    source: str
    destination: str
    group: int = 0
    is_pinned: bool = False
    peer: str = ANSWERER
    path: int = 0
    port: int = PORT + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RigPlan:
    """What a rig is to do (enginerig.config.RigConfig, which says what each entry means)."""

    node: str
    peers: tuple[str, ...]
    sessions: tuple[Session, ...] = ()
    listen: tuple[int, ...] = ()
    profile: str = "default"
    interval_ns: int = 0
    identities: tuple[tuple[str, int], ...] = ()
    answers_per_s: int = 0
    is_realtime: bool = True
    switch: Mapping[str, int] | None = None


class RigEvent(msgspec.Struct, frozen=True):
    """One line of the rig's events; `at_ns` is CLOCK_MONOTONIC."""

    event: str
    at_ns: int
    group: int = 0
    late_ns: int = 0
    is_trusted: bool = False


class Sample(msgspec.Struct, frozen=True):
    """The counters of a rig at an instant (enginerig.notes).

    Attributes:
        departures, wakeups: histograms of lateness since the start, by the upper ends of their buckets (ns).
        departures_max_ns, wakeups_max_ns: the greatest since the last sample.
    """

    at_ns: int
    cpu_ns: int
    counters: dict[str, int]
    states: dict[str, int]
    departures: dict[int, int]
    departures_max_ns: int
    wakeups: dict[int, int]
    wakeups_max_ns: int


@dataclass(slots=True)
class Rig:
    """One running rig.

    Args:
        prefix: put before the command, such as `taskset -c 0`.
        module: what runs: the engine, or `enginerig.floor`.
    """

    world: World
    name: str
    plan: RigPlan
    prefix: Sequence[str] = ()
    module: str = "enginerig"
    child: Child = field(init=False)

    def __post_init__(self) -> None:
        """Start it."""
        document = {**asdict(self.plan), "secret_hex": SECRET_HEX}
        document |= {"events": str(self._events), "samples": str(self._samples)}
        path = self.world.directory / f"{self.name}-rig.json"
        path.write_text(json.dumps(document), encoding="ascii")
        command = [*self.prefix, sys.executable, *OPTIONS, "-m", self.module, str(path)]
        self.child = self.world.start(self.name, command)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def events(self) -> list[RigEvent]:
        """Everything it has told so far."""
        if self.child.status is not None:
            raise LabError(f"the rig on {self.name} ended with {self.child.status}")
        if not self._events.exists():
            return []
        lines = self._events.read_bytes().splitlines(keepends=True)
        return [msgspec.json.decode(line, type=RigEvent) for line in lines if line.endswith(b"\n")]

    def wait_up(self, *, timeout_s: float = UP_TIMEOUT_S) -> None:
        """Wait until every session has been answered often enough to be up."""
        wait_until(
            lambda: "all-up" in {each.event for each in self.events()},
            timeout_s=timeout_s,
            what=f"all sessions of the rig on {self.name}",
            poll_s=0.1,
        )

    def is_down(self) -> bool:
        """Whether a leg is condemned."""
        condemned: set[int] = set()
        for each in self.events():
            if each.event == "down":
                condemned.add(each.group)
            elif each.event == "up":
                condemned.discard(each.group)
        return bool(condemned)

    def sample(self) -> Sample:
        """Its counters of this moment."""
        self._samples.unlink(missing_ok=True)
        ask = os.open(f"{self._samples}.ask", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(ask, b"?")
        os.close(ask)
        wait_until(self._samples.exists, timeout_s=_SAMPLE_TIMEOUT_S, what=f"a sample of {self.name}", poll_s=0.01)
        return msgspec.json.decode(self._samples.read_bytes(), type=Sample, strict=False)

    @property
    def _events(self) -> Path:
        return self.world.directory / f"{self.name}-rig.jsonl"

    @property
    def _samples(self) -> Path:
        return self.world.directory / f"{self.name}-rig.sample"


def legs(sources: Sequence[str], destinations: Sequence[str], *, is_pinned: bool) -> tuple[Session, ...]:
    """One session for each pair of addresses, MEMBERS of them to a leg."""
    return tuple(
        Session(
            source=source,
            destination=destination,
            group=index // MEMBERS,
            path=index // MEMBERS % 250,
            is_pinned=is_pinned,
        )
        for index, (source, destination) in enumerate(zip(sources, destinations, strict=True))
    )


def answerer(interval_ns: int, *, profile: str = "default", answers_per_s: int = 0) -> RigPlan:
    """A node that only answers, with the timers of the nodes that ask it."""
    return RigPlan(
        node=ANSWERER,
        peers=(PROBER,),
        listen=(PORT + 2,),
        profile=profile,
        interval_ns=interval_ns,
        answers_per_s=answers_per_s,
    )
