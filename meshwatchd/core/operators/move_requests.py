"""Answers operators: the same checks as for the engine's own decisions, and the exact operations."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from meshwatchd.core.failover.operator_holds import Orders
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.core.operators.hold_requests import (
    TOO_LONG,
    TOO_MANY,
    TOO_WORDY,
    USUAL_NS,
    answer_order,
    is_reasonable,
    is_wordy,
    why_root_only,
)
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.events import OperatorRequested, OperatorVerb, Reason
from meshwatchd.model.outputs import OrderEnded, OrderGiven, Output, ReplyOperator
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import Mode
from meshwatchd.model.topology import Path
from meshwatchd.model.units import render_duration

MOVES = (OperatorVerb.FAILOVER, OperatorVerb.FAILBACK, OperatorVerb.PIN)


def answer(state: EngineState, event: OperatorRequested, now: int) -> Iterator[Output]:
    """Carry out or refuse a request; always ends with one ReplyOperator."""
    if is_wordy(event):
        yield _refuse(event, TOO_WORDY)
    elif refusal := why_root_only(event):
        yield _refuse(event, refusal)
    elif event.verb is OperatorVerb.FAILBACK and state.leg.in_use is not None:
        yield from _answer_way_home(state, event)
    elif event.verb in MOVES:
        yield from _answer_move(state, event, now)
    else:
        yield from answer_order(state, event, now)


def _answer_move(state: EngineState, event: OperatorRequested, now: int) -> Iterator[Output]:
    controller = _find(state, event.location)
    if state.topology is None or controller is None:
        places = ", ".join(sorted(c.watch.remote for c in state.controllers.values())) or "none known"
        yield _refuse(event, f"no such remote location; there are: {places}")
        return
    target = _target(controller, event)
    if isinstance(target, str):
        yield _refuse(event, target)
        return
    planner = Planner(state.topology, state.settings)
    operations = planner.operations(controller.mover.active, target)
    problem = _problem(state, controller, target)
    words = _describe(controller, target)
    order = _order(event, controller, target, now=now, orders=state.memory.orders)
    if not is_reasonable(event.duration_ns):
        yield _refuse(event, TOO_LONG)
    elif event.verb is OperatorVerb.PIN and target is controller.mover.active and not target.is_primary:
        event = msgspec.structs.replace(event, to_rank=target.rank, location=controller.watch.remote)
        yield from answer_order(state, event, now, relays=target.relays)
    elif problem:
        yield _refuse(event, problem, operations)
    elif order is not None and not state.memory.orders.has_room(order, is_from_root=event.is_from_root):
        yield _refuse(event, TOO_MANY)
    elif event.is_dry_run:
        yield ReplyOperator(request=event.request, is_accepted=True, text=f"would {words}", operations=operations)
    else:
        yield from _stand_by(controller, state.memory.orders, order)
        yield from controller.negotiation.propose(target, Reason.OPERATOR, now)
        text = f"asked to {words}; {_until(event, target)}"
        yield ReplyOperator(request=event.request, is_accepted=True, text=text, operations=operations)


def _answer_way_home(state: EngineState, event: OperatorRequested) -> Iterator[Output]:
    """Whichever location was named: a detour carries what this node sends to all of them."""
    operations, words = state.leg.way_home(), "send what is for other locations over this node's own leg again"
    problem = _problem_of_mode(state) or state.leg.why_stay()
    if problem:
        yield _refuse(event, problem, operations)
    elif event.is_dry_run:
        yield ReplyOperator(request=event.request, is_accepted=True, text=f"would {words}", operations=operations)
    else:
        yield from state.leg.go_home(f"{event.name or 'an operator'} asked for it, and the leg is good")
        text = f"asked to {words}; automatic failover stays in force"
        yield ReplyOperator(request=event.request, is_accepted=True, text=text, operations=operations)


def _stand_by(controller: PairController, orders: Orders, order: Order | None) -> Iterator[Output]:
    """The standing order that goes with a move, in place of the one of an earlier move."""
    for earlier in orders.take_back(OrderKind.CONFIRM, location=controller.watch.remote):
        yield OrderEnded(order=earlier, is_expired=False)
    if order is not None and orders.give(order):
        yield OrderGiven(order=order)


def _order(
    event: OperatorRequested, controller: PairController, target: Path, *, now: int, orders: Orders
) -> Order | None:
    """What stands from here on: a pin, or the confirmation that is waited for."""
    remote, active, is_chosen = controller.watch.remote, controller.mover.active, controller.mover.is_pinned
    if event.verb is OperatorVerb.PIN:
        lasts_ns = USUAL_NS if event.duration_ns is None else event.duration_ns
        kind, path = OrderKind.PIN, target
    elif event.verb is OperatorVerb.FAILOVER and event.duration_ns is not None:
        # Only a relay of the path to go back to can ask for it; the way home is open to the relays of what is left.
        is_relay = controller.context.local_node in active.relays
        lasts_ns, kind, path = event.duration_ns, OrderKind.CONFIRM, active if is_relay else controller.watch.primary
        if unconfirmed := orders.about(OrderKind.CONFIRM, remote):
            # Nobody has confirmed the path in use either: undone, traffic goes back to where it was before both.
            path = controller.context.ordered(unconfirmed) or path
            is_chosen = unconfirmed.is_chosen
    else:
        return None
    return Order(
        kind=kind,
        name=event.name,
        until_ns=now + lasts_ns,
        location=remote,
        rank=path.rank,
        reason=event.reason,
        relays=() if path.is_primary else path.relays,
        is_chosen=kind is OrderKind.CONFIRM and is_chosen and not path.is_primary,
    )


def _find(state: EngineState, location: str) -> PairController | None:
    found = [c for c in state.controllers.values() if location in ("", c.watch.remote)]
    return found[0] if len(found) == 1 else None


def _target(controller: PairController, event: OperatorRequested) -> Path | str:
    if event.verb is OperatorVerb.FAILBACK:
        return controller.watch.primary
    if event.to_rank is not None:
        found = next((path for path in controller.watch.paths if path.rank == event.to_rank), None)
        return found or f"no path of rank {event.to_rank}; there are 0 to {len(controller.watch.paths) - 1}"
    standbys = [p for p in controller.watch.paths if not p.is_primary and p is not controller.mover.active]
    good = [path for path in standbys if controller.watch.group(path).is_good]
    return good[0] if good else "no standby path is good; see `meshwatchctl status`"


def _problem(state: EngineState, controller: PairController, target: Path) -> str:
    """Why the request cannot be carried out from here, or nothing."""
    if target is controller.mover.active:
        return f"rank {target.rank} is in use already"
    if problem := _problem_of_mode(state):
        return problem
    if controller.parting is not None:
        return "the mesh has just changed and traffic is leaving a path that is gone; try again in some seconds"
    relays = target.relays if not target.is_primary else controller.mover.active.relays
    if state.node not in relays:
        return f"this node does not relay that path; ask on {' or '.join(relays)}"
    if not controller.watch.group(target).is_good:
        return f"rank {target.rank} is not good now; a broken path is never used"
    if controller.mover.state not in (MoveState.IDLE, MoveState.VERIFYING):
        return "a move is under way; try again in a second"
    return ""


def _problem_of_mode(state: EngineState) -> str:
    mode = state.settings.daemon.mode
    return "" if mode is Mode.ENFORCE else f"this daemon runs in {mode} mode; set daemon.mode to enforce"


def _describe(controller: PairController, target: Path) -> str:
    before, after = (f"{' - '.join(path.relays)} (rank {path.rank})" for path in (controller.mover.active, target))
    return f"move the traffic to {controller.watch.remote} from path {before} to {after}"


def _until(event: OperatorRequested, target: Path) -> str:
    if event.verb is OperatorVerb.FAILOVER and event.duration_ns is not None:
        return f"undone in {render_duration(event.duration_ns)} unless you run `meshwatchctl confirm`"
    if event.verb is OperatorVerb.PIN:
        return "after a failover traffic comes back to this path, until `meshwatchctl unpin` or until the pin expires"
    if target.is_primary:
        return "automatic failover stays in force"
    return "it stays there until `meshwatchctl failback`, or until that path breaks"


def _refuse(event: OperatorRequested, text: str, operations: tuple[str, ...] = ()) -> ReplyOperator:
    return ReplyOperator(request=event.request, is_accepted=False, text=text, operations=operations)
