"""What policy takes from one process of a node to the next: gathered when something memorable happened, given back at
start.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.failover.operator_holds import Orders
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.model.failover_facts import FailoverApplied, OverrideRetired, PathSuppressed
from meshwatchd.model.outputs import OrderEnded, OrderGiven
from meshwatchd.model.policy_state import PairRecord, PolicyState

MEMORABLE = (FailoverApplied, OrderGiven, OrderEnded, OverrideRetired, PathSuppressed)
"""Facts after which a crash must not forget: a new process would flap once more, or break an operator's word."""


class Memory:
    """What was left by an earlier process, and what is to be left to the next.

    Attributes:
        orders: shared by all pairs.
    """

    def __init__(self) -> None:
        self.orders = Orders()
        self._recalled: dict[str, PairRecord] = {}

    def take_over(self, state: PolicyState) -> None:
        """An earlier process's state; pairs take theirs when they come into being."""
        self.orders.restore(state.orders)
        self._recalled = {record.location: record for record in state.pairs}

    def recall(self, controller: PairController, now: int) -> None:
        """Give a new pair what is known of it."""
        record = self._recalled.pop(controller.watch.remote, None)
        if record is not None:
            controller.context.damper.restore(record, now)
            controller.mover.is_pinned = record.is_pinned

    def gather(self, controllers: Iterable[PairController], now: int) -> PolicyState:
        """Everything that the next process has to know; pairs that are not there at the moment are not forgotten."""
        records = [
            each.context.damper.export(each.watch.remote, now, is_pinned=each.mover.is_pinned) for each in controllers
        ]
        present = {record.location for record in records}
        absent = [record for name, record in sorted(self._recalled.items()) if name not in present]
        return PolicyState(orders=self.orders.standing, pairs=(*records, *absent))
