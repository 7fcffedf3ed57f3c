"""What the makers of a mesh, or of the one below it, would say about a verdict, and what they would type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from meshwatchd.model.cluster_mesh import CLUSTER_MESH, RESTART
from meshwatchd.model.faults import FaultCode, Verdict
from meshwatchd.model.host_mesh import describe_carrier
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD, FLANNEL_WORDS, SUBMARINER, SUBMARINER_RESTART
from meshwatchd.model.open_vswitch import CHECKSUM_WORDS, SWITCH_MESHES
from meshwatchd.model.topology import Topology

_MOVE = (
    "Submariner keeps this gateway while its pod holds the lease, whatever becomes of traffic: kubectl label node"
    " {node} submariner.io/gateway-, where another node has the label; label it again after 15 s"
)
_LEG = (
    "Submariner's health check does not cross the VXLAN leg from a worker to its gateway (UDP 4800): allow that port"
    f" between them, then {SUBMARINER_RESTART.format('{node}')}"
)

_OF_GATEWAYS: Mapping[FaultCode, str] = MappingProxyType(
    dict.fromkeys(
        (
            *(FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE, FaultCode.RELAY_NOT_FORWARDING),
            *(FaultCode.WIREGUARD_BLOCKED, FaultCode.LEADER_DEAD),
        ),
        _MOVE,
    )
)
_OF_WORKERS: Mapping[FaultCode, str] = MappingProxyType(
    dict.fromkeys((FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE), _LEG)
)
_OF_FLANNEL: Mapping[FaultCode, str] = MappingProxyType(
    dict.fromkeys(
        (
            *(FaultCode.CLUSTER_ROUTE_MISSING, FaultCode.OVERLAY_DEVICE_DOWN, FaultCode.WIREGUARD_DEVICE_MISSING),
            *(FaultCode.WIREGUARD_PEER_MISSING, FaultCode.WIREGUARD_ENDPOINT_MOVED),
            *(FaultCode.ALLOWED_IPS_MISSING, FaultCode.ALLOWED_IPS_STOLEN),
        ),
        FLANNEL_WORDS.format("{node}"),
    )
)
"""Of its wireguard backend."""


_OF_OVERLAYS = frozenset(
    (
        *(FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE, FaultCode.POD_NETWORK_BROKEN),
        *(FaultCode.OVERLAY_DEVICE_MISSING, FaultCode.OVERLAY_DEVICE_DOWN, FaultCode.OVERLAY_EMPTIED),
        *(FaultCode.CLUSTER_ROUTE_MISSING, FaultCode.POD_ROUTE_MISSING),
    )
)


_AFFINITY = "kubectl annotate service NAME service.cilium.io/affinity=local --overwrite has it served at home meanwhile"
_OF_CLUSTERS: Mapping[FaultCode, str] = MappingProxyType(
    {
        FaultCode.CLUSTERMESH_DATAPATH_CUT: (
            "Cilium acts on none of it, and its status stays good (cilium#20547): between all nodes of both clusters"
            f" UDP 8472 (Geneve 6081; with WireGuard 51871), TCP 4240 and ICMP have to pass; {_AFFINITY}"
        ),
        FaultCode.CLUSTER_BACKENDS_UNREACHABLE: (
            "Cilium keeps the backends of a cluster that is gone (clustermesh-cache-ttl 0, cilium#20729): cilium"
            f" clustermesh disconnect ends that; {_AFFINITY}"
        ),
        **dict.fromkeys(
            (
                *(FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE, FaultCode.POD_NETWORK_BROKEN),
                *(FaultCode.NODE_UNREACHABLE, FaultCode.ALLOWED_IPS_MISSING, FaultCode.WIREGUARD_PEER_MISSING),
            ),
            "Cilium writes its maps and its peers when it is told of a node, and all of them when it starts:"
            f" {RESTART.format('{node}')}",
        ),
    }
)
"""Of Cilium Cluster Mesh: nothing of the host's stands between what eBPF decides and the nodes' own network."""


_OF_TUNNELS = frozenset(
    (
        *(FaultCode.WIREGUARD_BLOCKED, FaultCode.LEADER_DEAD, FaultCode.ONE_WAY_BREAK, FaultCode.ALL_PATHS_DOWN),
        *(FaultCode.WIREGUARD_NO_HANDSHAKE, FaultCode.WIREGUARD_NO_DATA, FaultCode.MTU_BLACK_HOLE),
        *(FaultCode.MTU_MISCONFIGURED, FaultCode.FRAGMENTS_DROPPED, FaultCode.LOCAL, FaultCode.UNDETERMINED),
    )
)
"""What may have its cause below the tunnel."""


def advise(verdict: Verdict, topology: Topology) -> Verdict:
    """The verdict with the owners' words about it as its last sentences: of this kind of mesh, and of one below it."""
    words = _words(verdict, topology)
    of_mesh = words.format(node=verdict.culprit) if verdict.culprit or "{node}" not in words else ""
    below = ""
    if verdict.fault in _OF_TUNNELS:
        below = describe_carrier(topology.carrier, topology.wireguard_device or topology.overlay_device)
    told = tuple(text for text in (of_mesh, below) if text and text not in verdict.because)
    return msgspec.structs.replace(verdict, because=(*verdict.because, *told)) if told else verdict


def _of_switch(fault: FaultCode, topology: Topology) -> str:
    """Of Open vSwitch: the switch's own tables decide, and its agents fill them."""
    if fault is FaultCode.OFFLOAD_FAULT:
        return CHECKSUM_WORDS.format(topology.overlay_device)
    return SWITCH_MESHES[topology.profile].words.format("{node}") if fault in _OF_OVERLAYS else ""


def _words(verdict: Verdict, topology: Topology) -> str:
    if topology.wireguard_device == topology.overlay_device == FLANNEL_WIREGUARD:
        return _OF_FLANNEL.get(verdict.fault, "")
    if topology.profile == CLUSTER_MESH:
        return _OF_CLUSTERS.get(verdict.fault, "")
    if topology.profile in SWITCH_MESHES:
        return _of_switch(verdict.fault, topology)
    if topology.profile != SUBMARINER:
        return ""
    leaders = {location.leader for location in topology.mesh.locations}
    return (_OF_GATEWAYS if verdict.culprit in leaders else _OF_WORKERS).get(verdict.fault, "")
