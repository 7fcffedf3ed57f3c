"""How imaginary packets find their way: by each hop's own tables and rules, as the planner has them."""

from __future__ import annotations

from collections.abc import Callable

from meshwatchd.core.planner import Planner
from meshwatchd.model.plan import Rule
from meshwatchd.model.topology import Path
from tests.sim.faults import Leg

MAX_HOPS = 6

LOOP = Leg("forward", "loop", "loop")
"""Ends the way of a packet that would circle; nothing is delivered at the end of it."""


class Routes:
    """The forwarding of all nodes; only the overrides change while the world runs."""

    def __init__(self, planners: dict[str, Planner], rules: Callable[[str], set[Rule]]) -> None:
        self._rules = rules
        self._location = {name: planner.topology.local.location for name, planner in planners.items()}
        self._primary = {name: planner.topology.local_paths()[0] for name, planner in planners.items()}
        self._paths = {
            name: {path.number: (path, *_table(planner, path)) for path in planner.topology.local_paths()}
            for name, planner in planners.items()
        }
        self._selected: dict[tuple[str, str, int], tuple[Leg, ...]] = {}

    def walk(self, source: str, target: str, wanted: int | None) -> tuple[Leg, ...]:
        """The legs from node to node: by a path's selectors, or with `wanted` None as real traffic goes."""
        if wanted is None:
            return self._walk(source, target, None)
        if (source, target, wanted) not in self._selected:
            self._selected[source, target, wanted] = self._walk(source, target, wanted)
        return self._selected[source, target, wanted]

    def _walk(self, source: str, target: str, wanted: int | None) -> tuple[Leg, ...]:
        legs: list[Leg] = []
        here = source
        for _ in range(MAX_HOPS):
            if here == target:
                return tuple(legs)
            if legs:
                legs.append(Leg("forward", here, here))
            legs.append(self._hop(here, target, wanted))
            here = legs[-1].target
        return (*legs, LOOP)

    def _hop(self, here: str, target: str, wanted: int | None) -> Leg:
        if self._location[here] == self._location[target]:
            return Leg("overlay", here, target)
        path = self._path_at(here, target, wanted)
        relay = path.relay_in(self._location[here])
        if relay == here:
            return Leg("tunnel", here, path.relay_in(self._location[target]), path.number)
        return Leg("overlay", here, relay)

    def _path_at(self, here: str, target: str, wanted: int | None) -> Path:
        rules = self._rules(here)
        for path, destinations, override in self._paths[here].values():
            is_chosen = path.number == wanted if wanted is not None else not rules.isdisjoint(override)
            if is_chosen and target in destinations:
                return path
        return self._primary[here]


def _table(planner: Planner, path: Path) -> tuple[frozenset[str], frozenset[Rule]]:
    destinations = {route.dst for route in planner.routes(path)}
    nodes = planner.topology.mesh.nodes
    reached = frozenset(node.name for node in nodes if f"{node.node_ip}/32" in destinations)
    return reached, frozenset(planner.override(path))
