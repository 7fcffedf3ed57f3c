"""Faults as predicates over the legs of a packet's way, named like the lab's."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from typing import Literal, NamedTuple

from meshwatchd.model.ids import FlowClass
from meshwatchd.model.settings import SECOND

Kind = Literal["loop", "underlay", "overlay", "ipip", "tunnel", "forward", "pod", "pods", "pods-forward"]

Ends = tuple[tuple[str, int], tuple[str, int]]
"""The two (address, port) pairs of a packet."""


class Leg(NamedTuple):
    """One step of a packet: over a wire or tunnel from one node to another, or through a node's forwarding.

    Attributes:
        inner: the ends of a probe's packet where somebody has to hash them; None for imaginary traffic.
        size: of the packet inside all wrappings; 0 for small ones.
        stranger: "tcp" or "udp" where it is no probe of ours to a reflector.
    """

    kind: Kind
    source: str
    target: str
    path: int = 0
    inner: Ends | None = None
    is_ip6: bool = False
    size: int = 0
    stranger: str = ""


Fault = Callable[[Leg, FlowClass, random.Random], bool]
"""Whether a packet of that flow class is lost on that leg."""


def size_limit(kind: Kind, node: str, limit: int, *, to: str = "", is_inbound: bool = True) -> Fault:
    """Packets of more than `limit` bytes die on legs of one kind at the node, silently.

    Args:
        kind: of the legs.
        node: at one of their ends.
        limit: of the packet inside.
        to: at the other end; all when empty.
        is_inbound: False spares the packets that come to the node.
    """

    def drops(leg: Leg, _flow: FlowClass, _rng: random.Random) -> bool:
        ends = leg.source, leg.target
        is_there = leg.kind == kind and node in ends and (not to or to in ends)
        return is_there and leg.size > limit and (is_inbound or leg.source == node)

    return drops


def overlay_new_flows(node: str, *, remembered: float = 0.17) -> Fault:
    """Fresh overlay packets leaving the node die, but for those whose outer flow is remembered."""

    def drops(leg: Leg, flow: FlowClass, rng: random.Random) -> bool:
        is_hit = leg.kind == "overlay" and leg.source == node and flow is FlowClass.FRESH
        return is_hit and rng.random() >= remembered

    return drops


def overlay_black_hole(node: str) -> Fault:
    """All overlay packets leaving the node die."""
    return lambda leg, _flow, _rng: leg.kind == "overlay" and leg.source == node


def not_forwarding(node: str) -> Fault:
    """The node forwards nothing."""
    return lambda leg, _flow, _rng: leg.kind == "forward" and leg.source == node


def dead(node: str) -> Fault:
    """Nothing enters or leaves the node, and nothing passes through it; its loopback is untouched."""
    return lambda leg, _flow, _rng: leg.kind != "loop" and node in (leg.source, leg.target)


def deaf(node: str) -> Fault:
    """The node hears nothing, itself included."""
    return lambda leg, _flow, _rng: leg.target == node and leg.kind not in {"forward", "pods-forward"}


def ipip_black_hole(node: str) -> Fault:
    """The node's IPIP device passes nothing in either direction."""
    return lambda leg, _flow, _rng: leg.kind == "ipip" and node in (leg.source, leg.target)


def without_ip6(node: str) -> Fault:
    """The node has lost its IPv6."""
    return lambda leg, _flow, _rng: leg.is_ip6 and node in (leg.source, leg.target)


def pod_dead(node: str) -> Fault:
    """No pod of the node answers."""
    return lambda leg, _flow, _rng: leg.kind == "pod" and leg.target == node


def pods_cut(node: str, *strangers: str) -> Fault:
    """A filter on the node drops what comes from its pods' addresses or goes there; its own address is spared.

    Args:
        node: where it stands.
        *strangers: "tcp" or "udp"; what is named is dropped and nothing else.
    """
    return lambda leg, _flow, _rng: (
        leg.kind == "pods" and leg.source == node and (leg.stranger in strangers or not strangers)
    )


def pods_not_forwarded(node: str, *ends: str) -> Fault:
    """The node forwards nothing between addresses among pods; with ends, nothing to or from those nodes' pods."""
    return lambda leg, _flow, _rng: (
        leg.kind == "pods-forward" and leg.source == node and (not ends or leg.target in ends)
    )


def tunnel_blocked(one: str, other: str) -> Fault:
    """The WireGuard port between two relays is blocked."""
    return lambda leg, _flow, _rng: leg.kind == "tunnel" and {leg.source, leg.target} == {one, other}


def one_way_tunnel(source: str, target: str) -> Fault:
    """Packets of one direction between two relays are lost, as by a broken NAT mapping."""
    return lambda leg, _flow, _rng: (leg.kind, leg.source, leg.target) == ("tunnel", source, target)


def random_loss(ratio: float) -> Fault:
    """Every packet may be lost on every leg that is a wire; IPIP is a wrapping of what the overlay carries."""
    return lambda leg, _flow, rng: leg.kind in {"underlay", "overlay", "tunnel", "pod"} and rng.random() < ratio


def lossy_node(node: str, ratio: float) -> Fault:
    """Every packet may be lost at the node's NIC, whatever it carries and wherever it goes."""
    wires = {"underlay", "overlay", "tunnel", "pod"}
    return lambda leg, _flow, rng: leg.kind in wires and node in (leg.source, leg.target) and rng.random() < ratio


def cut_between(one: str, other: str, *, is_both_ways: bool = True) -> Fault:
    """No packet passes between the hosts of two nodes, or none from the one to the other; they reach all others."""

    def drops(leg: Leg, _flow: FlowClass, _rng: random.Random) -> bool:
        ways = {(one, other), (other, one)} if is_both_ways else {(one, other)}
        return leg.kind in {"underlay", "overlay"} and (leg.source, leg.target) in ways

    return drops


class Slow:
    """Loses nothing: packets between two relays take longer, each by a time of its own."""

    def __init__(self, one: str, other: str, most_ns: int) -> None:
        self._ends, self._most_ns = {one, other}, most_ns

    def __call__(self, _leg: Leg, _flow: FlowClass, _rng: random.Random) -> bool:
        """Whether the packet is lost: never."""
        return False

    def delay_ns(self, leg: Leg, rng: random.Random) -> int:
        """By how much longer the leg takes."""
        if leg.kind != "tunnel" or {leg.source, leg.target} != self._ends:
            return 0
        return rng.randrange(self._most_ns)


def slow(one: str, other: str, most_ns: int) -> Fault:
    """The tunnel between two relays takes up to so much longer, differently for each packet."""
    return Slow(one, other, most_ns)


class StandsStill(Slow):
    """A machine that its hypervisor stops: what comes in meanwhile waits for the end of it."""

    def __init__(self, node: str, until_ns: int, clock: Callable[[], int]) -> None:
        super().__init__(node, node, 0)
        self._node, self._until_ns, self._clock = node, until_ns, clock

    def delay_ns(self, leg: Leg, rng: random.Random) -> int:
        """How long a packet that comes in now has to wait."""
        del rng
        is_arrival = leg.target == self._node and leg.source != self._node
        return max(0, self._until_ns - self._clock()) if is_arrival else 0


def lossy_path(one: str, other: str, ratio: float) -> Fault:
    """Packets between two relays may be lost."""
    return lambda leg, _flow, rng: (
        leg.kind == "tunnel" and {leg.source, leg.target} == {one, other} and rng.random() < ratio
    )


def outer_port(leg: Leg, ports: int) -> int:
    """The outer source port of an overlay packet: a hash of its ends that both directions share, keyed per pair."""
    assert leg.inner is not None, "only probes have ports"
    key = (*sorted((leg.source, leg.target)), *sorted(leg.inner))
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big") % ports


class FlowTable:
    """A network below one node's overlay that remembers outer flows, and from `break_down` on learns no new ones.

    Args:
        node: whose overlay packets it carries.
        memory_ns: how long it remembers a flow after its last packet.
        clock: the world's time.
        ports: outer source ports; VXLAN takes them from ip_local_port_range.
    """

    def __init__(self, node: str, memory_ns: int, clock: Callable[[], int], ports: int = 28_232) -> None:
        self.is_broken = False
        self._node, self._memory_ns, self._clock, self._ports = node, memory_ns, clock, ports
        self._seen: dict[tuple[str, int], int] = {}

    def __call__(self, leg: Leg, flow: FlowClass, _rng: random.Random) -> bool:
        """Whether the packet is lost: whatever leaves the node in a flow that is not remembered."""
        if leg.kind != "overlay" or self._node not in (leg.source, leg.target):
            return False
        if leg.inner is None:
            return self.is_broken and leg.source == self._node and flow is FlowClass.FRESH
        key = (leg.target if leg.source == self._node else leg.source, outer_port(leg, self._ports))
        is_known = self._clock() - self._seen.get(key, -self._memory_ns - 1) <= self._memory_ns
        if is_known or not self.is_broken:
            self._seen[key] = self._clock()
        return self.is_broken and leg.source == self._node and not is_known

    def flows(self) -> dict[str, int]:
        """How many outer flows it has seen, by the node at their other end."""
        peers = sorted(peer for peer, _ in self._seen)
        return {peer: peers.count(peer) for peer in dict.fromkeys(peers)}

    def prefill(self, rates: dict[str, float], probed_ns: int, rng: random.Random) -> None:
        """Remember what so long a time of probing would have left: inner flows never repeat, their hashes are even.

        Args:
            rates: new inner flows a second, by the node at the other end.
            probed_ns: how long there has been probing.
            rng: the world's.
        """
        window_ns = min(probed_ns, self._memory_ns)
        for peer, rate in rates.items():
            for _ in range(math.ceil(rate * window_ns / SECOND)):
                key = (peer, rng.randrange(self._ports))
                self._seen[key] = max(self._seen.get(key, 0), self._clock() - rng.randrange(window_ns))


def broken_buckets(node: str, quarter: float = 0.25) -> Fault:
    """Overlay flows of the node whose hash falls into a share of the buckets die, old or new."""

    def drops(leg: Leg, flow: FlowClass, rng: random.Random) -> bool:
        if leg.kind != "overlay" or node not in (leg.source, leg.target):
            return False
        if leg.inner is None:
            return flow is FlowClass.FRESH and rng.random() < quarter
        return outer_port(leg, 1_024) < quarter * 1_024

    return drops
