"""Random worlds: a mesh, a policy and a story of things that go wrong, all drawn from one number.

Every mesh is warmed up once; the worlds in it begin as copies, each with dice of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator
from functools import cache, partial
from typing import NamedTuple

import msgspec

from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.settings import MS, SECOND, MtuSettings, PolicySettings, ProbeProfile, Settings
from tests.sim import faults
from tests.sim.clones import Frozen
from tests.sim.properties import READY, Violation, is_at_rest, is_home, is_ready
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

PAIR = (Shape(1, 0), Shape(1, 0))
LONE = (Shape(1, 0), Shape(0, 0))
MEMBER = (Shape(0, 1), Shape(1, 0))

QUICK = PolicySettings(hold_down=100 * MS, wait_to_restore=50 * MS, half_life=100 * MS, actions_per_minute=20)
STEADY = PolicySettings(hold_down=500 * MS, wait_to_restore=200 * MS, half_life=SECOND)
MISER = msgspec.structs.replace(QUICK, actions_per_minute=2)


class Variant(NamedTuple):
    """A mesh and what its daemons are told.

    Attributes:
        weight: how many worlds in the sum of all weights are of this kind. Small ones are common: there is most to
            find, and most quickly, where there are few ways.
        sizes: whether paths are measured for the sizes they carry.
    """

    weight: int
    shapes: tuple[Shape, ...]
    policy: PolicySettings
    profile: ProbeProfile = ProbeProfile.DEFAULT
    sizes: bool = False

    @property
    def stretch(self) -> int:
        """By how much longer stories last: profile wan probes a fourth as often, and waits for longer."""
        return 4 if self.profile is ProbeProfile.WAN else 1


VARIANTS = (
    Variant(340, LONE, QUICK),
    Variant(300, LONE, QUICK, ProbeProfile.WAN),
    Variant(30, LONE, STEADY, ProbeProfile.WAN),
    Variant(30, (Shape(0, 0), Shape(1, 0)), QUICK, sizes=True),
    Variant(90, PAIR, QUICK),
    Variant(80, PAIR, QUICK, ProbeProfile.WAN),
    Variant(10, PAIR, STEADY),
    Variant(10, PAIR, QUICK, sizes=True),
    Variant(1, PAIR, MISER, ProbeProfile.WAN),
    Variant(2, LONE, MISER, ProbeProfile.WAN),
    Variant(40, MEMBER, QUICK),
    Variant(20, (Shape(1, 0), Shape(0, 1)), QUICK, ProbeProfile.WAN),
    Variant(6, (Shape(1, 1), Shape(1, 0)), QUICK),
    Variant(6, (Shape(0, 1), Shape(1, 1)), QUICK),
    Variant(3, (Shape(2, 0), Shape(1, 0)), QUICK, ProbeProfile.WAN),
    Variant(2, (Shape(2, 0), Shape(1, 0)), QUICK),
    Variant(4, (Shape(1, 0), Shape(0, 0), Shape(0, 0)), QUICK, ProbeProfile.WAN),
    Variant(2, (Shape(1, 0), Shape(1, 0), Shape(1, 0)), QUICK, ProbeProfile.WAN),
)

HEAL_NS = 150 * SECOND
"""For the longest hold-down that the worst story earns, and for a spent budget to be granted anew."""

LOOK_NS = 25 * MS
LATEST_MS = {"restart": 300, "refusal": 20}
"""When they happen at the latest; others within 100 ms. A kernel refuses before a move is tried, and a daemon that
starts anew when traffic was moved finds an override to adopt."""

CALM_NS = 70 * MS
"""What was found out too late is still acted on, within this time of the last probe, and must be taken back as well."""


@cache
def healthy(variant: Variant) -> Frozen[World]:
    """A world in which every daemon is ready and every path was proven.

    Raises:
        Violation: it does not get ready.
    """

    def adjust(settings: Settings) -> Settings:
        return msgspec.structs.replace(
            settings,
            probe=msgspec.structs.replace(settings.probe, profile=variant.profile),
            mtu=MtuSettings(enabled=variant.sizes),
        )

    world = World(policy=variant.policy, mesh=mesh_of(variant.shapes), adjust=adjust)
    if not world.run_until(lambda: is_ready(world), limit_ns=20 * SECOND):
        raise Violation(READY, world.story())
    world.run(CALM_NS * variant.stretch)
    world.told.clear()
    return Frozen(world)


class Story:
    """One world and what happens in it.

    Args:
        number: everything is drawn from it.
    """

    def __init__(self, number: int) -> None:
        self.dice = random.Random(number)
        (self.variant,) = self.dice.choices(VARIANTS, [each.weight for each in VARIANTS])
        self.world = healthy(self.variant).copy(number)
        self.world.seed = number
        self.began = self.world.now
        self.lines: list[str] = [f"{self.variant}"]
        self.kinds: list[str] = []
        self.most_at_once = 0

    def tell(self) -> None:
        """Let things go wrong: one after the other or several at once; in the end nothing is wrong any more."""
        for at, _, act in sorted(self._events(), key=lambda event: event[:2]):
            self.world.run(max(0, self.began + at - self.world.now))
            act()
        assert not self.world.faults, "what began has ended"
        self._heal()

    def _events(self) -> Iterator[tuple[int, int, Callable[[], None]]]:
        """Instants after the beginning, with what happens then."""
        stretch = self.variant.stretch
        for place in range(self.dice.choices((1, 2, 3), (4, 5, 1))[0]):
            kind = self._kind(but=() if place else IDLE)
            latest_ms = LATEST_MS.get(kind, 100)
            at = self.dice.randrange(latest_ms) * MS * stretch if place else 0
            self.kinds.append(kind)
            if kind in ACTS:
                yield at, place, partial(self._act, kind)
                continue
            fault, where = self._fault(kind)
            is_blip = self.dice.random() < 0.35
            lasts_ns = (self.dice.randint(10, 60) if is_blip else self.dice.randint(80, 260)) * MS * stretch
            if kind == "flap":
                lasts_ns //= 3
            for turn in range(3 if kind == "flap" else 1):
                begins = at + 2 * turn * lasts_ns
                yield begins, place, partial(self._begin, f"{kind} {where}", fault)
                yield begins + lasts_ns, place, partial(self._end, kind, fault)

    def _act(self, kind: str) -> None:
        self._note(kind, ACTS[kind](self))

    def _begin(self, text: str, fault: faults.Fault) -> None:
        self._note(text, "begins")
        self.world.faults.append(fault)
        self.most_at_once = max(self.most_at_once, len(self.world.faults))

    def _end(self, kind: str, fault: faults.Fault) -> None:
        self._note(kind, "ends")
        self.world.faults.remove(fault)

    def _note(self, *words: str) -> None:
        self.lines.append(f"{(self.world.now - 1000 * SECOND) / MS:10.1f} ms  {' '.join(words)}")

    def _kind(self, *, but: Container[str]) -> str:
        weights = {kind: weight for kind, weight in KINDS.items() if kind not in but}
        return self.dice.choices(list(weights), list(weights.values()))[0]

    def _fault(self, kind: str) -> tuple[faults.Fault, str]:
        dice, world = self.dice, self.world
        place = dice.choice(world.names)
        one, other = self.relays()
        leader = dice.choice([str(location.leader) for location in world.mesh.location])
        match kind:
            case "overlay-new-flows":
                return faults.overlay_new_flows(leader, remembered=dice.choice([0.0, 0.17, 0.47])), leader
            case "overlay-black-hole" | "flap":
                return faults.overlay_black_hole(leader), leader
            case "leader-stops-forwarding":
                return faults.not_forwarding(leader), leader
            case "node-dead":
                return faults.dead(place), place
            case "deaf":
                return faults.deaf(place), place
            case "wireguard-port-blocked":
                return faults.tunnel_blocked(one, other), f"{one}-{other}"
            case "one-way":
                return faults.one_way_tunnel(one, other), f"{one}-{other}"
            case "loss":
                return faults.lossy_path(one, other, dice.choice([0.05, 0.3, 0.6])), f"{one}-{other}"
            case "random-loss":
                return faults.random_loss(dice.choice([0.01, 0.05])), "everywhere"
            case "delay":
                return faults.slow(one, other, dice.choice([2, 8, 30]) * MS), f"{one}-{other}"
            case "broken-buckets":
                return faults.broken_buckets(leader), leader
        assert kind == "mtu-black-hole", kind
        return faults.size_limit("overlay", leader, dice.choice([600, 1300, 1400])), leader

    def relays(self) -> tuple[str, str]:
        """Two relays of different locations; the leaders more often than not."""
        world = self.world
        one, other = self.dice.sample(world.mesh.location, 2)
        if self.dice.random() < 0.6:
            return str(one.leader), str(other.leader)
        return str(self.dice.choice(one.relays())), str(self.dice.choice(other.relays()))

    def order(self) -> str:
        """An operator asks for something, on a relay mostly."""
        place = self.dice.choice(self.relays())
        node = self.world.nodes[place]
        if not node.is_running or node.held is not None or not node.engine.state.controllers:
            return f"at {place}, who does not listen"
        verb = self.dice.choice(ORDERS)
        remote = (
            "" if verb is OperatorVerb.DRAIN else min(c.watch.remote for c in node.engine.state.controllers.values())
        )
        lasts_ns = self.dice.randint(100, 400) * MS * self.variant.stretch
        rank = self.dice.choice([None, 1]) if verb is OperatorVerb.FAILOVER else 1 if verb is OperatorVerb.PIN else None
        reply = self.world.operate(
            place,
            OperatorRequested(request=1, verb=verb, location=remote, to_rank=rank, name="dice", duration_ns=lasts_ns),
        )
        return f"{verb} at {place}: {'' if reply.is_accepted else 'not '}accepted"

    def restart(self) -> str:
        """A daemon ends and is started anew, or all of them; by preference one that holds an override."""
        holders = [name for name in self.world.names if self.world.nodes[name].rules]
        names = self.world.names if self.dice.random() < 0.2 else (self.dice.choice(holders or self.world.names),)
        for name in names:
            self.world.restart(name, down_ns=self.dice.randint(20, 300) * MS)
        return ", ".join(names)

    def stall(self) -> str:
        """A daemon is not scheduled for a while."""
        place = self.dice.choice(self.world.names)
        node = self.world.nodes[place]
        if node.held is None and node.is_running:
            self.world.stall(place, self.dice.randint(20, 600) * MS)
        return place

    def refuse(self) -> str:
        """A kernel refuses every change until all is well, or those of all relays of a location do."""
        location = self.dice.choice(self.world.mesh.location)
        names = [str(name) for name in location.relays()]
        if self.dice.random() < 0.5:
            names = [self.dice.choice(names)]
        for name in names:
            self.world.nodes[name].refusal = "Operation not supported"
        return ", ".join(names)

    def _heal(self) -> None:
        world, stretch = self.world, self.variant.stretch
        for node in world.nodes.values():
            node.refusal = ""
        end = world.now + HEAL_NS
        world.run(CALM_NS * stretch)
        if is_at_rest(world):
            return  # whoever found out late has had the time to act on it
        while world.now < end:
            if is_at_rest(world):
                world.run(CALM_NS * stretch)
                if is_home(world):
                    return
            world.run(LOOK_NS * stretch)


ACTS: dict[str, Callable[[Story], str]] = {
    "order": Story.order,
    "restart": Story.restart,
    "stall": Story.stall,
    "refusal": Story.refuse,
}

KINDS = {
    "overlay-new-flows": 4,
    "overlay-black-hole": 4,
    "leader-stops-forwarding": 4,
    "node-dead": 4,
    "deaf": 2,
    "wireguard-port-blocked": 4,
    "one-way": 4,
    "loss": 6,
    "random-loss": 4,
    "delay": 6,
    "broken-buckets": 2,
    "flap": 1,
    "mtu-black-hole": 2,
    "order": 26,
    "restart": 10,
    "stall": 5,
    "refusal": 14,
}
"""What goes wrong, by the lab's names, and how often in the sum of all."""

ORDERS = (
    OperatorVerb.PAUSE,
    OperatorVerb.DRAIN,
    OperatorVerb.DRAIN,
    OperatorVerb.FAILOVER,
    OperatorVerb.FAILOVER,
    OperatorVerb.PIN,
    OperatorVerb.PIN,
)

IDLE = ("refusal", "stall", "mtu-black-hole")
"""What is nothing by itself: no story begins with it."""
