"""Questions that every profile asks of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

from meshwatchd.model.prefixes import covers
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer

MAIN_TABLE = 254

PROTOCOL_KERNEL, PROTOCOL_STATIC = 2, 4
"""linux/rtnetlink.h: Kilo marks its routes static, flannel boot, Cilium kernel."""

WIREGUARD_KINDS = ("wireguard", "tun")
"""A tun is WireGuard's where a userspace process answers for it."""

MAX_MACS = 4
"""Of one node, in its hellos."""

IPIP_DEVICES = ("cilium_tunl", "tunl0")
"""Cilium up to 1.17 renames the kernel's fallback device; Kilo takes whichever there is."""

CNI_DEVICES = ("cni0", "cilium_host", "ovn-k8s-mp0", "antrea-gw0", "vxlan.calico", "weave", "kube-bridge", "cbr0")
"""What holds a node's address among its pods, by CNI; else any bridge does."""

_NO_CNI = ("docker", "br-", "virbr", "podman", "lxc")
"""Bridges of others than a CNI."""

_NOT_REACHABLE_FROM_OUTSIDE = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8")
)
"""RFC 1918, RFC 6598, RFC 3927. Kilo takes the last three for public, but they are only from where they are."""


def is_public(address: str) -> bool:
    """Whether an IPv4 address may be reached from anywhere; False for what is no IPv4 address."""
    try:
        parsed = IPv4Address(address)
    except ValueError:
        return False
    return not any(parsed in network for network in _NOT_REACHABLE_FROM_OUTSIDE) and not parsed.is_unspecified


def host_of(endpoint: str) -> str:
    """The host part of "host:port" or "[host]:port"; empty for an empty endpoint."""
    return endpoint.rpartition(":")[0].strip("[]")


def is_in(address: str, prefix: str) -> bool:
    """Whether an address is inside a prefix; False where either is missing or of another family."""
    try:
        return ip_address(address) in ip_network(prefix, strict=False)
    except (ValueError, TypeError):
        return False


def host_address(prefix: str) -> str:
    """The address of an IPv4 prefix of full length, without it; empty for every other prefix."""
    address, _, length = prefix.partition("/")
    return address if length in {"", "32"} and ":" not in address else ""


def networks_of(link: Link) -> Iterator[tuple[str, IPv4Network]]:
    """A device's IPv4 addresses, each with the network it is in."""
    for address, length in zip(link.addresses, link.prefix_lengths, strict=False):
        yield address, IPv4Network(f"{address}/{length}", strict=False)


def lan_of(snapshot: Snapshot, address: str) -> str:
    """The prefix that one of this node's addresses shares with its neighbours; empty where that is nothing."""
    for link in snapshot.links:
        for own, network in networks_of(link):
            if own == address and network.prefixlen < 31:
                return str(network)
    return ""


def own_addresses(snapshot: Snapshot) -> frozenset[str]:
    """Every address of this node."""
    return frozenset(address for link in snapshot.links for address in (*link.addresses, *link.addresses_v6))


def pod_device(snapshot: Snapshot) -> Link | None:
    """The device of a CNI that holds this node's address among its pods; None where none is seen to."""
    named = (snapshot.link(name) for name in CNI_DEVICES)
    bridges = (link for link in snapshot.links if link.kind == "bridge" and not link.name.startswith(_NO_CNI))
    lan = snapshot.underlay()
    found = (link for link in (*named, *bridges) if link is not None and link.addresses)
    return next((link for link in found if lan is None or link.name != lan.name), None)


def by_index(snapshot: Snapshot, index: int) -> str:
    """The name of a device, empty for none that is shown."""
    return next((link.name for link in snapshot.links if link.index == index and index), "")


def peers_of(snapshot: Snapshot, device: str) -> tuple[WireGuardPeer, ...]:
    """The peers of a WireGuard device, as far as it could be read."""
    return next((state.peers for state in snapshot.wireguard if state.device == device), ())


def is_wireguard(snapshot: Snapshot, link: Link) -> bool:
    """Whether a device speaks WireGuard: the kernel's do by their kind, others by having been read."""
    return link.kind == "wireguard" or any(state.device == link.name for state in snapshot.wireguard)


def main_routes(snapshot: Snapshot, protocol: int) -> Iterator[DeviceRoute]:
    """Routes of the main table into the mesh's devices, by who made them."""
    return (route for route in snapshot.device_routes if route.table == MAIN_TABLE and route.protocol == protocol)


def shows_own_pods(snapshot: Snapshot, prefix: str, node_ip: str) -> bool:
    """Whether the kernel shows that a prefix is this node's pods': that of a bridge, or of a route into a device whose
    own address is in it. The LAN's is neither, even where the network card is in a bridge. A node without pods has its
    own address in the tunnel.
    """
    if is_in(node_ip, prefix):
        return False
    tunnels = (link for link in snapshot.links if is_wireguard(snapshot, link))
    if any(f"{address}/32" == prefix for link in tunnels for address in link.addresses):
        return True
    bridges = (link for link in snapshot.links if link.kind == "bridge")
    if any(str(network) == prefix for link in bridges for _, network in networks_of(link)):
        return True
    ways = (snapshot.link(route.dev) for route in snapshot.device_routes if _is_main(route) and route.dst == prefix)
    return any(is_in(address, prefix) for link in ways if link is not None for address in link.addresses)


def elsewhere(snapshot: Snapshot, prefix: str, node_ip: str) -> str:
    """What is no pod of this node by its kernel and yet within a prefix, as half a sentence; empty for nothing."""
    if is_in(node_ip, prefix):
        return f"which holds {node_ip}, the node's own address"
    own = own_addresses(snapshot)
    for route in snapshot.device_routes:
        if _is_main(route) and ":" not in route.dst and route.via not in own and covers(prefix, route.dst):
            way = f"via {route.via} dev {route.dev}" if route.via else f"into {route.dev}"
            if route.via or not any(is_in(address, route.dst) for address in own):
                return f"while the kernel routes {route.dst} {way}"
    return ""


def _is_main(route: DeviceRoute) -> bool:
    return route.table == MAIN_TABLE


def hosts_beyond(snapshot: Snapshot) -> frozenset[str]:
    """Addresses that Kilo routes to other locations one by one: its static routes to single addresses."""
    return frozenset(filter(None, (host_address(route.dst) for route in main_routes(snapshot, PROTOCOL_STATIC))))


def hosts_in(prefixes: Iterable[str]) -> Iterator[str]:
    """The single addresses among prefixes."""
    return filter(None, map(host_address, prefixes))


def lan_macs(snapshot: Snapshot, link: Link | None) -> tuple[str, ...]:
    """The MACs by which a node may answer ARP for an address of a device, the device's own first; of Ethernet only.

    Linux answers on every network card of a LAN for each address of the host, whichever card has it (arp_ignore 0).
    """
    if link is None or not link.lladdr:
        return ()
    networks = [str(network) for _, network in networks_of(link)]
    on_lan = [
        each.lladdr
        for each in snapshot.links
        if each.is_up
        and each.lladdr.strip("0:")
        and (not each.kind or any(is_in(address, network) for address in each.addresses for network in networks))
    ]
    return tuple(dict.fromkeys((link.lladdr, *on_lan)))[:MAX_MACS]
