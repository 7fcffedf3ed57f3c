"""Which nodes of other clusters this node's outer packets reach through a neighbour, and what that takes in the kernel.

    pref S  iif lo ipproto udp dport RELAYED lookup TRIED     questions through a neighbour, and
    pref S  iif lo ipproto udp sport RELAYED lookup TRIED     answers to them
    pref S  iif lo ipproto udp dport OUTER lookup REROUTED    outer packets, for each port that they go to
    table   W/32 via NEIGHBOUR dev D src THIS onlink          one route for each node in question

All of it is there while a neighbour is tried or in use. A packet to any other node finds no route in these tables and
goes on to the next rule. `iif lo` is met by what this node sends itself and never by what it forwards: of two nodes
that each reach a third one through the other, each forwards the other's packets by its own main table, so nothing
circles.

A few nodes at a time, and seldom: where many are out of reach at once, the fault is hardly the way to one of them. They
take turns, each node's own ones first, so that one that a neighbour does reach is found among many that nobody does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface

from meshwatchd.core.routes.outer_way import LONGEST_NS, OuterWay
from meshwatchd.model.digest import sha256
from meshwatchd.model.outer_reroute import REROUTED_SLOT, TRIED_SLOT, FarNode, Relay, WayAnswer, WayQuestion
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.port_map import relayed_port
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import MINUTE, KernelSettings, MeshSettings, PolicySettings
from meshwatchd.model.snapshot import Snapshot

MOST_NODES = 8
"""That are looked at, at a time."""
REMEMBERED_NS = 10 * MINUTE
"""How long it counts that a node's own way had to be left: the neighbour is kept twice as long the next time."""


class OuterReroute:
    """All of them, of one node."""

    def __init__(self, node: str, policy: PolicySettings) -> None:
        self._node, self._policy = node, policy
        self._far: dict[str, FarNode] = {}
        self._relays: tuple[Relay, ...] = ()
        self._ways: dict[str, OuterWay] = {}
        self._holds: dict[str, tuple[int, int]] = {}
        self._missed: frozenset[str] = frozenset()
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._orders: dict[str, tuple[Relay, ...]] = {}
        self._seen: tuple[object, object] = (None, None)

    @property
    def ways(self) -> tuple[OuterWay, ...]:
        """The nodes that are looked at."""
        return tuple(self._ways.values())

    @property
    def far(self) -> Mapping[str, FarNode]:
        """All nodes of other clusters, by name."""
        return self._far

    @property
    def relays(self) -> tuple[Relay, ...]:
        """All nodes on this node's own network."""
        return self._relays

    def see(self, snapshot: Snapshot, mesh: MeshSettings) -> None:
        """Take in who is there; a node that has gone or has another address is forgotten with its route."""
        if snapshot.links is self._seen[0] and mesh is self._seen[1]:
            return
        self._seen = snapshot.links, mesh
        home = next((each.location for each in mesh.node if each.name == self._node), None)
        self._far = {
            each.name: FarNode(name=each.name, address=each.node_ip, overlay=each.overlay_ip)
            for each in mesh.node
            if home is not None and each.location != home and each.node_ip and each.overlay_ip
        }
        self._relays, self._orders = relays_of(snapshot, mesh, self._node), {}
        self._ways = {
            name: way
            for name, way in self._ways.items()
            if self._far.get(name) == way.far and (way.relay is None or way.relay in self._relays)
        }

    def suspect(self, names: Collection[str]) -> None:
        """Look at these nodes: nothing that the engine sends to their pods is answered. Others are none of them."""
        self._missed = frozenset(names)
        self._turns = {name: turn for name, turn in self._turns.items() if name in self._missed}
        missed = [name for name in self._missed if name in self._far]
        for name in sorted((each for each in missed if each not in self._ways), key=self._order):
            if not self._has_room():
                break
            hold_ns, _ = self._holds.get(name, (0, 0))
            is_slow = len(missed) > MOST_NODES or name in self._turns
            self._ways[name] = OuterWay(self._far[name], self._policy, hold_ns=hold_ns, is_slow=is_slow)

    def _order(self, name: str) -> tuple[int, bytes]:
        """Who has had no place yet, then who has had none for longest; another order at each node."""
        return self._turns.get(name, 0), sha256(f"{self._node} {name}".encode()).digest()

    def _has_room(self) -> bool:
        """Nodes that nobody reaches for long make room, or those that are gone for good would have all places."""
        if len(self._ways) < MOST_NODES:
            return True
        idle = next((name for name, way in self._ways.items() if way.is_idle), None)
        if idle is None:
            return False
        del self._ways[idle]
        self._turn += 1
        self._turns[idle] = self._turn
        return True

    def adopt(self, routes: Iterable[Route], now: int) -> None:
        """Go on from the routes of outer packets that an earlier process has left."""
        for route in routes:
            address = route.dst.removesuffix("/32")
            far = next((each for each in self._far.values() if each.address == address), None)
            relay = next((each for each in self._relays if (each.address, each.device) == (route.via, route.dev)), None)
            if far is not None and relay is not None and far.name not in self._ways and len(self._ways) < MOST_NODES:
                self._ways[far.name] = OuterWay(far, self._policy)
                self._ways[far.name].adopt(relay, now)

    def forget(self) -> None:
        """Begin anew, without any route."""
        self._ways.clear()

    def questions(self) -> Iterator[WayQuestion]:
        """What the next round asks."""
        for way in self._ways.values():
            yield from way.questions(self._preferred(way.far.name))

    def observe(self, answers: Mapping[WayQuestion, WayAnswer | None], now: int, *, may_move: bool) -> None:
        """Take in a round."""
        self._holds = {name: (hold, until) for name, (hold, until) in self._holds.items() if until > now}
        for name, way in tuple(self._ways.items()):
            own = {question: answer for question, answer in answers.items() if question.node == name}
            if own:
                order = self._preferred(name)
                way.observe(own, order, now, may_move=may_move, is_missed=name in self._missed)
            if way.is_clear:
                del self._ways[name]
                if way.has_been_rerouted:
                    hold_ns = min(2 * way.hold_ns, LONGEST_NS)
                    self._holds[name] = (hold_ns, now + REMEMBERED_NS + hold_ns)

    def provision(self, window: RuleWindow, kernel: KernelSettings, probe_port: int, ports: Iterable[int]) -> Provision:
        """The routes and rules of the moment; none where no neighbour is tried.

        Args:
            window: where rules of ours stand.
            kernel: numbers of ours.
            probe_port: the first port of ours.
            ports: UDP ports that outer packets go to.
        """
        tried = [each for each in self._ways.values() if each.is_tried]
        if not tried:
            return Provision()
        own, priority = relayed_port(probe_port), window.selector(0)
        table, rerouted_table = kernel.table_base + TRIED_SLOT, kernel.table_base + REROUTED_SLOT
        rules = [
            Rule(priority=priority, table=table, iif="lo", dport=(own, own)),
            Rule(priority=priority, table=table, iif="lo", sport=(own, own)),
        ]
        routes = [route for each in tried if (route := route_of(each, table)) is not None]
        rerouted = [each for each in tried if each.is_rerouted]
        routes += [route for each in rerouted if (route := route_of(each, rerouted_table)) is not None]
        rules += outer_rules(priority, rerouted_table, ports) if rerouted else ()
        return Provision(routes=tuple(routes), rules=tuple(rules))

    def _preferred(self, name: str) -> tuple[Relay, ...]:
        """Neighbours for a node, in an order of its own for each two nodes: not all choose the same one."""
        if name not in self._orders:
            others = (each for each in self._relays if each.name != name)
            order = sorted(others, key=lambda each: sha256(f"{self._node} {name} {each.name}".encode()).digest())
            self._orders[name] = tuple(order)
        return self._orders[name]


def relays_of(snapshot: Snapshot, mesh: MeshSettings, node: str) -> tuple[Relay, ...]:
    """All other nodes whose own address is on a network of this node's own address: a route can lead through them."""
    own = next((each.node_ip for each in mesh.node if each.name == node), "")
    found = next(
        (
            (link.name, IPv4Interface(f"{address}/{length}").network)
            for link in snapshot.links
            for address, length in zip(link.addresses, link.prefix_lengths, strict=False)
            if address == own and link.is_up
        ),
        None,
    )
    if found is None:
        return ()
    device, network = found
    return tuple(
        Relay(name=each.name, address=each.node_ip, device=device, source=own)
        for each in mesh.node
        if each.name != node and each.node_ip and IPv4Address(each.node_ip) in network
    )


def route_of(way: OuterWay, table: int, relay: Relay | None = None) -> Route | None:
    """The route to a node through its neighbour, or through another one."""
    chosen = relay or way.relay
    if chosen is None:
        return None
    return Route(dst=f"{way.far.address}/32", table=table, dev=chosen.device, via=chosen.address, src=chosen.source)


def outer_rules(priority: int, table: int, ports: Iterable[int]) -> tuple[Rule, ...]:
    """The rules of outer packets that this node sends itself."""
    return tuple(Rule(priority=priority, table=table, iif="lo", dport=(port, port)) for port in ports)
