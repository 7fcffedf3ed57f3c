"""How long it takes from a fault to the first relay that condemns the path, and to both sides on another one.

    python -m tests.sim.detection --seeds 24

Prints JSON for a pair at rest and for one that is awake, as one is after any trouble: milliseconds of virtual time, by
fault, over so many seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from meshwatchd.core.session.rtt_estimator import TRUSTED_AFTER_NS
from meshwatchd.model.settings import MINUTE, MS, SECOND
from tests.sim.clones import Frozen
from tests.sim.faults import Fault, FlowTable, broken_buckets, dead
from tests.sim.healthy import healthy_world
from tests.sim.world import World
from tests.support.lab_mesh import NAMES

RELAYS = ("a1", "a2", "b1", "b2")
LIMIT_NS = 5 * SECOND
OBSERVED_NS = 5 * SECOND
WARMED_UP = 6
"""Worlds that differ from the start; those of further seeds go on from one of them with other chances."""


class Times(NamedTuple):
    """From the fault on, in nanoseconds; LIMIT_NS for what did not happen."""

    condemned: int
    moved: int


def after(world: World, fault: Fault | None = None, *, but: str = "") -> Times:
    """Let a fault begin, and wait for what the daemons do about it, but for one that cannot do anything."""
    began = world.now
    if fault is not None:
        world.faults.append(fault)
    world.run_until(lambda: any(_condemns(world, name) for name in RELAYS if name != but), limit_ns=LIMIT_NS)
    condemned = world.now - began
    world.run_until(lambda: any(world.are_on(rank, but=but) for rank in (1, 2, 3)), limit_ns=LIMIT_NS)
    return Times(condemned, min(world.now - began, LIMIT_NS))


def quantile(values: list[int], share: float) -> int:
    """The smallest value that so large a share does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def trusted_world(*, seed: int) -> World:
    """A healthy world whose processes have watched their legs for more than a minute, without running that minute."""
    return _trusted(seed % WARMED_UP).copy(seed)


@cache
def _trusted(seed: int) -> Frozen[World]:
    world = healthy_world(seed=seed)
    for name in NAMES:
        for session in world.nodes[name].engine.state.schedule.sessions:
            session.delay._calm_since = world.now - TRUSTED_AFTER_NS
    world.run(500 * MS)
    return Frozen(world)


def wake(world: World) -> None:
    """Have everybody look closely, as after any trouble."""
    for node in world.nodes.values():
        node.controller.attention.alarm(world.now)


def new_flows(seed: int, *, memory_min: int, probed_min: int, is_awake: bool = False) -> Times:
    """After so many minutes of probing at rest a table at b1 stops learning, which remembers for so many."""
    world = trusted_world(seed=seed)
    table = FlowTable("b1", memory_min * MINUTE, lambda: world.now)
    world.faults.append(table)
    if is_awake:
        wake(world)
    world.run(SECOND)
    table.prefill(rates(), probed_min * MINUTE, world.rng)
    world.run(seed * 7 * MS)
    table.is_broken = True
    return after(world)


@cache
def rates() -> dict[str, float]:
    """New outer flows a second between b1 and each node of its location, as the schedule makes them in health."""
    world = healthy_world(seed=1)
    table = FlowTable("b1", 60 * MINUTE, lambda: world.now, ports=1 << 62)
    world.faults.append(table)
    world.run(OBSERVED_NS)
    before = table.flows()
    world.run(OBSERVED_NS)
    return {peer: (flows - before[peer]) * SECOND / OBSERVED_NS for peer, flows in table.flows().items()}


def _condemns(world: World, name: str) -> bool:
    controller = world.nodes[name].controller
    return controller.watch.group(controller.watch.primary).is_down


def _other(seed: int, *, fault: Callable[[str], Fault], but: str, is_awake: bool) -> Times:
    world = trusted_world(seed=seed)
    if is_awake:
        wake(world)
    world.run(SECOND + seed * 7 * MS)
    return after(world, fault("b1"), but=but)


TRIALS: dict[str, Callable[..., Times]] = {
    "new flows die, cold table": partial(new_flows, memory_min=4, probed_min=0),
    "the same, memory 4 min, 20 min of probing": partial(new_flows, memory_min=4, probed_min=20),
    "the same, memory 15 min, 60 min of probing": partial(new_flows, memory_min=15, probed_min=60),
    "the leader is dead": partial(_other, fault=dead, but="b1"),
    "a quarter of the buckets": partial(_other, fault=broken_buckets, but=""),
}


def _rows(seeds: int) -> Iterator[dict[str, object]]:
    for is_awake in (True, False):
        for name, trial in TRIALS.items():
            times = [trial(seed, is_awake=is_awake) for seed in range(seeds)]
            figures = {
                f"{what}_ms": {"median": quantile(values, 0.5) / MS, "worst": max(values) / MS}
                for what, values in (("condemned", [t.condemned for t in times]), ("moved", [t.moved for t in times]))
            }
            yield {"fault": name, "is_awake": is_awake, **figures}


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="python -m tests.sim.detection")
    _parser.add_argument("--seeds", type=int, default=24)
    json.dump(list(_rows(_parser.parse_args().seeds)), sys.stdout, indent=2)
    sys.stdout.write("\n")
