"""The agent's look at Cilium Cluster Mesh: what Cilium's agent says, compared with its devices and with the probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from meshwatchd.core.audit.cilium_peers import audit_devices, audit_peers
from meshwatchd.core.audit.cluster_control import audit_control
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.cluster_mesh import CLUSTER_MESH, ENCRYPTION, TUNNELS
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.model.sources import Sources
from meshwatchd.model.status import Status

PEERS_NS: Final = 5 * SECOND
"""Between two looks at all peers of Cilium's device: thousands of nodes take a while, and its agent is as slow."""


class ClusterCare:
    """One node's.

    Args:
        sources: what other programs last said.
    """

    def __init__(self, sources: Callable[[], Sources]) -> None:
        self._sources = sources
        self._state: WireGuardState | None = None
        self._status: Status | None = None
        self._peers: tuple[AuditFinding, ...] = ()
        self._looked_at = -PEERS_NS

    def observe(self, states: tuple[WireGuardState, ...]) -> None:
        """WireGuard devices have been looked at."""
        self._state = next((each for each in states if each.device == ENCRYPTION), None)

    def note(self, status: Status) -> None:
        """Take in what the engine says of itself."""
        self._status = status

    def findings(self, view: View, now: int) -> Iterator[AuditFinding]:
        """What is wrong, in a Cluster Mesh; of other meshes nothing is said here."""
        if view.mesh.profile != CLUSTER_MESH:
            return
        sources = self._sources()
        yield from audit_devices(view.snapshot, view.node)
        yield from audit_control(sources.cilium_clusters, self._status)
        if now - self._looked_at >= PEERS_NS:
            self._looked_at, self._peers = now, tuple(self._look_at_peers(view, sources))
        yield from self._peers

    def _look_at_peers(self, view: View, sources: Sources) -> Iterator[AuditFinding]:
        link = view.snapshot.link(ENCRYPTION)
        if self._state is None or sources.cilium is None or link is None or not link.is_up:
            return
        names = {each.node_ip: str(each.name) for each in view.mesh.node}
        is_tunnelled = any(view.snapshot.link(name) is not None for name in TUNNELS)
        yield from audit_peers(self._state, sources.cilium, view.node, names, is_tunnelled=is_tunnelled)
