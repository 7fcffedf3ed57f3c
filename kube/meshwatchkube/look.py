"""What one decision rests on: both pictures, the memory and the instant."""

from __future__ import annotations

from dataclasses import dataclass

from meshwatchkube.cluster import Cluster
from meshwatchkube.memory import Memory
from meshwatchkube.mesh import Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at everything.

    Attributes:
        memory: None while the Lease cannot be read, or holds what nobody here can make sense of.
        now: monotonic nanoseconds.
        now_s: seconds of Unix time.
    """

    mesh: Mesh
    cluster: Cluster
    memory: Memory | None
    now: int
    now_s: int

    def version(self, node: str) -> str:
        """The version in which a Node was seen."""
        found = self.cluster.nodes.get(node)
        return "" if found is None else found.metadata.resource_version

    def is_in(self, node: str, location: str) -> bool:
        """Whether a node of the mesh is in a location."""
        member = self.mesh.members.get(node)
        return member is not None and member.location == location
