"""Answers operators: the same checks as for the engine's own decisions, and the exact operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from meshwatchd.core.mover import MoveState
from meshwatchd.core.planner import Planner
from meshwatchd.model.events import OperatorRequested, OperatorVerb, Reason
from meshwatchd.model.outputs import Output, ReplyOperator
from meshwatchd.model.settings import Mode
from meshwatchd.model.topology import Path

if TYPE_CHECKING:
    from meshwatchd.core.conductor import Conductor
    from meshwatchd.core.engine import Engine


def answer(engine: Engine, event: OperatorRequested, now: int) -> Iterator[Output]:
    """Carry out or refuse a request; always ends with one ReplyOperator."""
    conductor = _find(engine, event.location)
    if engine.topology is None or conductor is None:
        places = ", ".join(sorted(c.watch.remote for c in engine.conductors.values())) or "none known"
        yield _refuse(event, f"no such remote location; there are: {places}")
        return
    target = _target(conductor, event)
    if isinstance(target, str):
        yield _refuse(event, target)
        return
    planner = Planner(engine.topology, engine.settings)
    operations = planner.operations(conductor.mover.active, target)
    problem = _problem(engine, conductor, target)
    words = _describe(conductor, target)
    if problem:
        yield _refuse(event, problem, operations)
    elif event.is_dry_run:
        yield ReplyOperator(request=event.request, is_accepted=True, text=f"would {words}", operations=operations)
    else:
        yield from conductor.agreement.propose(target, Reason.OPERATOR, now)
        yield ReplyOperator(
            request=event.request, is_accepted=True, text=f"asked to {words}; {_until(target)}", operations=operations
        )


def _find(engine: Engine, location: str) -> Conductor | None:
    found = [c for c in engine.conductors.values() if location in ("", c.watch.remote)]
    return found[0] if len(found) == 1 else None


def _target(conductor: Conductor, event: OperatorRequested) -> Path | str:
    if event.verb is OperatorVerb.FAILBACK:
        return conductor.watch.primary
    if event.to_rank is not None:
        found = next((path for path in conductor.watch.paths if path.rank == event.to_rank), None)
        return found or f"no path of rank {event.to_rank}; there are 0 to {len(conductor.watch.paths) - 1}"
    standbys = [p for p in conductor.watch.paths if not p.is_primary and p is not conductor.mover.active]
    good = [path for path in standbys if conductor.watch.group(path).is_good]
    return good[0] if good else "no standby path is good; see `meshwatchctl status`"


def _problem(engine: Engine, conductor: Conductor, target: Path) -> str:
    """Why the request cannot be carried out from here, or nothing."""
    if target is conductor.mover.active:
        return f"rank {target.rank} is in use already"
    if engine.settings.daemon.mode is not Mode.ENFORCE:
        return f"this daemon runs in {engine.settings.daemon.mode} mode; set daemon.mode to enforce"
    if conductor.parting is not None:
        return "the mesh has just changed and traffic is leaving a path that is gone; try again in some seconds"
    relays = target.relays if not target.is_primary else conductor.mover.active.relays
    if engine.node not in relays:
        return f"this node does not relay that path; ask on {' or '.join(relays)}"
    if not conductor.watch.group(target).is_good:
        return f"rank {target.rank} is not good now; a broken path is never used"
    if conductor.mover.state not in (MoveState.IDLE, MoveState.VERIFYING):
        return "a move is under way; try again in a second"
    return ""


def _describe(conductor: Conductor, target: Path) -> str:
    relays = " - ".join(target.relays)
    return f"move {conductor.watch.remote} from rank {conductor.mover.active.rank} to rank {target.rank} over {relays}"


def _until(target: Path) -> str:
    if target.is_primary:
        return "automatic failover stays in force"
    return "it stays there until `meshwatchctl failback`, or until that path breaks"


def _refuse(event: OperatorRequested, text: str, operations: tuple[str, ...] = ()) -> ReplyOperator:
    return ReplyOperator(request=event.request, is_accepted=False, text=text, operations=operations)
