"""The pod networks a topology may ask for, by the name it asks with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from netnslab.antrea import ANTREA
from netnslab.bgp import BGP_OVERLAY
from netnslab.cilium import CILIUM
from netnslab.clustermesh import CLUSTER_MESH_OVERLAY
from netnslab.errors import LabError
from netnslab.flannel import FLANNEL, FLANNEL_OVER_WIREGUARD
from netnslab.liqo import LIQO
from netnslab.native_wireguard import FLANNEL_NATIVE_OVERLAY, HEXMESH_OVERLAY
from netnslab.overlay import Overlay
from netnslab.submariner import SUBMARINER_OVERLAY
from netnslab.topology import Topology

OVERLAYS: Mapping[str, Overlay] = MappingProxyType(
    {
        "flannel": FLANNEL,
        "cilium": CILIUM,
        "flannel-wg": FLANNEL_OVER_WIREGUARD,
        "submariner": SUBMARINER_OVERLAY,
        "flannel-native": FLANNEL_NATIVE_OVERLAY,
        "hexmesh": HEXMESH_OVERLAY,
        "antrea": ANTREA,
        "liqo": LIQO,
        "wireguard-bgp": BGP_OVERLAY,
        "cilium-clustermesh": CLUSTER_MESH_OVERLAY,
    }
)


def overlay_of(topology: Topology) -> Overlay:
    """The overlay a topology asks for.

    Raises:
        LabError: nothing of that name exists.
    """
    try:
        return OVERLAYS[topology.overlay]
    except KeyError:
        known = ", ".join(OVERLAYS)
        raise LabError(
            f"topology {topology.name} wants overlay {topology.overlay!r}; known overlays: {known}"
        ) from None
