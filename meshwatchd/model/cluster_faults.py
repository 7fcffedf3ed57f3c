"""The lines of the catalogue about clusters as a whole: what is between two of them, and what agents say of it."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode, Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.units import SECOND

CLUSTER_FAULTS = (
    Fault(
        code=FaultCode.CLUSTERMESH_DATAPATH_CUT,
        layer=Layer.RELAY,
        title="packets between two clusters are lost, whatever the agents' status says",
        remedy="let UDP 8472 (Geneve 6081; with WireGuard 51871), TCP 4240 and ICMP pass between all nodes of both"
        " clusters; look at routes and filters between their networks",
        about="No node of the other cluster answers in the overlay. cilium status, clustermesh status and the agents'"
        " health are about etcd and about one flow a minute, and stay good. Where one node is named the others of its"
        " cluster reach the other one; where none is, what is lost is lost between the clusters.",
    ),
    Fault(
        code=FaultCode.CLUSTER_BACKENDS_UNREACHABLE,
        layer=Layer.RELAY,
        title="nothing of another cluster is reached, and its backends go on receiving traffic",
        remedy="cilium clustermesh disconnect, or kubectl annotate service NAME service.cilium.io/affinity=local"
        " --overwrite, until the cluster is back; set clustermesh-cache-ttl for the next time",
        about="Neither nodes nor control plane of the other cluster answer. By default agents keep for ever what they"
        " were told of a cluster, so a share of the connections to each global service goes to pods that are gone.",
    ),
    Fault(
        code=FaultCode.CLUSTERMESH_CONTROL_CUT,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="the agent hears nothing of another cluster any more, while packets to it pass",
        remedy="cilium-dbg status --all-clusters on that node, cilium clustermesh status; look at TCP 2379 (or its"
        " NodePort) of the other cluster's clustermesh-apiserver, and at both certificates",
        confirm_ns=20 * SECOND,
        about="What the agent knows of the other cluster is frozen: pods that end there stay backends here, and those"
        " that begin are not found. Connections that exist go on. Probes between the nodes are answered, or"
        " `cluster-backends-unreachable` would be reported.",
    ),
    Fault(
        code=FaultCode.OUTER_WAY_BROKEN,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="the way of outer packets to one node of another cluster is dead, while a neighbour reaches it",
        remedy="look at routes and filters between the two addresses; until then outer packets can go through the"
        " neighbour: with [cilium] outer_reroute = true in mode enforce they do",
        confirm_ns=15 * SECOND,
        about="This node's VXLAN, Geneve or WireGuard packets to one node of another cluster are lost, so that its pods"
        " are not reached from here; a node on the same network reaches it. The fault says which, and the route and the"
        " rules that lead outer packets through it. Where that is allowed it is done once packets through the neighbour"
        " have been answered, and undone when the way of their own answers again. While it is in force the fault stands"
        " as a warning: the relay is a second thing that can fail.",
    ),
)
"""Found by probes and by what Cilium's agent says, together."""
