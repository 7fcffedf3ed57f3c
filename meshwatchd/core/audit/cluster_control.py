"""Control planes of other clusters that Cilium's agent does not hear, while the nodes of those clusters answer.

agent        probes
connected    answered    nothing to say
cut          answered    clustermesh-control-cut: endpoints and identities are frozen
any          silent      a verdict of the probes (`diagnosis.cluster_rules`), which has the agent's word in it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.sources import CiliumCluster, CiliumClusters, Sources
from meshwatchd.model.status import Status


def controls_of(sources: Sources) -> tuple[ClusterControl, ...]:
    """The control planes of other clusters, as the engine gets them; nothing while the agent does not say."""
    told, nodes = sources.cilium_clusters, sources.cilium
    counts = Counter(node.cluster for node in nodes.nodes) if nodes is not None else Counter[str]()
    if told is None or nodes is None:
        return ()
    return tuple(
        ClusterControl(
            name=each.name,
            is_connected=each.is_connected and each.is_ready,
            nodes=counts[each.name],
        )
        for each in told.clusters
    )


def audit_control(told: CiliumClusters | None, status: Status | None) -> Iterator[AuditFinding]:
    """One finding for each cluster that the agent has lost and whose nodes answer this one."""
    for each in told.clusters if told is not None else ():
        if each.is_connected and each.is_ready:
            continue
        if status is not None and _is_reached(status, each.name):
            yield _finding(each)


def _is_reached(status: Status, cluster: str) -> bool:
    """Whether probes to nodes of a cluster are answered at present."""
    paths = (path for pair in status.pairs if pair.remote_location == cluster for path in pair.paths)
    return any(path.is_active and path.state == "good" for path in paths)


def _finding(told: CiliumCluster) -> AuditFinding:
    what = "is connected to it and has not read all of it" if told.is_connected else "has no connection to it"
    tries = f", after {told.failures} attempts in vain" if told.failures else ""
    return AuditFinding(
        code=FaultCode.CLUSTERMESH_CONTROL_CUT,
        device="",
        subject=told.name,
        because=(
            f"Cilium's agent {what}: control plane of cluster {told.name}{tries}",
            *((f"in its words: {told.status}",) if told.status else ()),
            f"probes to nodes of {told.name} are answered: what is between nodes is well",
        ),
    )
