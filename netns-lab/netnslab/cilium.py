"""Cilium in tunnel mode, as its agent leaves the kernel, with routes in place of its eBPF. Pure text.

    pod eth0 -- lxc0                 cilium_host == cilium_net               cilium_vxlan -- eth0
                 |                       ^              |                         ^
                 |                       | main table   |                         |
                 +---- POD_TABLE --------|--------------+---- HOST_TABLE ---------+
                                    stack, tunl0          (eBPF asks its ipcache)

cilium_vxlan is a collect-metadata device: it has no peer, no FDB and no address, and each packet says
itself where it goes. Real Cilium writes that into the packet in eBPF, at the entry from a pod (lxc0) and
at cilium_host, and redirects it to cilium_vxlan. Here a packet that leaves by cilium_host comes in again
by cilium_net, netfilter marks at both devices what eBPF sees, two rules select by mark, and
lightweight-tunnel routes write the destination:

    10.244.4.0/24 encap ip id 6 dst 10.2.0.11 via 10.244.4.74 dev cilium_vxlan onlink

The VXLAN network identifier is the sender's security identity, not a network's number. What Kilo has to
see (devices, addresses, main routes, rules and their priorities) is what it finds beside Cilium 1.19.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netnslab.backends.model import Needs
from netnslab.overlay import OverlayPlan
from netnslab.topology import Node, Topology

TUNNEL = "tunl0"
"""Kilo's IPIP device: the one every namespace is born with, or made by Kilo where that is switched off."""

FALLBACK_TUNNELS = Path("/proc/sys/net/core/fb_tunnels_only_for_init_net")

VXLAN = "cilium_vxlan"
HOST = "cilium_host"
NET = "cilium_net"
POD_LINK = "lxc0"
ENCRYPTION = "cilium_wg0"

PORT = 8472

LAN_MTU_BYTES = 1500
ROUTE_MTU_BYTES = LAN_MTU_BYTES - 50
"""Cilium leaves device MTUs alone and takes VXLAN's overhead off in its routes (RouteMTU)."""

HOST_IDENTITY = 6
"""remote-node: what host traffic is marked with on the wire (Cilium's encap.h turns host, 1, into it)."""

POD_IDENTITY = 26001
"""Any number a security identity of a workload may have: 256 to 65535."""

HOST_TABLE = 2906
POD_TABLE = 2907
"""Beside Cilium's own 2004 and 2005, which need a proxy to be of use."""

PROXY_TABLE = 2004

LOCAL_PRIORITY = 100
"""Cilium moves the rule for the local table here to make room for its proxy rule at 9."""

EBPF_PRIORITY = 101
"""After local delivery, before everything that routes by the main table, meshwatchd's overrides included:
eBPF decides before the stack is asked. What it sends, VXLAN between nodes, is routed by the stack as usual.

By mark, because no `ip rule` of real Cilium catches all that comes from a pod, and a daemon that saw one here would
place its own rules before it. The mark ends with the packet: the route of the outer header is looked up without one.
"""

EBPF_MARKS = {HOST_TABLE: 0x1000_0000, POD_TABLE: 0x2000_0000}
"""Bits that Cilium's own marks (linux_defaults/mark.go) and Kubernetes' leave alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cilium:
    """The overlay of the kilo-cilium topologies; without an IPIP device that of clusters by themselves.

    Attributes:
        route_mtu_bytes: what is left of packets by all that is put around them.
    """

    needs: Needs = field(default_factory=lambda: Needs(vxlan_external=True, ipip=True))
    relay_device: str = TUNNEL
    ipip_device: str = TUNNEL
    route_mtu_bytes: int = ROUTE_MTU_BYTES

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """Devices, Cilium's routes and rules, and the tables that stand for its ipcache."""
        return OverlayPlan(
            ip=(
                *_pod_link(node, pod_network),
                *_devices(node),
                *(_tunnel(is_there=has_ipip_device) if self.ipip_device else ()),
                *_main_routes(topology, node, self.route_mtu_bytes),
                *_rules(),
                *_neighbours(topology, node),
                *_ipcache(topology, node, table=HOST_TABLE, identity=HOST_IDENTITY),
                *_ipcache(topology, node, table=POD_TABLE, identity=POD_IDENTITY),
            ),
            nft=_marks(),
            pod=_pod_lines(node, self.route_mtu_bytes),
            sysctls=_sysctls(),
        )


CILIUM = Cilium()


def _pod_link(node: Node, pod_network: Path) -> tuple[str, ...]:
    """The pod's link, without a bridge, and the pod's /32.

    The /32 is what eBPF does for a packet to a local pod; the pod's /24 leads to cilium_host.
    """
    return (
        f"link add {POD_LINK} type veth peer name eth0 netns {pod_network}",
        f"link set {POD_LINK} up",
        f"route add {node.pod_ip} dev {POD_LINK} proto kernel scope link",
    )


def _pod_lines(node: Node, mtu_bytes: int) -> tuple[str, ...]:
    """In the pod: a /32, and everything else by the node's router address."""
    return (
        "link set lo up",
        f"address add {node.pod_ip}/32 dev eth0",
        "link set eth0 up",
        f"route add {node.overlay_ip} dev eth0 scope link",
        f"route add default via {node.overlay_ip} dev eth0 mtu {mtu_bytes}",
    )


def _devices(node: Node) -> Iterator[str]:
    # A NOARP device addresses frames to itself: with one address for both ends, the other end takes them.
    mac = f"02:4e:02:00:00:{node.index:02x}"
    yield f"link add {HOST} address {mac} type veth peer name {NET} address {mac}"
    yield f"link set {HOST} arp off up"
    yield f"link set {NET} arp off up"
    yield f"address add {node.overlay_ip}/32 dev {HOST}"
    yield (
        f"link add {VXLAN} address {node.overlay_mac} mtu {LAN_MTU_BYTES} type vxlan external dstport {PORT} nolearning"
    )
    yield f"link set {VXLAN} up"


def _tunnel(*, is_there: bool) -> Iterator[str]:
    if not is_there and not has_fallback_tunnels():
        yield f"tunnel add {TUNNEL} mode ipip"
    yield f"link set {TUNNEL} mtu {LAN_MTU_BYTES - 20} up"


def has_fallback_tunnels() -> bool:
    """Whether network namespaces are born with a tunl0 (net.core.fb_tunnels_only_for_init_net is 0).

    The ipip module must be loaded; finding out that it works has loaded it.
    """
    try:
        return FALLBACK_TUNNELS.read_text(encoding="ascii").strip() == "0"
    except FileNotFoundError:  # only the initial network namespace shows it, and 0 is its default
        return True


def _main_routes(topology: Topology, node: Node, mtu_bytes: int) -> Iterator[str]:
    """Cilium's routes as netlink shows them; those to other locations are there until Kilo replaces them."""
    router = node.overlay_ip
    yield f"route add {router} dev {HOST} proto kernel scope link"
    yield f"route add {node.pod_cidr} via {router} dev {HOST} proto kernel src {router}"
    for other in topology.nodes.values():
        if other.name != node.name:
            yield (f"route add {other.pod_cidr} via {router} dev {HOST} proto kernel src {router} mtu {mtu_bytes}")


def _rules() -> Iterator[str]:
    yield f"route add local default dev lo proto kernel table {PROXY_TABLE}"
    yield f"rule add priority 9 fwmark 0x200/0xf00 lookup {PROXY_TABLE} protocol kernel"
    yield f"rule add priority {LOCAL_PRIORITY} lookup local protocol kernel"
    yield "rule delete priority 0"
    for table, mark in EBPF_MARKS.items():
        yield f"rule add priority {EBPF_PRIORITY} fwmark {mark:#x}/{mark:#x} lookup {table} protocol kernel"


def _marks() -> tuple[str, ...]:
    """What eBPF at the two devices gets to see, before the stack routes it."""
    return (
        "add table netdev ebpf",
        *(
            line
            for device, table in ((NET, HOST_TABLE), (POD_LINK, POD_TABLE))
            for line in (
                f'add chain netdev ebpf {device} {{ type filter hook ingress device "{device}" priority 0; }}',
                f"add rule netdev ebpf {device} meta mark set meta mark or {EBPF_MARKS[table]:#x}",
            )
        ),
    )


def _neighbours(topology: Topology, node: Node) -> Iterator[str]:
    """Destination addresses for inner frames which the other side accepts; eBPF rewrites frames instead."""
    for other in topology.nodes.values():
        if other.name != node.name:
            yield f"neighbour replace {other.overlay_ip} lladdr {other.overlay_mac} dev {VXLAN} nud permanent"


def _ipcache(topology: Topology, node: Node, *, table: int, identity: int) -> Iterator[str]:
    """One table of tunnel endpoints by pod CIDR.

    The own CIDR ends here: what is for no pod of this node must not go round by cilium_host again.
    """
    yield f"route add blackhole {node.pod_cidr} proto kernel table {table}"
    for other in topology.nodes.values():
        if other.name != node.name:
            yield (
                f"route add {other.pod_cidr} encap ip id {identity} dst {other.node_ip}"
                f" via {other.overlay_ip} dev {VXLAN} onlink proto kernel table {table}"
            )


def _sysctls() -> Mapping[str, str]:
    """Reverse path filtering off, and packets of this very node allowed to come in by cilium_net.

    Off and not loose: a device without an address drops in loose mode too, whenever the way back to the
    source leads elsewhere (fib_validate_source() in net/ipv4/fib_frontend.c, `no_addr`). Cilium does it on
    its own devices; for tunl0 Kilo leaves it to the administrator.
    """
    devices = (HOST, NET, POD_LINK, TUNNEL, VXLAN, ENCRYPTION)
    values = {f"net/ipv4/conf/{device}/rp_filter": "0" for device in devices}
    for device in (HOST, NET):
        values[f"net/ipv4/conf/{device}/accept_local"] = "1"
        values[f"net/ipv4/conf/{device}/send_redirects"] = "0"
    return values
