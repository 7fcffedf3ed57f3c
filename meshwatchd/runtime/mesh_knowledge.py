"""Where a node knows its mesh from, for operators."""

from __future__ import annotations

from typing import Final

from meshwatchd.core.membership.mesh_builder import is_whole
from meshwatchd.core.membership.roster import Roster
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.status import Knowledge

SHOWN: Final = 16
"""Names and sentences in a status; the log has all of them."""


def describe_knowledge(declared: MeshSettings, roster: Roster, problems: tuple[str, ...]) -> Knowledge:
    """The origin of the mesh, and what is missing."""
    kept = tuple(name for name in sorted(roster.peers) if roster.peers[name].is_kept)
    if is_whole(declared):
        origin = "declared"
    elif roster.mesh is None:
        origin = "nothing"
    else:
        origin = "cache" if roster.peers and len(kept) == len(roster.peers) else "hellos"
    return Knowledge(origin=origin, nodes=len(roster.peers) + 1, unheard=kept[:SHOWN], problems=problems[:SHOWN])
