"""The healthy mesh: daemons at default settings, pod traffic, no fault. Whatever is said of it is said for nothing.

Neighbours age, WireGuard takes new keys every two minutes, and whoever else works on this machine takes its processors:
none of it is a fault. That keys were taken and entries aged is looked after as well (`diagnosis_ageing`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from netnslab.daemons import Daemons, Event
from netnslab.diagnosis_ageing import LOOK_S, Ageing, Look, age, look
from netnslab.diagnosis_cells import traffic_pairs
from netnslab.diagnosis_report import CALM
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.machine import commit_facts, machine_facts
from netnslab.traffic_source import Traffic
from netnslab.waiting import pause_until

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
READY_TIMEOUT_S = 180.0
RATE = 40

LIVED_MINUTES = 5.0
"""In so long a time every tunnel has taken new keys twice."""

BLAMES = ("verdict.changed", "fault.raised")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """One thing that was said of a mesh that is well.

    Attributes:
        after_s: since everybody was ready.
        because: the daemon's own sentences.
    """

    node: str
    event: str
    fault: str
    culprit: str
    after_s: float
    because: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """How one topology kept silent.

    Attributes:
        stalls: how often a daemon was not run for long enough to say so; what was said then is no less wrong.
        ageing: what the kernels went through meanwhile.
    """

    topology: str
    minutes: float
    blames: Sequence[Blame]
    stalls: int
    ageing: Ageing


def watch_calm(topologies: Iterable[str], minutes: float, *, backend: str, output: Path) -> int:
    """Watch each topology for so long.

    Returns:
        0 when nothing was said, 1 when something was, or when the mesh has not lived while it was watched for so long
        that it must have; 2 on failure.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    watched: list[Calm] = []
    try:
        for topology in topologies:
            watched.append(_watch(topology, minutes, backend, output.resolve().parent / "calm" / topology))
            print(_line(watched[-1]), flush=True)
    except LabError as error:
        print(f"bench-diagnosis: {error}", file=sys.stderr)
        return 2
    finally:
        if watched:
            _write(watched, output)
    is_long = minutes >= LIVED_MINUTES
    return 1 if any(each.blames or (is_long and not each.ageing.is_shown) for each in watched) else 0


def _watch(topology: str, minutes: float, backend: str, directory: Path) -> Calm:
    with (
        Lab.up(topology, backend=backend) as lab,
        Daemons(lab, directory) as daemons,
        Traffic(lab, directory, pairs=traffic_pairs(lab.topology), rate=RATE) as traffic,
    ):
        daemons.wait_ready(timeout_s=READY_TIMEOUT_S)
        traffic.wait_flowing()
        since_ns = time.monotonic_ns()
        looks: list[Sequence[Look]] = []
        for at_ns in range(since_ns, since_ns + round(minutes * MINUTE), round(LOOK_S * SECOND)):
            pause_until(at_ns)
            looks.append(look(lab))
        pause_until(since_ns + round(minutes * MINUTE))
        events = daemons.events(since_ns=since_ns)
    stalls = sum(int(str(event.fields.get("count", 1))) for event in events if event.name == "clock.stalled")
    return Calm(topology=topology, minutes=minutes, blames=blames(events, since_ns), stalls=stalls, ageing=age(looks))


def blames(events: Iterable[Event], since_ns: int) -> tuple[Blame, ...]:
    """Every verdict but the one that all is well, and every finding, in the order they were said."""
    return tuple(
        Blame(
            node=event.node,
            event=event.name,
            fault=str(event.fields.get("fault", "")),
            culprit=str(event.fields.get("culprit", "")),
            after_s=(event.at_ns - since_ns) / 1e9,
            because=[str(each) for each in _sentences(event.fields.get("because"))],
        )
        for event in sorted(events, key=lambda each: each.at_ns)
        if event.name in BLAMES and event.fields.get("fault") != CALM
    )


def _sentences(told: object) -> Sequence[object]:
    return told if isinstance(told, list) else ()


def _line(calm: Calm) -> str:
    said = ", ".join(sorted({each.fault for each in calm.blames})) or "nothing"
    return (
        f"{calm.topology}: healthy for {calm.minutes:g} min, {len(calm.blames)} verdicts and findings ({said}),"
        f" {calm.stalls} stalls; {len(calm.ageing.handshakes)} peers shook hands {_span(calm.ageing)} times,"
        f" {calm.ageing.stale} neighbour entries went stale, {calm.ageing.renewed} were renewed"
    )


def _span(ageing: Ageing) -> str:
    counts = sorted(ageing.handshakes.values()) or [0]
    return f"{counts[0]} to {counts[-1]}"


def _write(watched: Sequence[Calm], path: Path) -> None:
    document = {
        "benchmark": "diagnosis of a healthy mesh",
        "method": (__doc__ or "").strip(),
        "commit": commit_facts(),
        "machine": machine_facts(),
        "topologies": [asdict(each) | {"is_ageing_shown": each.ageing.is_shown} for each in watched],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
