"""What holds in every world, whatever its story: each property by its name, and what was seen to happen in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.model.events import Reason
from meshwatchd.model.failover_facts import FailoverApplied, OverrideAdopted, PlanRefused, ProposalAnswered
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MINUTE, SECOND
from tests.sim.parts import Switched
from tests.sim.world import World

UNVERIFIED = "never acts on an unverified standby"
BOUNDED = "at most N actions a window"
NO_LOOP = "no two nodes point at each other"
INVERSE = "every change has its inverse"
AS_BEFORE = "after all faults heal the kernel equals its state before"
HOME = "after all faults heal traffic comes home"
READY = "a healthy world gets ready"

PROVEN_NS = 2 * SECOND
"""A standby is asked every 0.8 s at the slowest of the profiles in use: one that has carried nothing for two of these,
there and back, is not verified, whatever a daemon believes."""

RELEASED = (Reason.ROLLED_BACK, Reason.OPERATOR, Reason.PINNED)
"""Moves for which nobody promises that the target was asked lately: undone ones, and those that people want."""


@dataclass
class Violation(Exception):  # noqa: N818 - what it is called
    """A property that does not hold."""

    name: str
    text: str


def is_ready(world: World) -> bool:
    """Whether every daemon has judged every path."""
    return all(
        node.engine.state.controllers and all(c.is_ready for c in node.engine.state.controllers.values())
        for node in world.nodes.values()
    )


def is_home(world: World) -> bool:
    """Whether every daemon runs, uses the mesh's own paths, and its kernel holds nothing else."""
    return all(
        node.is_running
        and bool(node.engine.state.controllers)
        and not node.rules
        and all(c.mover.active.is_primary for c in node.engine.state.controllers.values())
        for node in world.nodes.values()
    )


def is_at_rest(world: World) -> bool:
    """Whether everybody is home, and nobody doubts the path in use or is about to leave it."""
    return is_home(world) and not any(
        c.mover.state is not MoveState.IDLE or c.watch.group(c.watch.primary).suspect_since
        for node in world.nodes.values()
        for c in node.engine.state.controllers.values()
    )


def check_home(world: World, before: dict[str, set[Rule]]) -> None:
    """After all faults heal.

    Raises:
        Violation: traffic is elsewhere, or a kernel holds other overrides than at the beginning.
    """
    if not is_home(world):
        raise Violation(HOME, world.story())
    if before != world.rules():
        raise Violation(AS_BEFORE, world.story())


def check_moves(world: World) -> None:
    """The properties of every single change.

    Raises:
        Violation: one does not hold.
    """
    for switch in world.switches:
        if switch.add and switch.reason is not Reason.ROLLED_BACK and not is_verified(switch):
            raise Violation(UNVERIFIED, f"{switch}\n{world.story()}")
    if world.loops:
        raise Violation(NO_LOOP, "\n".join(world.loops) + "\n" + world.story())
    _check_inverses(world)
    for name in world.names:
        limit = world.settings[name].policy.actions_per_minute
        applied = [(t, t.fact) for t in world.facts(FailoverApplied, node=name)]
        pairs = [(told, fact.pair) for told, fact in applied if isinstance(fact, FailoverApplied)]
        for pair in {each for _, each in pairs}:
            check_budget([told.at for told, each in pairs if each == pair], limit, f"{name} of pair {pair}")


def is_verified(switch: Switched) -> bool:
    """Whether the daemon's own probes spoke for the target, and the world knows that it has carried probes lately."""
    if not switch.is_target_good:
        return False
    return switch.reason in RELEASED or switch.at - switch.proven_at <= PROVEN_NS


def check_budget(times: list[int], most: int, who: str) -> None:
    """No window of a minute holds more moves.

    Args:
        times: of moves, nanoseconds, in order.
        most: in any minute.
        who: moved.

    Raises:
        Violation: one does.
    """
    for at in times:
        recent = sum(1 for other in times if at <= other < at + MINUTE)
        if recent > most:
            raise Violation(BOUNDED, f"{recent} moves in a minute at {who}, {most} are allowed")


def _check_inverses(world: World) -> None:
    """A kernel that is given the inverses of all changes, the last one first, is as it was."""
    for name in world.names:
        rules = set(world.nodes[name].rules)
        for switch in reversed([switch for switch in world.switches if switch.node == name]):
            if not rules >= set(switch.add) or rules & set(switch.delete):
                raise Violation(INVERSE, f"{switch}\n{world.story()}")
            rules = rules - set(switch.add) | set(switch.delete)
        if rules:
            raise Violation(INVERSE, f"{name} ends with {rules}\n{world.story()}")


def happened(world: World) -> Counter[str]:
    """What a world had: 1 for each thing that came to pass in it."""
    seen: Counter[str] = Counter()
    applied = [told.fact for told in world.facts(FailoverApplied)]
    ranks = [fact.to_rank for fact in applied if isinstance(fact, FailoverApplied)]
    answers = [told.fact for told in world.facts(ProposalAnswered)]
    refused = [fact for fact in answers if isinstance(fact, ProposalAnswered) and not fact.is_granted]
    reasons = {switch.reason for switch in world.switches if switch.add}
    seen["a word of any daemon"] = bool(world.told)
    seen["a move"] = any(ranks)
    seen["a move for a fault"] = Reason.BROKEN in reasons
    seen["a failback"] = any(ranks) and 0 in ranks
    seen["a refusal"] = bool(refused or world.facts(PlanRefused))
    seen["a refusal by a kernel"] = bool(world.facts(PlanRefused))
    seen["an override adopted"] = bool(world.facts(OverrideAdopted))
    seen["a verdict"] = bool(world.accusations())
    return seen


LEAST: Mapping[str, float] = {
    "a move": 0.15,
    "a move for a fault": 0.06,
    "a failback": 0.15,
    "a refusal": 0.005,
    "an override adopted": 0.001,
    "several faults at once": 0.05,
    "a restart": 0.05,
    "loss or delay": 0.1,
}
"""Shares of worlds below which a run has proved nothing."""
