"""Who watches a pair of locations while nothing is wrong: a few nodes on each side, chosen by all alike.

What kills the path in use, the overlay of its relay or large packets is met by every node behind it: more of them would
cost the WAN more and find no more.
"""

from __future__ import annotations

from meshwatchd.model.digest import blake2b
from meshwatchd.model.ids import NodeName
from meshwatchd.model.topology import Mesh

MEMBERS = 2
"""Two machines, so that the death of one leaves one that asks."""


def scouts(mesh: Mesh, location: str, remote: str) -> tuple[NodeName, ...]:
    """The nodes of a location that look at its paths to another one, the one that does so first in front.

    The leader comes last: its probes cross no overlay of its own. It is one only where there are no two others.
    Rendezvous hashing (Thaler and Ravishankar 1998): a node that comes or goes changes the duties of few.
    """
    home = mesh.location(location)
    others = [node.name for node in mesh.members(location) if node.name not in home.relays()]
    others.sort(key=lambda name: _weight(location, remote, name), reverse=True)
    return (*home.standbys, *others, home.leader)[:MEMBERS]


def close(mesh: Mesh, location: str, remote: str) -> frozenset[NodeName]:
    """Those of a location who ask at full pace while a pair is awake: its relays, which decide, and its scouts."""
    return frozenset((*mesh.location(location).relays(), *scouts(mesh, location, remote)))


def _weight(location: str, remote: str, name: str) -> bytes:
    return blake2b(f"{location}/{remote}/{name}".encode(), digest_size=8).digest()
