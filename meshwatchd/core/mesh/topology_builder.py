"""Which mesh this node is in: what was found out, else what is declared, put to the profile it names."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from meshwatchd.core.membership.own_networks import OwnNetworks
from meshwatchd.core.routes.detours import Places
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import TRAITS, Profile, Trait, Unrecognised, traits_of
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.topology import Topology


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What beside the topology decides which sessions and objects there are.

    Attributes:
        mesh: as it was declared or found out.
        is_acting: whether the kernel may be changed.
        external: indices of the devices on which each packet carries its own destination, as Cilium's eBPF gives it:
            what leaves by one without any is lost, and no counter shows it. Where Submariner delivers by the cluster's
            own CNI, answers go another way than requests came: by the gateway.
    """

    mesh: MeshSettings
    is_acting: bool
    external: tuple[int, ...] = ()

    @classmethod
    def of(cls, settings: Settings, snapshot: Snapshot, *, is_acting: bool) -> Surroundings:
        """The surroundings as of a snapshot."""
        mesh = settings.mesh
        return cls(
            mesh=mesh,
            is_acting=is_acting,
            external=tuple(each.index for each in snapshot.links if _is_external(each) or _is_one_way(each, mesh)),
        )


def _is_external(link: Link) -> bool:
    return link.kind == "geneve" or (link.vxlan is not None and link.vxlan.is_external)


def _is_one_way(link: Link, mesh: MeshSettings) -> bool:
    """Whether requests from other locations come in by a device that leads to none: any but the mesh's own."""
    own = {mesh.overlay_device, mesh.wireguard_device, "lo"}
    return (
        Trait.POD_ADDRESSED in traits_of((mesh.profile,), mesh.traits) and bool(link.addresses) and link.name not in own
    )


class Recogniser:
    """Makes topologies of snapshots.

    Args:
        profiles: by kind of mesh; kinds of third parties are gone through as the first of the same shape.

    Attributes:
        settings: the same with the mesh that was recognised last as the declared one.
    """

    def __init__(self, settings: Settings, node: NodeName, profiles: Mapping[str, Profile]) -> None:
        self.settings = settings
        self._declared = settings.mesh
        self._node = node
        self._profiles = profiles
        self._found: MeshSettings | None = None
        self._own_networks = OwnNetworks()
        self._places = Places(settings.kernel.table_base)

    def recognise(self, snapshot: Snapshot) -> Topology | Unrecognised:
        """The mesh as of a snapshot; what was found out once stays valid while nothing new is found out.

        An agent that has just been started knows nothing yet: that is no news about the mesh.
        """
        mesh = snapshot.mesh or self._found or self._declared
        profile = self._profile_of(mesh)
        if mesh.location and self._node not in {node.name for node in mesh.node}:
            return Unrecognised(
                reason=f"node {self._node} is not among the nodes of the mesh; is daemon.node its name?"
            )
        topology = profile.recognise(snapshot, mesh, self._node)
        if isinstance(topology, Topology):
            contradictions = self._own_networks.compare(snapshot, mesh, self._node)
            refused = tuple(dict.fromkeys(each.prefix for each in contradictions))
            detours = (
                self._places.keep(topology.detours, snapshot.routes) if self.settings.submariner.leg_detour else ()
            )
            topology = msgspec.structs.replace(topology, refused=refused, windows=snapshot.windows, detours=detours)
            self._found = snapshot.mesh or self._found
            self.settings = msgspec.structs.replace(self.settings, mesh=mesh)
        return topology

    def _profile_of(self, mesh: MeshSettings) -> Profile:
        """That of the kind, or of the first with the same shape: a third party's devices are gone through alike."""
        if mesh.profile in self._profiles:
            return self._profiles[mesh.profile]
        is_star = Trait.STAR in traits_of((mesh.profile,), mesh.traits)
        return next(each for kind, each in self._profiles.items() if (Trait.STAR in TRAITS.get(kind, ())) == is_star)
