"""Operators' standing orders: who said what about which location, and until when."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.model.policy_state import Order, OrderKind

MAX_ORDERS = 64
"""Far more than people give; a script that runs wild is refused, not remembered."""
RESERVED_ORDERS = 16
"""Of these for root alone: whatever operators have given, root can give some."""

_Key = tuple[OrderKind, str, str]


def _key(order: Order) -> _Key:
    return order.kind, order.location, order.name


AGENT = "Kilo's agent"
"""Owner of the order that a node gives itself when its agent has ended (`mesh.agent_leave`)."""


class Orders:
    """The standing orders of this node.

    Attributes:
        next_expiry: when the next order ends; None without any. Monotonic nanoseconds.
    """

    def __init__(self) -> None:
        self._orders: dict[_Key, Order] = {}
        self.next_expiry: int | None = None

    @property
    def standing(self) -> tuple[Order, ...]:
        """All orders, sorted by kind, location and name."""
        return tuple(self._orders[key] for key in sorted(self._orders))

    @property
    def is_draining(self) -> bool:
        """Whether this node is taken out of service."""
        return bool(self._orders) and any(order.kind is OrderKind.DRAIN for order in self._orders.values())

    @property
    def is_agent_away(self) -> bool:
        """Whether the mesh's own agent has ended on this node, which is out of service for that."""
        return bool(self._orders) and any(order.name == AGENT for order in self._orders.values())

    def has_room(self, order: Order, *, is_from_root: bool = True) -> bool:
        """Whether an order can be taken; one that takes the place of the same owner's earlier one always can."""
        most = MAX_ORDERS if is_from_root else MAX_ORDERS - RESERVED_ORDERS
        return len(self._orders) < most or _key(order) in self._orders

    def give(self, order: Order) -> bool:
        """Take an order, in place of the same owner's earlier one; False where there are too many."""
        if not self.has_room(order):
            return False
        self._orders[_key(order)] = order
        self._schedule()
        return True

    def take_back(self, kind: OrderKind, *, name: str = "", location: str = "") -> tuple[Order, ...]:
        """End orders of a kind; without a name everybody's, without a location about every location."""
        found = self.find(kind, name=name, location=location)
        self._forget(found)
        return found

    def find(self, kind: OrderKind, *, name: str = "", location: str = "") -> tuple[Order, ...]:
        """What `take_back` would end."""
        return tuple(
            order
            for order in self.standing
            if order.kind is kind and name in ("", order.name) and location in ("", order.location)
        )

    def expire(self, now: int) -> tuple[Order, ...]:
        """End the orders whose time is over; returns them."""
        if self.next_expiry is None or now < self.next_expiry:
            return ()
        found = tuple(order for order in self.standing if order.until_ns <= now)
        self._forget(found)
        return found

    def about(self, kind: OrderKind, location: str) -> Order | None:
        """An order of a kind that holds for a location, or None; the first by location and name of several."""
        if not self._orders:
            return None  # asked at every review, and nearly always so
        return next((o for o in self.standing if o.kind is kind and o.location in ("", location)), None)

    def restore(self, orders: Iterable[Order]) -> None:
        """Take over an earlier process's orders; those that are over end with the next look at the clock."""
        for order in orders:
            self.give(order)

    def _forget(self, orders: Iterable[Order]) -> None:
        for order in orders:
            del self._orders[_key(order)]
        self._schedule()

    def _schedule(self) -> None:
        self.next_expiry = min((order.until_ns for order in self._orders.values()), default=None)
