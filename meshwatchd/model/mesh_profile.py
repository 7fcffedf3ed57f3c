"""The port through which a mesh profile is asked what it recognises."""

from __future__ import annotations

from typing import Protocol

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import Topology

MESH_KINDS = ("kilo", "submariner", "cilium", "flannel", "wireguard")
"""The built-in kinds of mesh, the outermost first; third parties add theirs."""

SUBMARINER = "submariner"
SUBMARINER_CLEAR_TEXT = "vxlan-tunnel"
"""The device of Submariner's cable of the driver vxlan (VNI 1000, UDP 4500), which encrypts nothing."""
SUBMARINER_RESTART = (
    "kubectl -n submariner-operator delete pod -l app=submariner-routeagent --field-selector spec.nodeName={}"
)
"""Has a node's route agent write its routes and rules again."""

WITHOUT_STANDBY = frozenset((SUBMARINER,))
"""Kinds of mesh in which nothing of ours can carry traffic safely: nobody stands by, and faults are named only."""

PROFILE_GROUP = "meshwatchd.profiles"
"""The entry points by which packages of third parties offer a kind of mesh (adapters.sources.plugins)."""


class Unrecognised(msgspec.Struct, frozen=True, kw_only=True):
    """This is not the profile's kind of mesh, and why."""

    reason: str


class Profile(Protocol):
    """One kind of mesh."""

    def recognise(self, snapshot: Snapshot, declared: MeshSettings, node: NodeName) -> Topology | Unrecognised:
        """Make a topology of what the kernel shows and the operator declares.

        Args:
            snapshot: a complete dump of this node's kernel state.
            declared: the `[mesh]` section; its lists are empty where everything is discovered.
            node: the name of the node this daemon runs on.
        """
        ...
