"""Kilo's agent ends on a node that leads: traffic leaves the node before another agent starts there.

    kilo0 stays up, all routes of Kilo over it go   an agent that ends in order does that, as when its pod is replaced
    the others elect another leader                 45 to 80 ms later Kilo's own path works again, by that one
    an agent starts here                            the others turn to it at once, 150 to 300 ms before it has routes

The last of these is what can be avoided. The node takes itself out of service, by an order like an operator's, until
routes of an agent are there again or kilo0 is not: then another node leads for good.

Source: squat/kilo 0.7.0, pkg/mesh/mesh.go, cleanUp.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.failover.topology_change_hold import KILO_PROTOCOL
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.outputs import OrderEnded, OrderGiven, Output
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE, Mode
from meshwatchd.model.snapshot import Snapshot

OWNER = "Kilo's agent"
REASON = "it has ended here and taken its routes away"
LIMIT_NS = 60 * MINUTE
"""An agent that is away for longer is not being replaced."""


def note_agent(state: EngineState, before: Snapshot, after: Snapshot, now: int) -> Iterator[Output]:
    """Give or end the order, by what a later snapshot shows.

    Args:
        state: of this engine.
        before: of this node's kernel.
        after: the same, next time.
        now: nanoseconds.
    """
    topology, orders = state.topology, state.memory.orders
    if topology is None or topology.is_overlay_direct or state.settings.daemon.mode is not Mode.ENFORCE:
        return
    link = after.link(topology.wireguard_device)
    is_up = link is not None and link.is_up
    if not is_up or _has_routes(after, topology.wireguard_device):
        for order in orders.take_back(OrderKind.DRAIN, name=OWNER):
            yield OrderEnded(order=order, is_expired=False)
    elif not after.is_bounded and _has_routes(before, topology.wireguard_device):
        order = Order(kind=OrderKind.DRAIN, name=OWNER, until_ns=now + LIMIT_NS, reason=REASON)
        if orders.give(order):
            yield OrderGiven(order=order)
            what = f"{OWNER} has taken its routes over {topology.wireguard_device} away"
            yield from state.note_topology_change(MeshStirred(what=what, is_rebuilding=True), now)


def _has_routes(snapshot: Snapshot, device: str) -> bool:
    return any(route.dev == device and route.protocol == KILO_PROTOCOL for route in snapshot.device_routes)
