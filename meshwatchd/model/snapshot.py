"""The part of the kernel's state that decisions rest on, as one value.

A snapshot is only ever sent after a complete dump: its arrival is the in-sync gate that opens changes.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import MeshSettings


class Vxlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a VXLAN device is set up.

    Attributes:
        local: source of its outer packets; empty where the route decides.
        remote: where frames go whose receiver is not known, a node or a group; empty where the FDB alone tells.
        lower: index of the device it was bound to, 0 for none.
        is_external: each packet carries its own destination (collect metadata), as on Cilium's device.
    """

    vni: int
    port: int
    local: str = ""
    lower: int = 0
    is_external: bool = False
    remote: str = ""


class Geneve(msgspec.Struct, frozen=True, kw_only=True):
    """How a Geneve device is set up.

    Attributes:
        remote: where everything goes; empty where each packet carries its own destination, as on Open vSwitch's.
    """

    vni: int
    port: int
    remote: str = ""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A network device.

    Attributes:
        kind: IFLA_INFO_KIND, as "wireguard", "vxlan", "tun"; empty for devices without one.
        is_up: the IFF_UP flag, which is what makes a Kilo node a leader.
        addresses: its IPv4 addresses without prefix length, a bounded number of them.
        addresses_v6: its global IPv6 addresses, likewise.
        prefix_lengths: of `addresses`, in their order.
        lladdr: its link-layer address as six colon-separated bytes; empty where it has none, as a tunnel.
        vxlan, geneve: for devices of that kind.
    """

    name: str
    index: int
    kind: str
    is_up: bool
    mtu_bytes: int
    addresses: tuple[str, ...] = ()
    addresses_v6: tuple[str, ...] = ()
    prefix_lengths: tuple[int, ...] = ()
    lladdr: str = ""
    vxlan: Vxlan | None = None
    geneve: Geneve | None = None


class DeviceRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's route into a device of the mesh; IPv4 or IPv6, `via` and `src` empty where there is none.

    Attributes:
        metric, scope: as in linux/rtnetlink.h; with is_onlink all that it takes to put the very same route back.
        is_onlink: the gateway is taken as reachable whatever the device's addresses say.
        kind: "blackhole", "unreachable", "prohibit" or "throw" for a route at which packets end: it has no device, and
            `dev` is empty. Else empty.
    """

    dst: str
    dev: str
    table: int
    protocol: int
    via: str = ""
    src: str = ""
    metric: int = 0
    scope: int = 0
    is_onlink: bool = False
    kind: str = ""


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """How many routes lead to one gateway: what thousands of them have in common."""

    dev: str
    via: str
    table: int
    protocol: int
    routes: int


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """Which link-layer address an address on a device of the mesh has.

    Attributes:
        is_permanent: made by a program for good (NUD_PERMANENT), as flannel does.
    """

    dev: str
    address: str
    lladdr: str
    is_permanent: bool


class Forwarding(msgspec.Struct, frozen=True, kw_only=True):
    """Which remote VTEP a MAC address is behind: one FDB entry of a VXLAN device."""

    dev: str
    lladdr: str
    dst: str


class WireGuardPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A peer of a WireGuard device.

    Attributes:
        endpoint: "address:port" where packets go, empty before the peer is known to be anywhere.
        handshake_ns: CLOCK_MONOTONIC at the last handshake, 0 for never.
    """

    public_key: str
    endpoint: str = ""
    allowed_ips: tuple[str, ...] = ()
    keepalive_s: int = 0
    handshake_ns: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0

    @property
    def host(self) -> str:
        """The address of the endpoint; empty where that is unknown."""
        return self.endpoint.rpartition(":")[0].strip("[]")


class WireGuardState(msgspec.Struct, frozen=True, kw_only=True):
    """What a WireGuard device, of the kernel or of a process, is configured with and has seen.

    Attributes:
        public_key: base64, empty before a private key is set.
        at_ns: CLOCK_MONOTONIC when it was asked.
    """

    device: str
    public_key: str
    listen_port: int
    at_ns: int
    peers: tuple[WireGuardPeer, ...] = ()


class RouteLookup(msgspec.Struct, frozen=True, kw_only=True):
    """By which device the kernel sends packets to an address, and by which router; empty where it is on the link."""

    address: str
    dev: str
    via: str = ""


class DestinationRule(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else's rule that has one destination looked up in a table: `to PREFIX lookup TABLE`, of IPv4.

    Attributes:
        to: with its length written, host bits zero.
    """

    priority: int
    to: str
    table: int


class ForeignObject(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else's rule or route that sits where ours would go.

    Attributes:
        priority: of a rule in our window; -1 for anything else.
        is_ahead: a rule that is asked before ours, and answers: what stands of ours is in vain.
    """

    what: str
    owner_protocol: int
    priority: int = -1
    is_ahead: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Links, our own marked rules and routes, whatever collides with them, and the state of the mesh's devices.

    Attributes:
        device_routes, neighbours, forwarding: of WireGuard and overlay devices; a bounded number of each, for there are
            thousands on a node of a large mesh.
        gateways: of all routes into these devices, and of those that Kilo may have made into others, the most frequent
            first; bounded as well.
        default_routes: of the main table, whatever device they lead into.
        dead_ends: IPv4 routes of the main table at which packets end; a bounded number.
        destination_rules: of others, in the kernel's order, as Liqo has them for other clusters; a bounded number.
        is_bounded: some of these were left out.
        wireguard: peers of WireGuard devices, as of the last change that was more than a counter's.
        lookups: of the endpoints of WireGuard peers; a bounded number.
        near: likewise of neighbours that a detour may lead by (`model.detour`).
        windows: where rules of ours have to stand on this node, and behind that where they have stood; empty for the
            configured place.
        clusters: the control planes of other clusters, as this node's agent sees them; empty without Cluster Mesh.
        mesh: what was found out about the mesh, complete with what the operator declared; None until something was.
    """

    links: tuple[Link, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: tuple[Route, ...] = ()
    collisions: tuple[ForeignObject, ...] = ()
    device_routes: tuple[DeviceRoute, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    default_routes: tuple[DeviceRoute, ...] = ()
    dead_ends: tuple[DeviceRoute, ...] = ()
    destination_rules: tuple[DestinationRule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    forwarding: tuple[Forwarding, ...] = ()
    is_bounded: bool = False
    wireguard: tuple[WireGuardState, ...] = ()
    lookups: tuple[RouteLookup, ...] = ()
    near: tuple[RouteLookup, ...] = ()
    windows: tuple[RuleWindow, ...] = ()
    clusters: tuple[ClusterControl, ...] = ()
    mesh: MeshSettings | None = None

    def link(self, name: str) -> Link | None:
        """The device of that name, or None."""
        return next((link for link in self.links if link.name == name), None)

    def underlay(self, tunnel: str = "") -> Link | None:
        """The device by which the outer packets of a tunnel leave; None where nothing tells.

        Of a VXLAN device the one it is bound to, or whose address it sends from. Of a WireGuard device the one that
        most lookups of its peers' endpoints say: a host with several network cards has one default route. An answer
        that leads into the tunnel itself does not count: wg-quick marks the tunnel's own packets around such a route.
        Neither does one that stays on this host, where a relay of NetBird's listens for its peers.

        Args:
            tunnel: name of the device; without one, and where it says nothing, the first default route decides.
        """
        link = self.link(tunnel)
        if link is not None and link.vxlan is not None:
            lower, local = link.vxlan.lower, link.vxlan.local
            bound = [each for each in self.links if lower and each.index == lower]
            bound += [each for each in self.links if local and local in each.addresses]
            if bound:
                return bound[0]
        hosts = {peer.host for state in self.wireguard if state.device == tunnel for peer in state.peers}
        found = [each.dev for each in self.lookups if each.address in hosts and each.dev not in (tunnel, "lo")]
        ways = [*(dev for dev, _ in Counter(found).most_common()), *(route.dev for route in self.default_routes)]
        return next((below for dev in ways if (below := self.link(dev)) is not None), None)
