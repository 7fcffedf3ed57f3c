"""Takes operators' standing orders: pause, drain, pin, and the confirmation of a failover."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import OrderEnded, OrderGiven, Output, ReplyOperator
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE, SECOND
from meshwatchd.model.units import render_duration

GIVEN_BY = {
    OperatorVerb.PAUSE: OrderKind.PAUSE,
    OperatorVerb.DRAIN: OrderKind.DRAIN,
    OperatorVerb.PIN: OrderKind.PIN,
}
ENDED_BY = {
    OperatorVerb.RESUME: OrderKind.PAUSE,
    OperatorVerb.UNDRAIN: OrderKind.DRAIN,
    OperatorVerb.UNPIN: OrderKind.PIN,
    OperatorVerb.CONFIRM: OrderKind.CONFIRM,
}

USUAL_NS = 60 * MINUTE
"""Of an order without a duration: maintenance takes an hour, and nobody remembers to end it."""

SHORTEST_NS, LONGEST_NS = SECOND, 30 * 24 * 60 * MINUTE
"""An order for longer is a change of the configuration."""


def answer_order(
    state: EngineState, event: OperatorRequested, now: int, *, relays: tuple[NodeName, ...] = ()
) -> Iterator[Output]:
    """Take or end a standing order about the path with these relays, if any; always ends with one ReplyOperator."""
    places = sorted(controller.watch.remote for controller in state.controllers.values())
    if event.location and event.location not in places:
        yield _reply(
            event, f"no such remote location; there are: {', '.join(places) or 'none known'}", is_accepted=False
        )
    elif event.verb in ENDED_BY:
        yield from _end(state, event)
    else:
        yield from _give(state, event, now, relays)


TOO_LONG = "an order stands for 1 s to 30 days"
TOO_MANY = "there are too many orders; end some"

LONGEST_OPERATOR_NS = 24 * 60 * MINUTE
"""Of an order that is not root's. A program renews it for as long as it has to."""
NAMELESS = (
    "only root ends or gives orders without a name; add --by NAME, with the name that `meshwatchctl status` shows"
)
TOO_LONG_FOR_OPERATOR = "an order that is not root's stands for a day at most"

MAX_NAME, MAX_REASON = 100, 500
"""Characters. Every daemon keeps all orders in one file, which is moved aside as a whole when it is too large."""

TOO_WORDY = f"a name has at most {MAX_NAME} characters, and a reason {MAX_REASON}"


def is_wordy(event: OperatorRequested) -> bool:
    """Whether a request says more than is kept."""
    return len(event.name) > MAX_NAME or len(event.reason) > MAX_REASON


def is_reasonable(duration_ns: int | None) -> bool:
    """Whether an order may stand for so long."""
    return duration_ns is None or SHORTEST_NS <= duration_ns <= LONGEST_NS


def why_root_only(event: OperatorRequested) -> str:
    """Why only root may ask for this; empty where a member of the operators' group may.

    Without a name the end of an order is the end of everybody's.
    """
    if event.is_from_root:
        return ""
    if not event.name:
        return NAMELESS
    return TOO_LONG_FOR_OPERATOR if (event.duration_ns or 0) > LONGEST_OPERATOR_NS else ""


def _give(state: EngineState, event: OperatorRequested, now: int, relays: tuple[NodeName, ...]) -> Iterator[Output]:
    kind = GIVEN_BY[event.verb]
    duration_ns = USUAL_NS if event.duration_ns is None else event.duration_ns
    if not is_reasonable(duration_ns):
        yield _reply(event, TOO_LONG, is_accepted=False)
        return
    order = Order(
        kind=kind,
        name=event.name,
        until_ns=now + duration_ns,
        location=event.location,
        rank=event.to_rank,
        reason=event.reason,
        relays=relays,
    )
    words = f"{_TELLING[kind]} for {render_duration(duration_ns)}{_consequences(state, kind)}"
    if not state.memory.orders.has_room(order, is_from_root=event.is_from_root):
        yield _reply(event, TOO_MANY, is_accepted=False)
        return
    if event.is_dry_run:
        yield _reply(event, f"would be {words}")
        return
    state.memory.orders.give(order)
    yield OrderGiven(order=order)
    yield _reply(event, words)


def _end(state: EngineState, event: OperatorRequested) -> Iterator[Output]:
    kind, orders = ENDED_BY[event.verb], state.memory.orders
    found = orders.find(kind, name=event.name, location=event.location)
    if not found:
        by = f" by {event.name}" if event.name else ""
        yield _reply(
            event, f"nothing is {_TELLING[kind]}{by}; `meshwatchctl status` lists what stands", is_accepted=False
        )
        return
    names = ", ".join(dict.fromkeys(order.name for order in found if order.name))
    text = f"ended: {kind.value}{f' by {names}' if names else ''}"
    if event.is_dry_run:
        yield _reply(event, f"would have {text}")
        return
    orders.take_back(kind, name=event.name, location=event.location)
    for order in found:
        yield OrderEnded(order=order, is_expired=False)
        if kind is OrderKind.PIN:
            for controller in state.controllers.values():
                if order.location in ("", controller.watch.remote):
                    controller.mover.unpin()
    yield _reply(event, text)


def _consequences(state: EngineState, kind: OrderKind) -> str:
    """What a drain cannot do for lack of another path."""
    if kind is not OrderKind.DRAIN:
        return ""
    stuck = [
        controller.watch.remote
        for controller in state.controllers.values()
        if state.node in controller.mover.active.relays
        and not any(
            state.node not in path.relays and controller.watch.group(path).is_good for path in controller.watch.paths
        )
    ]
    return f"; no path that this node sees avoids it to: {', '.join(sorted(stuck))}" if stuck else ""


_TELLING = {
    OrderKind.PAUSE: "paused",
    OrderKind.DRAIN: "drained",
    OrderKind.PIN: "pinned",
    OrderKind.CONFIRM: "waiting to be confirmed",
}


def _reply(event: OperatorRequested, text: str, *, is_accepted: bool = True) -> ReplyOperator:
    return ReplyOperator(request=event.request, is_accepted=is_accepted, text=text)
