"""Whom a node greets: nodes that it knows, some of them in turn, and addresses where others may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meshwatchd.core.membership.cadence import CLOSE, direct_ns
from meshwatchd.core.membership.hello_schedule import OTHER_NS, Ring
from meshwatchd.core.membership.presence import CAPABILITY, Crowds
from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName


class GreetingPlan(NamedTuple):
    """What `hello_schedule.Pace` aims at.

    Attributes:
        known: by address of a known node the longest interval between two hellos to it.
        rings: of such addresses, one for each location whose nodes are greeted in turn.
        others: likewise, by addresses where somebody may be.
        urgent: those of them where somebody is who has to hear of a change at once.
    """

    known: dict[str, int]
    rings: tuple[Ring, ...]
    others: dict[str, int]
    urgent: frozenset[str] = frozenset()


MAX_NATIVE = 32
"""Nodes of a mesh whose pods are routed straight into WireGuard that are greeted through it as well; more are declared,
at addresses where all reach each other."""


def plan_greetings(
    own: Hello | None,
    peers: Mapping[NodeName, Hello],
    crowds: Crowds,
    *,
    places: Iterable[str] = (),
    direct: Collection[str] = (),
    is_relay: bool = True,
) -> GreetingPlan:
    """Known nodes at their own addresses, everybody else where somebody may be.

    Args:
        own: what this node advertises; None while it cannot.
        peers: the last hello of each other node.
        crowds: of all of them.
        places: addresses where others may be.
        direct: addresses at which nodes can be had outside of the mesh.
        is_relay: this node has to know how it is seen there.
    """
    home = own.home if own is not None else LocationName("")
    known: dict[str, int] = {}
    turns: dict[LocationName, list[str]] = {}
    hellos = (*peers.values(), *(() if own is None else (own,)))
    for hello in sorted(peers.values(), key=lambda each: each.view.node_ip):
        cadence = crowds.cadence(home, hello.home) if CAPABILITY in hello.capabilities else CLOSE
        if hello.view.node_ip:
            known[hello.view.node_ip] = cadence.interval_ns
        if hello.view.node_ip and cadence.is_in_turn:
            turns.setdefault(hello.home, []).append(hello.view.node_ip)
    rings = tuple(
        Ring(name=location, addresses=tuple(addresses), step_ns=crowds.cadence(home, location).interval_ns)
        for location, addresses in turns.items()
    )
    for ring in rings:
        known |= dict.fromkeys(ring.addresses, ring.step_ns * len(ring.addresses))
    aliases = {
        address for each in hellos for address in (each.view.overlay_ip, each.view.wireguard_ip, each.view.node_ip6)
    }
    mine = {own.view.node_ip, own.view.overlay_ip, own.view.wireguard_ip} if own is not None else set()
    through = _through(own, peers)
    others = dict.fromkeys((*direct, *through, *places))
    certain = {*direct, *through}
    wanted = (each for each in others if each not in mine and (each in certain or each not in aliases))
    seldom_ns = direct_ns(crowds.sizes[home], is_relay=is_relay)
    slow_ns = {each: seldom_ns if each in direct else OTHER_NS for each in wanted}
    # Whose tunnel is broken may hear nothing by it of what is wrong with the other end.
    urgent = slow_ns if through else [each for each in direct if is_relay and each in slow_ns]
    return GreetingPlan(known, rings, slow_ns, frozenset(urgent))


def _through(own: Hello | None, peers: Mapping[NodeName, Hello]) -> tuple[str, ...]:
    """Addresses in the tunnel, where each node has one to each other and none needs to be reachable by its own address.

    Behind NAT a node is had by nothing else; and what has become of a tunnel its end hears where the tunnel ends.
    """
    if own is None or not own.view.is_native or len(peers) > MAX_NATIVE:
        return ()
    return tuple(hello.view.overlay_ip for hello in peers.values() if hello.view.is_native and hello.view.overlay_ip)
