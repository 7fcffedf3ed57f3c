"""Who watches a pair of locations at full pace: a few nodes on each side, chosen by all nodes alike without a word.

    leader      relays the path in use, and decides
    scouts      MEMBERS nodes besides: the other relays first, then those of the highest random weight

What kills a path or its relay's overlay is met by every node behind it, so a few meet it as soon as all would, and they
tell the relays at their first miss (`failover.confirm_burst`). More of them would cost the WAN more and find no more.
"""

from __future__ import annotations

import hashlib

from meshwatchd.model.ids import NodeName
from meshwatchd.model.topology import Mesh

MEMBERS = 2
"""Nodes of a side besides its leader: two machines, so that the death of one leaves one that asks."""


def scouts(mesh: Mesh, location: str, remote: str) -> tuple[NodeName, ...]:
    """The nodes of a location that watch its paths to another one at full pace, those to be asked first in front.

    The leader comes last: its probes cross no overlay of its own. It is one only where there are no two others.
    Rendezvous hashing (Thaler and Ravishankar 1998): a node that comes or goes changes the duties of few.
    """
    home = mesh.location(location)
    others = [node.name for node in mesh.members(location) if node.name not in home.relays()]
    others.sort(key=lambda name: _weight(location, remote, name), reverse=True)
    return (*home.standbys, *others, home.leader)[:MEMBERS]


def _weight(location: str, remote: str, name: str) -> bytes:
    return hashlib.blake2b(f"{location}/{remote}/{name}".encode(), digest_size=8).digest()
