"""What nodes find out by themselves: the view of one node, and what it tells the others.

    kernel, files, agents of Kilo and Cilium --profiles--> LocalView --hello--> peers
    LocalView, hellos, cache, operator's pins --roster---> MeshSettings ------> engine

Nothing here needs Kubernetes. A node knows itself and where others may be; the mesh is what all of them tell.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.mesh_profile import Trait, traits_of


class Basis(IntEnum):
    """How well founded a node's word about its location is; the larger number is believed."""

    NONE = 0
    DERIVED = 1
    SOURCE = 2
    OPERATOR = 3


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for what was recognised.

    Attributes:
        source: where it was read: "link kilo0", "/run/flannel/subnet.env", "kilo graph".
        text: what it says, as a sentence.
    """

    source: str
    text: str


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An address at which another node of the mesh may be.

    Attributes:
        address: IPv4 or IPv6, routed as the mesh routes it.
        is_local: it is in this node's own location, as far as one can see.
    """

    address: str
    is_local: bool = False


class DeviceLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One device that packets of the mesh go through.

    Attributes:
        kind: "wireguard", "ipip", "vxlan", "geneve", "underlay"; of a host mesh its own (`host_mesh.HOST_MESH_KINDS`).
        over: the device its outer packets leave by; empty where nothing tells, or nothing is below.
    """

    kind: str
    device: str
    mtu_bytes: int
    over: str = ""


class LocalView(msgspec.Struct, frozen=True, kw_only=True):
    """What one node can tell of itself with nobody's help.

    Attributes:
        profiles: names of the profiles that hold here, the outermost first: ("kilo", "flannel").
        location: as its sources name it; empty while nothing does.
        leader: address of the node of this location that relays, as this node's routes have it; its own overlay
            address on the leader; empty where nobody relays (full granularity) or nothing tells.
        granularity: "location", "full", "cross"; empty where the notion does not apply.
        node_ip, pod_cidr, overlay_ip, wireguard_ip: as in `topology.Node`; wireguard_ip on leaders only.
        is_pod_cidr_in_kernel: a bridge's network or a route of this node is that prefix, or has been; else only an
            agent or a file says so.
        node_macs: by which this node may answer ARP for node_ip: of the device that has it, then of its other network
            cards; empty where that device is no Ethernet, and from versions that do not advertise them.
        vtep_mac: of its overlay device, empty without one.
        vtep_port, vtep_vni: the UDP port that its VXLAN device sends to and listens at, and its VNI; 0 where there is
            none, where each packet carries its own, and from nodes of versions that do not tell.
        wireguard_device, overlay_device, ipip_device: as in `settings.MeshSettings`; empty where there is none.
        wireguard_mtu_bytes: of the mesh's WireGuard device.
        public_endpoint: host where others can reach this node from outside; empty behind NAT or where nothing tells.
        layers: the devices of the mesh, the outermost first, the network card last.
        candidates: where hellos may be sent.
        why: one finding for each thing above, and for each profile that does not hold.
        contradictions: prefixes that a source gives to this node's pods and that are not believed, as sentences.
        traits: what is peculiar to a mesh of a third party (`mesh_profile.Trait`); those of a built-in one are known.
    """

    profiles: tuple[str, ...]
    node: NodeName
    location: LocationName = LocationName("")
    leader: str = ""
    is_leader: bool = False
    granularity: str = ""
    node_ip: str = ""
    pod_cidr: str = ""
    is_pod_cidr_in_kernel: bool = False
    overlay_ip: str = ""
    wireguard_ip: str = ""
    node_ip6: str = ""
    overlay_ip6: str = ""
    wireguard_ip6: str = ""
    node_macs: tuple[str, ...] = ()
    vtep_mac: str = ""
    vtep_port: int = 0
    vtep_vni: int = 0
    wireguard_device: str = ""
    overlay_device: str = ""
    ipip_device: str = ""
    wireguard_mtu_bytes: int = 0
    public_endpoint: str = ""
    layers: tuple[DeviceLayer, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    why: tuple[Finding, ...] = ()
    contradictions: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()

    def told(self) -> LocalView:
        """What others hear of it, and keep: without what is this node's own business, and has no bounds."""
        if not (self.candidates or self.why or self.contradictions):
            return self
        return msgspec.structs.replace(self, candidates=(), why=(), contradictions=())

    @property
    def is_native(self) -> bool:
        """Whether pods are routed straight into the mesh's WireGuard device, as with flannel's wireguard backend."""
        return self.overlay_device == self.wireguard_device != ""

    @property
    def passes_leaders(self) -> bool:
        """Whether packets to other locations pass leaders, or end there; else each node sends its own."""
        return Trait.CLUSTERED not in traits_of(self.profiles, self.traits)

    @property
    def loses_tunnel_with_pods(self) -> bool:
        """Whether what loses this node's pods loses all else of it: nothing is asked but by the way of its pods."""
        return self.is_native or not self.passes_leaders


class ToldFault(msgspec.Struct, frozen=True, array_like=True):
    """A fault by its code, and the node that has it: what one node tells others of causes that only its kernel shows.

    The code is text, since a node of another version may have words that this one does not know.

    Attributes:
        peer: the node that a leader does not reach for it; empty where others have to do with it.
    """

    fault: str
    culprit: NodeName
    peer: NodeName = NodeName("")


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What one node tells the others, admitted by the mesh key and signed with the node's own.

    Attributes:
        view: what it sees of itself, without `candidates`, `why` and `contradictions` (`LocalView.told`).
        standby_public_key: base64 of 32 bytes, empty for a node that will not relay.
        standby_endpoint: host part of where its standby links can be reached; empty behind NAT.
        version: of meshwatchd.
        mode: `settings.Mode`; only nodes in enforce relay.
        capabilities: names of what it can do, for peers of other versions.
        home: the location this node takes itself to be in; empty while it cannot tell. A name that nothing in the
            cluster gives is remembered and repeated here, so that it outlives the leader it was made from.
        basis: what `home` rests on.
        leads_since_ns: when this node began to lead, nanoseconds since 1970; 0 for others. Of two that say they lead,
            as happens where the agent of the former leader has died, the later one does.
        tunnel_public_key, tunnel_port: of its end of the mesh's WireGuard, by which peers tell where they see it.
        faults: what it has found in its kernel, of its own neighbours as well (`audit.peer_faults`); a bounded number.
    """

    view: LocalView
    standby_public_key: str = ""
    standby_endpoint: str = ""
    version: str = ""
    mode: str = ""
    capabilities: tuple[str, ...] = ()
    home: LocationName = LocationName("")
    basis: Basis = Basis.NONE
    leads_since_ns: int = 0
    tunnel_public_key: str = ""
    tunnel_port: int = 0
    faults: tuple[ToldFault, ...] = ()
