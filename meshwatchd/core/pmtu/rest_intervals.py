"""How often sizes are looked at while all is well: a packet of full size costs as much as half a dozen others.

    path in use   one look a second in all: one node on each side, asking the other; who hears the other's waits
    segments      half a minute: they stay in the location; standby links likewise, between their two relays
    other paths   minutes, and the more nodes there are the longer: together they cost the WAN the same in any mesh

Whatever changes or is missed ends the rest at once (`pmtu`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache, partial

from meshwatchd.core.probing.intervals import slowness
from meshwatchd.core.probing.rest_limits import rest_stretch, shape_of
from meshwatchd.core.probing.scouts import scouts
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mtu import SizePlan
from meshwatchd.model.settings import SECOND

TURN_NS = 2 * SECOND
"""Of each of the two nodes that look at the path in use."""

SEGMENT_NS = 30 * SECOND

NODE_NS = 30 * SECOND
"""For each node of the two locations, between two looks of one session over the path in use."""

SELDOM = 5
"""What no traffic depends on is looked at so much less often still."""


class RestIntervals:
    """Intervals of the sessions of one node.

    Args:
        silent: nodes that answer no size probe; the next in line takes the place of one that should look.
    """

    def __init__(self, planner: Planner, used: Collection[int], silent: Collection[NodeName]) -> None:
        self._planner, self._used, self._silent = planner, used, silent
        self._scouts = cache(partial(scouts, planner.topology.mesh))
        # A packet of full size costs a slow line as much as anywhere, and is a seventh of all that it carries.
        _, self._slower = slowness(planner.settings.probe.profile)
        self._rest = rest_stretch(planner.settings.probe, shape_of(planner.topology))

    def of(self, plan: SizePlan) -> int:
        """Nanoseconds between two looks."""
        mesh, local = self._planner.topology.mesh, self._planner.local
        is_near = mesh.node(plan.peer).location == local.location
        return math.ceil(self._unlimited(plan) * (self._rest.segments if is_near else self._rest.standbys))

    def _unlimited(self, plan: SizePlan) -> int:
        topology, mesh = self._planner.topology, self._planner.topology.mesh
        here, there = topology.local.location, mesh.node(plan.peer).location
        local = topology.local_node
        is_used = plan.layer is Layer.RELAY and plan.path in self._used
        if is_used and (local, plan.peer) == (self._first(here, there), self._first(there, here)):
            return TURN_NS * self._slower
        if here == there or (
            plan.layer is Layer.RELAY and {local, plan.peer} == {*self._planner.path(plan.path).relays}
        ):
            return SEGMENT_NS * self._slower
        crowd = len(mesh.members(here)) + len(mesh.members(there))
        return crowd * NODE_NS * self._slower * (1 if is_used else SELDOM)

    def _first(self, location: str, remote: str) -> NodeName:
        """The node of a location that looks at the path in use for all of it.

        One that relays nothing, where there is one: a relay of standbys carries enough besides. The leader comes last,
        since its packets cross no overlay of its own.
        """
        home = self._planner.topology.mesh.location(location)
        ranked = (NodeName(""), *home.standbys, home.leader)
        found = sorted(self._scouts(location, remote), key=lambda name: ranked.index(name) if name in ranked else 0)
        return next((name for name in found if name not in self._silent), found[0])
