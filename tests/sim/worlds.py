"""Random worlds, many of them: `python -m tests.sim.worlds --count 10000` on every core there is.

A world is a mesh, a policy and a story of things that go wrong, all drawn from one number. Whatever the story, the
properties below hold; one in which some does not is printed with its number, and `--first N --count 1` tells it again.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from meshwatchd.model import outputs as out
from meshwatchd.model.events import OperatorRequested, OperatorVerb, Reason
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MINUTE, MS, SECOND, PolicySettings, ProbeProfile, Settings
from tests.sim import faults
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

HEAL_NS = 150 * SECOND
"""For the longest hold-down that the worst story earns, and for a spent budget to be granted anew."""

SHAPES = (
    (Shape(1, 0), Shape(1, 0)),
    (Shape(1, 0), Shape(1, 0)),
    (Shape(1, 1), Shape(1, 0)),
    (Shape(1, 1), Shape(1, 1)),
    (Shape(2, 0), Shape(1, 0)),
    (Shape(0, 1), Shape(1, 1)),
    (Shape(0, 1), Shape(0, 1)),
    (Shape(1, 0), Shape(1, 0), Shape(1, 0)),
    (Shape(1, 0), Shape(0, 1), Shape(1, 0)),
)
"""Small ones are common: there is most to find, and most quickly, where there are few ways."""

WAN_STRETCH = 4
"""Profile wan probes a fourth as often and takes as much longer: stories last longer in it."""


@dataclass
class Violation(Exception):  # noqa: N818 - what it is called
    """A property that does not hold."""

    name: str
    text: str


def build(number: int) -> tuple[World, random.Random, int]:
    """The world of a number, healthy, with its dice and by how much longer its stories last."""
    dice = random.Random(number)
    is_wan = dice.random() < 0.85
    policy = PolicySettings(
        hold_down=dice.choice(["300ms", "1s", "2s"]),
        wait_to_restore=dice.choice(["200ms", "1s"]),
        half_life=dice.choice(["200ms", "1s", "4s"]),
        actions_per_minute=dice.choice([4, 6, 6, 20]),
        revertive=True,
    )

    def adjust(settings: Settings) -> Settings:
        profile = ProbeProfile.WAN if is_wan else ProbeProfile.DEFAULT
        return msgspec.structs.replace(settings, probe=msgspec.structs.replace(settings.probe, profile=profile))

    world = World(seed=number, policy=policy, mesh=mesh_of(dice.choice(SHAPES)), adjust=adjust)
    stretch = WAN_STRETCH if is_wan else 1
    world.run_until(lambda: is_ready(world), limit_ns=20 * SECOND)
    if not is_ready(world):
        raise Violation("a healthy world gets ready", world.story())
    return world, dice, stretch


def is_ready(world: World) -> bool:
    """Whether every daemon has judged every path."""
    return all(
        node.engine.conductors and all(c.is_ready for c in node.engine.conductors.values())
        for node in world.nodes.values()
    )


def tell(world: World, dice: random.Random, stretch: int) -> Iterator[str]:
    """Let things go wrong, some at once, some one after the other; yields what."""
    for _ in range(dice.randint(1, 4)):
        kind, fault, text = _draw(world, dice)
        yield f"{(world.now - 1000 * SECOND) / MS:.0f} ms: {kind} {text}"
        lasts_ns = dice.randint(20, 1_500) * MS * stretch
        if fault is None:
            world.run(lasts_ns // 4)
        elif kind == "flap":
            period_ns = dice.choice([200, 400, 1_000]) * MS * stretch
            for _ in range(4):
                world.faults.append(fault)
                world.run(period_ns // 2)
                world.faults.remove(fault)
                world.run(period_ns // 2)
        else:
            world.faults.append(fault)
            world.run(lasts_ns)
            if dice.random() < 0.5:
                world.faults.remove(fault)
        world.run(dice.randint(0, 500) * MS * stretch)
    world.faults.clear()


def _draw(world: World, dice: random.Random) -> tuple[str, faults.Fault | None, str]:
    place = dice.choice(world.names)
    relays = [str(name) for location in world.mesh.location for name in location.relays()]
    one = dice.choice(relays)
    other = dice.choice([name for name in relays if world.locations[name] != world.locations[one]])
    makers: dict[str, Callable[[], faults.Fault]] = {
        "new-flows": lambda: faults.overlay_new_flows(place, remembered=dice.choice([0.0, 0.17, 0.47])),
        "black-hole": lambda: faults.overlay_black_hole(place),
        "not-forwarding": lambda: faults.not_forwarding(one),
        "dead": lambda: faults.dead(place),
        "deaf": lambda: faults.deaf(place),
        "tunnel": lambda: faults.tunnel_blocked(one, other),
        "one-way": lambda: faults.one_way_tunnel(one, other),
        "loss": lambda: faults.lossy_path(one, other, dice.choice([0.02, 0.3, 0.6])),
        "flap": lambda: faults.overlay_black_hole(one),
    }
    kind = dice.choice([*makers, "flap", "dead", "new-flows", "restart", "stall", "refusal", "order"])
    if kind in makers:
        return kind, makers[kind](), f"at {place}, {one} or {one}-{other}"
    node = world.nodes[place]
    if kind == "restart":
        world.restart(place, down_ns=dice.randint(50, 2_000) * MS)
    elif kind == "stall" and node.held is None and node.is_running:
        world.stall(place, dice.randint(30, 3_000) * MS)
    elif kind == "refusal":
        node.refusal = "" if node.refusal else "Operation not supported"
    elif kind == "order" and node.is_running and node.held is None and node.engine.conductors:
        verb = dice.choice([OperatorVerb.PAUSE, OperatorVerb.DRAIN, OperatorVerb.FAILOVER, OperatorVerb.PIN])
        remote = min(c.watch.remote for c in node.engine.conductors.values())
        lasts_ns = dice.randint(1_000, 4_000) * MS
        where = "" if verb is OperatorVerb.DRAIN else remote
        world.operate(place, OperatorRequested(request=1, verb=verb, location=where, name="dice", duration_ns=lasts_ns))
        return kind, None, f"{verb} at {place}"
    return kind, None, f"at {place}"


def is_home(world: World) -> bool:
    """Whether every daemon runs, uses the mesh's own paths, and its kernel holds nothing else."""
    return all(
        node.is_running
        and bool(node.engine.conductors)
        and not node.rules
        and all(c.mover.active.is_primary for c in node.engine.conductors.values())
        for node in world.nodes.values()
    )


def _heal(world: World, stretch: int) -> None:
    """All is well; what was found out too late is still acted on, and must be taken back as well."""
    for node in world.nodes.values():
        node.refusal = ""
    world.run(2 * SECOND * stretch)
    world.run_until(lambda: is_home(world), limit_ns=HEAL_NS)
    world.run(SECOND * stretch)


def check_home(world: World, before: dict[str, set[Rule]]) -> None:
    """After all faults heal.

    Raises:
        Violation: traffic is elsewhere, or a kernel holds other overrides than at the beginning.
    """
    if not is_home(world):
        raise Violation("after all faults heal traffic comes home", world.story())
    if before != world.rules():
        raise Violation("after all faults heal the kernel equals its state before", world.story())


def check_moves(world: World) -> None:
    """The properties of every single change.

    Raises:
        Violation: one does not hold.
    """
    for switch in world.switches:
        is_forward = switch.add and switch.reason is not Reason.ROLLED_BACK
        if is_forward and not switch.is_target_good:
            raise Violation("never acts on an unverified standby", f"{switch}")
    if world.loops:
        raise Violation("no two nodes point at each other", "\n".join(world.loops))
    for name in world.names:
        limit = world.settings[name].policy.actions_per_minute
        applied = [(t, t.fact) for t in world.facts(out.FailoverApplied, node=name)]
        pairs = [(told, fact.pair) for told, fact in applied if isinstance(fact, out.FailoverApplied)]
        for pair in {each for _, each in pairs}:
            facts = [told for told, each in pairs if each == pair]
            _check_budget([t.at for t in facts], 2 * limit, f"{name} of pair {pair}")


def _check_budget(times: list[int], most: int, who: str) -> None:
    for at in times:
        recent = sum(1 for other in times if at <= other < at + MINUTE)
        if recent > most:
            raise Violation("at most N actions a window", f"{recent} moves in a minute at {who}, {most} are allowed")


def run(number: int) -> str:
    """Run one world; returns a digest of everything that was decided in it.

    Raises:
        Violation: a property does not hold.
    """
    world, dice, stretch = build(number)
    before = world.rules()
    story: list[str] = []
    try:
        story += tell(world, dice, stretch)
        _heal(world, stretch)
        check_home(world, before)
        check_moves(world)
    except Violation as violation:
        raise Violation(violation.name, "\n".join([*story, violation.text])) from None
    said = repr([(told.at, told.node, told.fact) for told in world.told]) + repr(world.switches)
    return hashlib.sha256(said.encode()).hexdigest()


def attempt(number: int) -> tuple[int, str, str]:
    """Number, digest, and what went wrong."""
    try:
        return number, run(number), ""
    except Violation as violation:
        return number, "", f"{violation.name}\n{violation.text}"
    except AssertionError as error:
        return number, "", f"assertion: {error}"


def main() -> int:
    """Run a range of worlds; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--digest", action="store_true", help="print one digest of all decisions")
    options = parser.parse_args()
    began = time.monotonic()
    numbers = range(options.first, options.first + options.count)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        failures, whole = 0, hashlib.sha256()
        for number, digest, problem in pool.imap(attempt, numbers, chunksize=4):
            whole.update(digest.encode())
            if problem:
                failures += 1
                sys.stdout.write(f"world {number}: {problem}\n\n")
                sys.stdout.flush()
    took_s = time.monotonic() - began
    sys.stdout.write(f"{options.count} worlds in {took_s:.1f} s, {failures} with a property that does not hold\n")
    if options.digest:
        sys.stdout.write(f"digest {whole.hexdigest()}\n")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
