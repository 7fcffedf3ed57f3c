"""How imaginary packets find their way: by each hop's own tables and rules, as the planner has them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer, LocationName
from meshwatchd.model.mtu import SizePlan
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.plan import Rule
from meshwatchd.model.topology import Path
from tests.sim.faults import Leg
from tests.sim.parts import TUNNEL_NS, WIRE_NS, Way

MAX_HOPS = 6

LOOP = Leg("forward", "loop", "loop")
"""Ends the way of a packet that would circle; nothing is delivered at the end of it."""


_Tables = tuple[tuple[Path, frozenset[str], frozenset[Rule]], ...]


Walk = Callable[[str, str, int | None], tuple[Leg, ...]]
"""The way from node to node: by a path's selectors, or with None for it as real traffic goes."""


def way_of(walk: Walk, source: str, plan: SessionPlan) -> Way:
    """The way of a session's probes and of their answers."""
    there = legs_of(walk, source, plan)
    stranger = "" if plan.canary is None else str(plan.canary.kind)
    if plan.is_ip6 or stranger:
        there = tuple(leg._replace(is_ip6=plan.is_ip6, stranger=stranger) for leg in there)
    if plan.layer is Layer.EFFECTIVE:
        back = walk(plan.peer, source, None)
    elif plan.layer is Layer.POD_NETWORK:
        back = tuple(
            leg._replace(stranger=stranger) for leg in _of_pods(walk(plan.peer, source, None), plan.peer, source)
        )
    else:
        back = tuple(leg._replace(source=leg.target, target=leg.source) for leg in reversed(there))
    return Way(there, back, _delay_ns(there), _delay_ns(back))


def legs_of(walk: Walk, source: str, plan: SessionPlan | SizePlan) -> tuple[Leg, ...]:
    """What the packets of a session pass on their way to its peer."""
    match plan.layer:
        case Layer.SELF:
            return (Leg("loop", source, source),)
        case Layer.IPIP:
            return (Leg("overlay", source, plan.peer), Leg("ipip", source, plan.peer))
        case Layer.POD:
            return (*walk(source, plan.peer, None), Leg("pod", plan.peer, plan.peer))
        case Layer.POD_NETWORK:
            return tuple(_of_pods(walk(source, plan.peer, None), source, plan.peer))
        case Layer.UNDERLAY:
            return (Leg("underlay", source, plan.peer),)
        case Layer.OVERLAY:
            return tuple(_of_pods((Leg("overlay", source, plan.peer),), source, plan.peer))
        case Layer.WIREGUARD:
            return (Leg("tunnel", source, plan.peer),)
        case Layer.EFFECTIVE:
            return walk(source, plan.peer, None)
        case _:
            return walk(source, plan.peer, plan.path)


def _of_pods(way: tuple[Leg, ...], source: str, target: str) -> Iterator[Leg]:
    """The same way, by addresses among pods at both ends, which each hop may tell from those of nodes."""
    if way and way[-1] is LOOP:
        yield from way
        return
    yield Leg("pods", source, source)
    for leg in way:
        yield leg
        if leg.kind == "forward":
            yield from (Leg("pods-forward", leg.source, end) for end in (source, target))
    yield Leg("pods", target, target)


def _delay_ns(legs: tuple[Leg, ...]) -> int:
    wires = (leg for leg in legs if leg.kind not in {"pods", "pods-forward"})
    return sum(TUNNEL_NS if leg.kind == "tunnel" else WIRE_NS for leg in wires)


class Routes:
    """The forwarding of all nodes; only the overrides change while the world runs."""

    def __init__(self, planner_of: Callable[[str], Planner], rules: Callable[[str], Container[Rule]]) -> None:
        self._planner_of, self._rules = planner_of, rules
        self._tables: dict[tuple[str, str], _Tables] = {}
        self._location: dict[str, str] = {}
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
        if not self._location:
            nodes = self._planner_of(here).topology.mesh.nodes
            self._location = {node.name: node.location for node in nodes}
        if self._location[here] == self._location[target]:
            return Leg("overlay", here, target)
        path = self._path_at(here, target, wanted)
        relay = path.relay_in(LocationName(self._location[here]))
        if relay == here:
            return Leg("tunnel", here, path.relay_in(LocationName(self._location[target])), path.number)
        return Leg("overlay", here, relay)

    def _path_at(self, here: str, target: str, wanted: int | None) -> Path:
        remote = self._location[target]
        if (here, remote) not in self._tables:
            self._tables[here, remote] = _tables(self._planner_of(here), remote)
        tables = self._tables[here, remote]
        rules = self._rules(here)
        for path, destinations, override in tables:
            is_chosen = path.number == wanted if wanted is not None else any(rule in rules for rule in override)
            if is_chosen and target in destinations:
                return path
        return tables[0][0]


def _tables(planner: Planner, remote: str) -> _Tables:
    """The paths to one location, the mesh's own first, each with the nodes it reaches and its override."""
    paths = (path for path in planner.topology.local_paths() if remote in path.locations)
    return tuple((path, *_table(planner, path)) for path in paths)


def _table(planner: Planner, path: Path) -> tuple[frozenset[str], frozenset[Rule]]:
    destinations = {route.dst for route in planner.routes(path)}
    remote = path.other_location(planner.topology.local.location)
    reached = frozenset(
        node.name for node in planner.topology.mesh.members(remote) if f"{node.node_ip}/32" in destinations
    )
    return reached, frozenset(planner.override(path))
