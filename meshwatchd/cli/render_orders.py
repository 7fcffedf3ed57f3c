"""Operators' standing orders as text: whose they are, and for how long they stand."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.cli.text import Paint
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.status import Status
from meshwatchd.model.units import render_duration


def render_orders(status: Status, now_ns: int, paint: Paint) -> Iterator[str]:
    """One line for each order on this node, and one for the nodes that say they are drained."""
    for order in status.orders:
        word = paint(order.kind.value.upper(), "warning")
        yield f"{word}  {_tell(order)}{_owner(order)}, {_left(order, now_ns)}"
    others = [name for name in status.drained if name != status.node]
    if others:
        yield f"{paint('DRAINED', 'warning')}  {', '.join(others)}: taken out of service on purpose"


def _tell(order: Order) -> str:
    place = f"to {order.location}" if order.location else "everywhere"
    match order.kind:
        case OrderKind.PAUSE:
            return f"{place}: automatic failover is suspended"
        case OrderKind.DRAIN:
            return "this node is taken out of service: others move off it"
        case OrderKind.PIN:
            return f"traffic {place} is pinned to {_path(order)}, and comes back there after a failover"
        case OrderKind.CONFIRM:
            return f"{place}: back to {_path(order)} unless you run `meshwatchctl confirm`"


def _path(order: Order) -> str:
    """Its relays where they are known: a rank may mean others by the time that this is read."""
    return " - ".join(order.relays) if order.relays else f"rank {order.rank}"


def _owner(order: Order) -> str:
    by = f" by {order.name}" if order.name else ""
    return f",{by}{f': {order.reason}' if order.reason else ''}" if by or order.reason else ""


def _left(order: Order, now_ns: int) -> str:
    left_ns = order.until_ns - now_ns
    return f"for {render_duration(left_ns)} more" if left_ns > 0 else "about to end"
