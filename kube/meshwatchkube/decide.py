"""All decisions: two pictures and a memory in, actions out. No clock, no socket; the same inputs give the same actions.

    Look -> Decisions.decide -> actions

Without a picture of the mesh, or one that the daemon itself does not trust, nothing is decided. Without a picture of
the cluster that is fresh and shows the nodes of this mesh, nothing is written, and every wait begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchkube.actions import Action, Drain
from meshwatchkube.cluster import Cluster
from meshwatchkube.detour import steer
from meshwatchkube.gating import Gating
from meshwatchkube.look import Look
from meshwatchkube.mesh import Mesh
from meshwatchkube.promotion import Promotions
from meshwatchkube.settings import Settings


class Decisions:
    """Decides at each look."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._promotions = Promotions(settings.promotion)
        self._gating = Gating(settings.gating, settings.promotion.report_age)

    def decide(self, look: Look) -> Iterator[Action]:
        """What is to be done."""
        mesh, cluster, memory = look.mesh, look.cluster, look.memory
        if memory is not None:
            yield from steer(mesh, memory)
        if not mesh.is_reliable or not cluster.is_fresh or mistaken(mesh, cluster):
            self.forget()
            return
        yield from self._follow_drain(mesh, cluster)
        if not cluster.is_writer or memory is None:
            self.forget()
            return
        yield from self._promotions.decide(look, memory)
        yield from self._gating.decide(mesh, cluster, now=look.now)

    def forget(self) -> None:
        """Begin all waits anew: what happened meanwhile is not known."""
        self._promotions.forget()
        self._gating.forget()

    def _follow_drain(self, mesh: Mesh, cluster: Cluster) -> Iterator[Action]:
        """`kubectl drain` of this node takes its daemon out of service; a cordon of ours does not."""
        node = cluster.nodes.get(mesh.node)
        if not self._settings.drain.follow or node is None:
            return
        is_wanted = node.spec.unschedulable and not node.is_cordoned_here
        if is_wanted != mesh.is_drained:
            yield Drain(is_drained=is_wanted)


def mistaken(mesh: Mesh, cluster: Cluster) -> str:
    """Why the nodes of this API are not those of this mesh; empty where they are.

    A kubeconfig that leads elsewhere, or an API that is another one behind the same name: names may well be the same
    in both, addresses are not. In a mesh that routes pods alone they are addresses among the node's pods.
    """
    if mesh.node not in cluster.nodes:
        return f"this API has no node {mesh.node}"
    for name, member in sorted(mesh.members.items()):
        node = cluster.nodes.get(name)
        if node is not None and member.address and not node.has(member.address):
            known = ", ".join(sorted(node.addresses)) or "no address"
            return f"node {name} has {known} in this API, and {member.address} in the mesh"
    return ""
