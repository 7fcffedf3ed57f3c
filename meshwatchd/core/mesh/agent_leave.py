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

from meshwatchd.core.failover.operator_holds import AGENT
from meshwatchd.core.failover.topology_change_hold import KILO_PROTOCOL
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.outputs import OrderEnded, OrderGiven, Output
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE, Mode
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import Topology

REASON = "its routes are gone from here: it has ended, or somebody has removed them"
LIMIT_NS = 2 * MINUTE
"""A pod is replaced in less. An agent that stays away is a fault, and to be told as one."""


def note_agent(
    state: EngineState, topology: Topology, now: int, *, before: Snapshot | None, after: Snapshot
) -> Iterator[Output]:
    """Give or end the order, by what a later snapshot shows."""
    device, orders = topology.wireguard_device, state.memory.orders
    is_acting = topology.profile == "kilo" and state.settings.daemon.mode is Mode.ENFORCE
    link = after.link(device)
    is_up = link is not None and link.is_up
    if not is_acting or not is_up or _has_routes(after, device):
        for order in orders.take_back(OrderKind.DRAIN, name=AGENT) if orders.is_agent_away else ():
            yield OrderEnded(order=order, is_expired=False)
    elif before is not None and not after.is_bounded and _has_routes(before, device):
        order = Order(kind=OrderKind.DRAIN, name=AGENT, until_ns=now + LIMIT_NS, reason=REASON)
        if orders.give(order):
            yield OrderGiven(order=order)
            what = f"routes of {AGENT} over {device} are gone"
            yield from state.note_topology_change(MeshStirred(what=what, is_rebuilding=True), now)


def _has_routes(snapshot: Snapshot, device: str) -> bool:
    return any(route.dev == device and route.protocol == KILO_PROTOCOL for route in snapshot.device_routes)
