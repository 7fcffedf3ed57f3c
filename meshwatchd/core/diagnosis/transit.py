"""Which nodes lie between two locations, and so who is asked about a broken path and who may be named for it.

    b3 --overlay-- b1 ==tunnel== a1 --overlay-- a3    leaders pass on what others send, or are the two ends
    e1, e2, e3 ===========overlay=========== w1, w2   each node sends to each node there by itself

Chosen by the topology once: evidence and rules ask for the answers, not for the kind of mesh.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.legs import MOST_MEMBERS, MOST_NEIGHBOURS, any_leg, leg, neighbours_asked
from meshwatchd.core.session.session import Session
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.topology import Node, Path, Topology

Sessions = tuple[Session, ...]

MOST_BESIDE = 2
"""Neighbours that a member asks over its overlay to tell its own fault from its leader's."""


def _few(sessions: Sessions, node: NodeName) -> Sessions:
    # A lambda could not be in a checkpoint of the journal.
    return neighbours_asked(sessions, node, MOST_MEMBERS)


class Transit(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the nodes on the way; the same for all pairs of a mesh.

    Attributes:
        passes_leaders: packets pass the leaders of both locations, or end there: each of them may be what loses all.
        is_node_to_node: there is one node at each end: what it loses to all others at once is lost at that node.
        proves_own_overlay: packets to another location cross the overlay that neighbours are reached by.
        most_beside: neighbours beside the own leader whose answers tell whether a node's own overlay works.
        overlay_unasked: what counts as their word where none of them can be asked.
        weigh: what hosts at the far end, or neighbours, say together: all of them, or any where each is one of many.
        neighbours: of the sessions within a location, those of nodes that are asked about its overlay at all.
    """

    passes_leaders: bool = True
    is_node_to_node: bool = False
    proves_own_overlay: bool = False
    most_beside: int = MOST_BESIDE
    overlay_unasked: Leg = Leg.ALIVE
    weigh: Callable[[Sessions, int], Leg] = leg
    neighbours: Callable[[Sessions, NodeName], Sessions] = _few

    def leaves_by(self, node: Node, path: Path) -> NodeName:
        """The node by which packets of a node leave its location."""
        return path.relay_in(node.location) if self.passes_leaders else node.name

    def enters_by(self, location: LocationName, path: Path) -> NodeName:
        """The node by which packets enter a location; empty where each node there is sent its own."""
        return path.relay_in(location) if self.passes_leaders else NodeName("")


_BY_EACH = Transit(
    passes_leaders=False,
    proves_own_overlay=True,
    most_beside=MOST_NEIGHBOURS,
    weigh=any_leg,
    neighbours=neighbours_asked,
)


def transit_of(topology: Topology) -> Transit:
    """What a mesh is like in this respect."""
    if topology.is_clustered:
        return _BY_EACH
    # In a star no member has an overlay to another one: what its leader reaches decides whose fault it is.
    unasked = Leg.DEAD if topology.is_overlay_star else Leg.ALIVE
    return Transit(is_node_to_node=topology.is_overlay_direct, overlay_unasked=unasked)
