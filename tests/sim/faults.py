"""Faults as predicates over the legs of a packet's way, named like the lab's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, NamedTuple

from meshwatchd.model.ids import FlowClass

Kind = Literal["loop", "underlay", "overlay", "ipip", "tunnel", "forward", "pod"]


class Leg(NamedTuple):
    """One step of a packet: over a wire or tunnel from one node to another, or through a node's forwarding."""

    kind: Kind
    source: str
    target: str
    path: int = 0
    is_ip6: bool = False


Fault = Callable[[Leg, FlowClass, random.Random], bool]
"""Whether a packet of that flow class is lost on that leg."""


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
    return lambda leg, _flow, _rng: leg.target == node and leg.kind != "forward"


def ipip_black_hole(node: str) -> Fault:
    """The node's IPIP device passes nothing in either direction."""
    return lambda leg, _flow, _rng: leg.kind == "ipip" and node in (leg.source, leg.target)


def without_ip6(node: str) -> Fault:
    """The node has lost its IPv6."""
    return lambda leg, _flow, _rng: leg.is_ip6 and node in (leg.source, leg.target)


def pod_dead(node: str) -> Fault:
    """No pod of the node answers."""
    return lambda leg, _flow, _rng: leg.kind == "pod" and leg.target == node


def tunnel_blocked(one: str, other: str) -> Fault:
    """The WireGuard port between two relays is blocked."""
    return lambda leg, _flow, _rng: leg.kind == "tunnel" and {leg.source, leg.target} == {one, other}


def one_way_tunnel(source: str, target: str) -> Fault:
    """Packets of one direction between two relays are lost, as by a broken NAT mapping."""
    return lambda leg, _flow, _rng: (leg.kind, leg.source, leg.target) == ("tunnel", source, target)


def random_loss(ratio: float) -> Fault:
    """Every packet may be lost on every leg that is a wire."""
    return lambda leg, _flow, rng: leg.kind not in {"forward", "loop"} and rng.random() < ratio


def lossy_path(one: str, other: str, ratio: float) -> Fault:
    """Packets between two relays may be lost."""
    return lambda leg, _flow, rng: (
        leg.kind == "tunnel" and {leg.source, leg.target} == {one, other} and rng.random() < ratio
    )
