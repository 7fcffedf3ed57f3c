"""Two clusters of three nodes, what their networks lose, and each node's own decisions about outer packets."""

from __future__ import annotations

import random
from collections.abc import Iterator

from meshwatchd.core.routes.outer_reroute import OuterReroute, route_of
from meshwatchd.core.routes.outer_way import ROUND_NS
from meshwatchd.model.outer_reroute import Way, WayAnswer, WayQuestion
from meshwatchd.model.plan import Route
from meshwatchd.model.settings import PolicySettings
from tests.support.cluster_node import EAST, NAMES, WEST, mesh, node_ip, snapshot

SUSPECTED_ROUNDS = 2
"""So long the engine needs until it doubts a node."""


class OuterWorld:
    """A round of all nodes at a time.

    Attributes:
        dead: directed pairs of nodes between which every packet is lost, unless it goes through a third.
        filtered: directed pairs of which outer packets alone are.
        broken: nodes whose own overlay is: it loses what it sends and what comes in, on whatever way.
        stubborn: nodes that forward nothing, and do not know it: a filter of theirs, or their cloud's.
        hiding: nodes that put their own address into what they forward.
        deaf: nodes whose agent has ended: nobody asks and answers there, while packets pass as before.
        loss: the share of questions through a neighbour that is lost by chance.
        enforcing: nodes that may move anything.
        lost: for how many rounds in a row the pods of two nodes have not reached each other.
    """

    def __init__(self, policy: PolicySettings | None = None) -> None:
        self.dead: set[tuple[str, str]] = set()
        self.filtered: set[tuple[str, str]] = set()
        self.broken: set[str] = set()
        self.stubborn: set[str] = set()
        self.hiding: set[str] = set()
        self.down: set[str] = set()
        self.deaf: set[str] = set()
        self.loss, self._dice = 0.0, random.Random(7)
        self.enforcing = set(NAMES)
        self.now = 0
        self.policy = policy or PolicySettings()
        self.nodes = {name: self._make(name) for name in NAMES}
        self.lost = {(one, other): 0 for one in EAST for other in WEST}

    def _make(self, name: str) -> OuterReroute:
        made = OuterReroute(name, self.policy)
        made.see(snapshot(name), mesh())
        return made

    def restart(self, name: str) -> None:
        """A new process of a node, which finds the routes of the one before."""
        before = self.nodes[name]
        self.nodes[name] = self._make(name)
        self.nodes[name].adopt(self.routes(before), self.now)

    def cut(self, one: str, other: str) -> None:
        """Lose everything between two nodes, both ways."""
        self.dead |= {(one, other), (other, one)}

    def heal(self) -> None:
        """Lose nothing."""
        for each in (self.dead, self.filtered, self.broken, self.stubborn, self.hiding, self.down, self.deaf):
            each.clear()

    def relay(self, one: str, other: str) -> str:
        """Through whom outer packets of one node to another go; empty for their own way."""
        way = next((each for each in self.nodes[one].ways if each.far.name == other and each.is_rerouted), None)
        return way.relay.name if way is not None and way.relay is not None else ""

    def tried(self, one: str, other: str) -> str:
        """Through whom questions of one node to another go, and its answers."""
        way = next((each for each in self.nodes[one].ways if each.far.name == other and each.is_tried), None)
        return way.relay.name if way is not None and way.relay is not None else ""

    def carries(self, one: str, other: str) -> bool:
        """Whether their pods reach each other."""
        return self._outer(one, other, self.relay(one, other)) and self._outer(other, one, self.relay(other, one))

    def carries_without_us(self, one: str, other: str) -> bool:
        """Whether they would if every outer packet went its own way."""
        return self._outer(one, other, "") and self._outer(other, one, "")

    def step(self) -> None:
        """One round of every node."""
        asked = {name: tuple(node.questions()) for name, node in self.nodes.items() if self._acts(name)}
        answers = {name: {each: self._answer(name, each) for each in every} for name, every in asked.items()}
        self.now += ROUND_NS
        for name, each in answers.items():
            self.nodes[name].observe(each, self.now, may_move=name in self.enforcing)
        for (one, other), count in self.lost.items():
            self.lost[one, other] = 0 if self.carries(one, other) else count + 1
        missed = [pair for pair, count in self.lost.items() if count >= SUSPECTED_ROUNDS]
        for name, node in self.nodes.items():
            node.suspect([one if name == other else other for one, other in missed if name in (one, other)])

    def run(self, seconds: float) -> Iterator[None]:
        """Rounds for so long; after each the caller looks."""
        for _ in range(round(seconds * 2)):
            self.step()
            yield

    def run_until_carried(self, one: str, other: str, *, seconds: float) -> bool:
        """Whether their pods reach each other within so long."""
        return any(self.carries(one, other) for _ in self.run(seconds))

    def has_objects(self) -> bool:
        """Whether any node wants a route."""
        return any(way.is_tried for node in self.nodes.values() for way in node.ways)

    @staticmethod
    def routes(node: OuterReroute) -> tuple[Route, ...]:
        """Those of outer packets, as its kernel holds them."""
        found = (route_of(way, 7797) for way in node.ways if way.is_rerouted)
        return tuple(each for each in found if each is not None)

    def _hop(self, one: str, other: str, *, is_outer: bool = False) -> bool:
        if one in self.down or other in self.down or (one, other) in self.dead:
            return False
        return not (is_outer and (one, other) in self.filtered)

    def _passes(self, one: str, other: str, relay: str, *, is_outer: bool = False) -> bool:
        """A packet that is led aside once; whoever forwards it goes by its main table alone."""
        if not relay:
            return self._hop(one, other, is_outer=is_outer)
        is_forwarded = relay not in self.stubborn and self._hop(relay, other, is_outer=is_outer)
        return self._hop(one, relay, is_outer=is_outer) and is_forwarded

    def _outer(self, one: str, other: str, relay: str) -> bool:
        is_broken = one in self.broken or other in self.broken
        return not is_broken and self._passes(one, other, relay, is_outer=True)

    def _acts(self, name: str) -> bool:
        return name not in self.down and name not in self.deaf

    def _answer(self, asker: str, question: WayQuestion) -> WayAnswer | None:
        far = question.node
        is_deaf = far in self.deaf
        if is_deaf and question.way is not Way.VOUCHED:
            return None
        is_led = question.way is Way.RELAYED or (question.way is Way.OVERLAY and self.relay(asker, far))
        if is_led and self._dice.random() < self.loss:
            return None
        if question.way is Way.DIRECT:
            is_answered = self._hop(asker, far) and self._hop(far, asker)
            return WayAnswer(seen=node_ip(asker)) if is_answered else None
        if question.way is Way.OVERLAY:
            return WayAnswer() if self.carries(asker, far) else None
        if question.way is Way.RELAYED:
            relay = self.tried(asker, far)
            is_answered = self._passes(asker, far, relay) and self._passes(far, asker, self.tried(far, asker))
            return WayAnswer(seen=node_ip(relay if relay in self.hiding else asker)) if is_answered else None
        relay = question.relay
        if not (self._hop(asker, relay) and self._hop(relay, asker)) or relay in self.deaf:
            return None
        is_host_reached = self._hop(relay, far) and self._hop(far, relay)
        is_reached = is_host_reached and self.carries(relay, far) and not is_deaf
        return WayAnswer(is_reached=is_reached, is_willing=True)
