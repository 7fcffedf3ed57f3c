"""What a node knows beside one pair of locations, where the overlay stands on the tunnel and nobody has neighbours.

Seen through one tunnel, a fault at this end and one at the other look alike, and so do a dead node and a blocked
tunnel. What tells them apart:

    this node's tunnels and overlay legs to all other locations       all of them at once: the fault is here
    canaries at a node's address outside of the mesh, a public one    its host lives, whatever became of the tunnel
    canaries behind all other nodes                                   only this node's probes pass: the fault is here
    canaries in bulk behind all other nodes                           all of them lost: this node's offload is broken
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network

from meshwatchd.core.diagnosis.advisory_probes import (
    bulk_and_handshake,
    is_bulk,
    is_mute,
    is_service,
    place_of,
    sort_bulk,
)
from meshwatchd.core.diagnosis.evidence import Beside, Leg
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.session.session import Session
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.topology import Path, Topology

MOST_ASKED = 8
"""Other locations whose word counts: so many at once are no coincidence, and a mesh may have hundreds."""

Judge = Callable[[tuple[Session, ...], int], Leg]
"""The state of a leg from its sessions' outcomes since an instant: `pair.leg`."""


class Surroundings:
    """The sessions that do not belong to a pair and say something about it all the same.

    Attributes:
        carrier: the layer that carries the pair's own path, below the overlay.
    """

    def __init__(self, topology: Topology, schedule: Schedule, primary: Path, remote: str) -> None:
        self._is_direct = topology.is_overlay_direct
        self.carrier = Layer.UNDERLAY if topology.is_on_underlay else Layer.WIREGUARD
        nodes = topology.mesh.nodes if self._is_direct else ()
        self._known = frozenset(
            address for node in nodes for address in (node.node_ip, node.wireguard_ip, node.overlay_ip)
        )
        self._pods = tuple(node.pod_cidr for node in nodes)
        self._on_tunnel = frozenset(address for node in nodes for address in (node.node_ip, node.wireguard_ip))
        here = frozenset(node.name for node in nodes if node.location == remote)
        pods = schedule.select(layer=Layer.POD, is_advisory=True) if self._is_direct else ()
        asked = tuple(s for s in pods if not is_service(s.plan))
        canaries = tuple(s for s in asked if not is_bulk(s.plan))
        self._bulk = tuple(pair for pair in bulk_and_handshake(asked) if pair[0].plan.peer not in here)
        outside = tuple(s for s in canaries if self.is_outside(s.plan))
        self._outside = tuple(s for s in outside if s.plan.peer in here)
        self._outside_elsewhere = _by_peer(s for s in outside if s.plan.peer not in here)
        self._behind = tuple(s for s in canaries if s.plan.peer not in here and self.crosses_overlay(s.plan))
        self._tunnels = self._elsewhere(schedule, self.carrier, primary)
        self._overlays = self._elsewhere(schedule, Layer.RELAY, primary)

    def _elsewhere(self, schedule: Schedule, layer: Layer, primary: Path) -> tuple[tuple[Session, ...], ...]:
        if not self._is_direct:
            return ()
        sessions = schedule.select(layer=layer, flow=FlowClass.FRESH)
        return _by_peer(session for session in sessions if session.plan.path != primary.number)

    def is_outside(self, plan: SessionPlan) -> bool:
        """Whether a canary asks a host at an address that no tunnel and no overlay of the mesh carries."""
        if not self._is_direct or plan.destination in self._known:
            return False
        # The mesh tells no IPv6 prefixes of pods: of such an address nobody knows where it is.
        return not plan.is_ip6 and not _is_in(plan.destination, self._pods)

    def crosses_overlay(self, plan: SessionPlan) -> bool:
        """Whether a canary is asked through what carries pods' traffic; a kubelet on the tunnel's address is not."""
        return plan.destination not in self._on_tunnel and not self.is_outside(plan)

    def look(self, since: int, judge: Judge, *, bulk_lost_since: int = 0) -> Beside:
        """What they say.

        Args:
            since: when the pair's suspicion began; 0 while there is none, and standing states count.
            judge: weighs sessions.
            bulk_lost_since: when the pair began to lose full segments; 0 while it does not.
        """
        if not self._is_direct:
            return Beside()
        return Beside(
            outside=judge(self._outside, since),
            has_tunnel=self.carrier is Layer.WIREGUARD,
            has_outside=any(session.is_proven for session in self._outside),
            outside_elsewhere=_joined(self._outside_elsewhere, since, judge),
            tunnels=_joined(self._tunnels, since, judge),
            overlays=_joined(self._overlays, since, judge),
            silent=tuple(place_of(s.plan) for s in self._behind if is_mute(s)),
            bulk=sort_bulk(self._bulk, bulk_lost_since),
            answering=tuple(place_of(s.plan)[0] for s in self._behind if not is_mute(s)),
        )


def _by_peer(sessions: Iterable[Session]) -> tuple[tuple[Session, ...], ...]:
    found: dict[str, list[Session]] = {}
    for session in sessions:
        found.setdefault(session.plan.peer, []).append(session)
    return tuple(tuple(each) for each in found.values())[:MOST_ASKED]


@lru_cache(maxsize=64)
def _is_in(address: str, prefixes: tuple[str, ...]) -> bool:
    """Every pair asks of the same few canaries, and reading the prefixes of a large mesh takes a millisecond."""
    found = ip_address(address)
    return any(found in ip_network(prefix, strict=False) for prefix in prefixes)


def _joined(legs: Iterable[tuple[Session, ...]], since: int, judge: Judge) -> Leg:
    """Alive where one is; dead where all are that were ever alive; in between nobody can say."""
    found = [judge(each, since) for each in legs if any(session.is_proven for session in each)]
    if Leg.ALIVE in found:
        return Leg.ALIVE
    return Leg.DEAD if found and all(each is Leg.DEAD for each in found) else Leg.UNKNOWN
