"""The port through which a mesh profile is asked what it recognises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

import msgspec

from meshwatchd.model.cluster_mesh import CLUSTER_MESH
from meshwatchd.model.ids import NodeName
from meshwatchd.model.open_vswitch import SWITCH_MESHES
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import Topology

LIQO = "liqo"

MESH_KINDS = ("kilo", "submariner", CLUSTER_MESH, "cilium", "flannel", *SWITCH_MESHES, "wireguard", LIQO)
"""The built-in kinds of mesh, the outermost first; third parties add theirs."""

BESIDE = frozenset((LIQO,))
"""Kinds that join a cluster with others beside the mesh of its nodes: they come last, and no mesh is called by them."""

SUBMARINER = "submariner"
SUBMARINER_CLEAR_TEXT = "vxlan-tunnel"
"""The device of Submariner's cable of the driver vxlan (VNI 1000, UDP 4500), which encrypts nothing."""
SUBMARINER_RESTART = (
    "kubectl -n submariner-operator delete pod -l app=submariner-routeagent --field-selector spec.nodeName={}"
)
"""Has a node's route agent write its routes and rules again."""


FLANNEL_WIREGUARD = "flannel-wg"
"""The device of flannel's wireguard backend, and of K3s' `wireguard-native`."""
FLANNEL_WORDS = (
    "flannel writes its route and its peers when a node's lease comes or changes, and looks at them at no other time:"
    " systemctl restart k3s (k3s-agent on an agent), or kubectl -n kube-flannel delete pod -l app=flannel"
    " --field-selector spec.nodeName={}, makes them anew"
)
"""Of that device, about a node: flannel's pkg/backend/wireguard."""


class Trait(StrEnum):
    """What the core and the agent have to know of a kind of mesh, whatever its name is."""

    STAR = "star"
    """The overlay leads from members to their leader and from it to them; members have no tunnel."""
    POD_ADDRESSED = "pod-addressed"
    """Between locations pods alone are routed: nodes go by their own address among them, and answers leave by another
    device than requests came in by."""
    WITHOUT_STANDBY = "without-standby"
    """Nothing of ours can carry traffic safely: nobody stands by, and faults are named only."""
    DIRECT = "direct"
    """The overlay leads from node to node over the nodes' own network, and nobody relays: each node leads itself."""
    CLUSTERED = "clustered"
    """Its locations are clusters of several nodes that each lead themselves, and which node goes by the name of a
    leader says nothing of the way that packets take."""
    HOST_ROUTED = "host-routed"
    """Outer packets to nodes of other locations go to their own addresses, by the routing tables of the host that sends
    them: a route of ours may lead them through a neighbour (`[cilium] outer_reroute`)."""
    DETOUR = "detour"
    """Pods of a location reach each other by a network beside the overlay, and each node sends on to other locations
    what comes to it by that: a member whose leg to the leader is broken may go by any of them (`model.detour`)."""
    REPLACES_ROUTES = "replaces-routes"
    """Its agent has routes of its own to the pods of other locations, in the place of those of the CNI below."""


TRAITS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "kilo": frozenset((Trait.REPLACES_ROUTES,)),
        SUBMARINER: frozenset((Trait.STAR, Trait.POD_ADDRESSED, Trait.WITHOUT_STANDBY, Trait.DETOUR)),
        CLUSTER_MESH: frozenset((Trait.DIRECT, Trait.CLUSTERED, Trait.HOST_ROUTED, Trait.WITHOUT_STANDBY)),
        **dict.fromkeys(SWITCH_MESHES, frozenset((Trait.DIRECT, Trait.WITHOUT_STANDBY))),
    }
)
"""Of the built-in kinds, by name; a third party's view has its own."""


def traits_of(kinds: Iterable[str], told: Iterable[str] = ()) -> frozenset[str]:
    """The traits of a mesh.

    Args:
        kinds: names of kinds that hold.
        told: traits that views have beside them. Nodes of older versions have none: their kinds are built in.
    """
    return frozenset(told).union(*(TRAITS.get(kind, frozenset()) for kind in kinds))


PROFILE_GROUP = "meshwatchd.profiles"
"""The entry points by which packages of third parties offer a kind of mesh (adapters.sources.plugins)."""


class Unrecognised(msgspec.Struct, frozen=True, kw_only=True):
    """This is not the profile's kind of mesh, and why."""

    reason: str


class Profile(Protocol):
    """One kind of mesh."""

    def recognise(self, snapshot: Snapshot, declared: MeshSettings, node: NodeName) -> Topology | Unrecognised:
        """Make a topology of what the kernel shows and the operator declares."""
