"""Nodes of the two labs as their kernels show them, from literal `ip route` lines, `wg` peers and FDB entries.

The routes are those that a real Kilo agent made on six nodes, with flannel and with Cilium below; a3 and b3 are the
same as a2 and b2 but for their own addresses. Comments in lines name the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from meshwatchd.model.snapshot import (
    DeviceRoute,
    Forwarding,
    Gateway,
    Link,
    Neighbour,
    Snapshot,
    Vxlan,
    WireGuardPeer,
    WireGuardState,
)
from meshwatchd.model.sources import KiloGraph, KiloNode

PROTOCOLS = {"kernel": 2, "boot": 3, "static": 4, "zebra": 11, "bird": 12, "bgp": 186}
NODE_IPS = {
    "a1": "192.168.100.11",
    "a2": "192.168.100.12",
    "a3": "192.168.100.13",
    "b1": "10.2.0.11",
    "b2": "10.2.0.12",
    "b3": "10.2.0.13",
}
PUBLIC = {"a1": "203.0.113.11", "b1": "198.51.100.21"}
WIREGUARD_IPS = {"a": "10.4.0.2", "b": "10.4.0.1"}
ETH0, KILO0, OVERLAY, CNI0, TUNL0, HOST = 2, 3, 4, 5, 6, 7


OTHERS = ("eth0", "cni0")
"""Devices that are not the mesh's."""


def number_of(name: str) -> int:
    """Pods of the nth node are 10.244.n.0/24."""
    return 1 + list(NODE_IPS).index(name)


def leader_of(name: str) -> str:
    """a1 or b1."""
    return f"{name[0]}1"


def mac_of(name: str) -> str:
    """Of the node's VXLAN device."""
    return f"02:4e:01:00:00:0{number_of(name)}"


def remote_to(name: str) -> list[str]:
    """The nodes of the other location."""
    return [other for other in NODE_IPS if other[0] != name[0]]


def route(line: str) -> DeviceRoute:
    """One line of `ip route`, with `# table N` behind it where it is not the main one."""
    text, _, note = line.partition("#")
    dst, *words = text.replace("onlink", "").replace("scope link", "").split()
    found = dict(zip(words[::2], words[1::2], strict=True))
    table = int(note.split()[1]) if note else 254
    return DeviceRoute(
        dst=dst.replace("default", "0.0.0.0/0") if "/" in dst or dst == "default" else f"{dst}/32",
        dev=found["dev"],
        table=table,
        protocol=PROTOCOLS[found.get("proto", "boot")],
        via=found.get("via", ""),
        src=found.get("src", ""),
    )


def kernel(
    links: list[Link],
    lines: list[str],
    *,
    peers: dict[str, list[WireGuardPeer]] | None = None,
    fdb: dict[str, str] | None = None,
    counted: tuple[str, ...] = (),
) -> Snapshot:
    """A snapshot of these devices and routes; those into devices that are not the mesh's are not in it.

    Args:
        links: all devices.
        lines: of `ip route`.
        peers: of WireGuard devices.
        fdb: remote nodes by MAC, of the VXLAN device.
        counted: devices that are not the mesh's and whose gateways are told all the same.
    """
    every = [route(line) for line in lines]
    seen = [each for each in every if each.dev not in OTHERS]
    told = [each for each in every if each.dev not in OTHERS or (each.dev in counted and each.protocol == 4)]
    counts = Counter((each.dev, each.via, each.table, each.protocol) for each in told)
    overlay = next((link.name for link in links if link.kind == "vxlan"), "")
    return Snapshot(
        links=tuple(links),
        device_routes=tuple(seen),
        gateways=tuple(
            Gateway(dev=dev, via=via, table=table, protocol=protocol, routes=count)
            for (dev, via, table, protocol), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ),
        default_routes=tuple(each for each in every if each.dst == "0.0.0.0/0"),
        neighbours=tuple(
            Neighbour(dev=overlay, address=f"10.244.{int(mac[-1])}.0", lladdr=mac, is_permanent=True)
            for mac in fdb or {}
        ),
        forwarding=tuple(Forwarding(dev=overlay, lladdr=mac, dst=dst) for mac, dst in (fdb or {}).items()),
        wireguard=tuple(
            WireGuardState(device=device, public_key=f"key-of-{device}", listen_port=51820, at_ns=0, peers=tuple(each))
            for device, each in (peers or {}).items()
        ),
    )


def kilo_flannel(name: str, *, is_address_left: bool = True) -> Snapshot:
    """A node of Kilo over flannel.

    Args:
        name: of the node.
        is_address_left: kilo0 of a member has an address, which was its leader's or is from its first second.
    """
    number, own = number_of(name), NODE_IPS[name]
    flannel = Vxlan(vni=1, port=8472, local=own, lower=ETH0)
    links = [
        *_common(name, is_address_left=is_address_left),
        Link(
            name="flannel.1",
            index=OVERLAY,
            kind="vxlan",
            is_up=True,
            mtu_bytes=1450,
            addresses=(f"10.244.{number}.0",),
            prefix_lengths=(32,),
            lladdr=mac_of(name),
            vxlan=flannel,
        ),
        Link(
            name="cni0",
            index=CNI0,
            kind="bridge",
            is_up=True,
            mtu_bytes=1450,
            addresses=(f"10.244.{number}.1",),
            prefix_lengths=(24,),
        ),
    ]
    lines = [*_plain_lines(name), f"10.244.{number}.0/24 dev cni0 proto kernel scope link src 10.244.{number}.1"]
    numbers = [number_of(other) for other in _neighbours(name)]
    lines += [f"10.244.{other}.0/24 via 10.244.{other}.0 dev flannel.1 onlink" for other in numbers]
    lines += _kilo_lines(name, f"10.244.{number_of(leader_of(name))}.0", "flannel.1")
    if name == leader_of(name):
        for other in _neighbours(name):
            lines.append(
                f"{NODE_IPS[other]} via 10.244.{number_of(other)}.0 dev flannel.1 proto static onlink # table 1107"
            )
    fdb = {mac_of(other): NODE_IPS[other] for other in NODE_IPS if other != name}
    return kernel(links, lines, peers=_kilo_peers(name), fdb=fdb)


def kilo_cilium(name: str, *, is_address_left: bool = True, ipip: str = "tunl0") -> Snapshot:
    """A node of Kilo over Cilium; see `kilo_flannel`."""
    number = number_of(name)
    router = f"10.244.{number}.7{number}"
    links = [
        *_common(name, is_address_left=is_address_left),
        Link(
            name="cilium_vxlan",
            index=OVERLAY,
            kind="vxlan",
            is_up=True,
            mtu_bytes=1500,
            lladdr=mac_of(name),
            vxlan=Vxlan(vni=0, port=8472, is_external=True),
        ),
        Link(
            name="cilium_host",
            index=HOST,
            kind="veth",
            is_up=True,
            mtu_bytes=1500,
            addresses=(router,),
            prefix_lengths=(32,),
        ),
        Link(name=ipip, index=TUNL0, kind="ipip", is_up=True, mtu_bytes=1480),
    ]
    lines = [
        *_plain_lines(name),
        f"{router} dev cilium_host proto kernel scope link",
        f"10.244.{number}.0/24 via {router} dev cilium_host proto kernel src {router}",
    ]
    numbers = [number_of(other) for other in _neighbours(name)]
    to_router = f"via {router} dev cilium_host proto kernel src {router} mtu 1450"
    lines += [f"10.244.{other}.0/24 {to_router}" for other in numbers]
    leader = number_of(leader_of(name))
    lines += _kilo_lines(name, f"10.244.{leader}.7{leader}", ipip)
    if name == leader_of(name):
        for other in _neighbours(name):
            its = number_of(other)
            lines.append(f"{NODE_IPS[other]} via 10.244.{its}.7{its} dev {ipip} proto static onlink # table 1107")
    return kernel(links, lines, peers=_kilo_peers(name))


def flannel_over_wg0() -> Snapshot:
    """A node of K3s with --flannel-iface=wg0."""
    state = kilo_flannel("a2")
    wg0 = Link(name="wg0", index=20, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("10.8.0.3",))
    links = [msgspec.structs.replace(wg0, prefix_lengths=(24,))]
    for link in state.links:
        if link.vxlan is not None:
            vxlan = msgspec.structs.replace(link.vxlan, local="10.8.0.3", lower=20)
            links.append(msgspec.structs.replace(link, vxlan=vxlan))
        elif link.name != "kilo0":
            links.append(link)
    lines = [
        "default via 192.168.100.1 dev eth0",
        "10.8.0.0/24 dev wg0 proto kernel scope link src 10.8.0.3",
        "10.244.1.0/24 via 10.244.1.0 dev flannel.1 onlink",
    ]
    return kernel(links, lines, fdb={"02:4e:01:00:00:01": "10.8.0.1"})


def graph() -> KiloGraph:
    """What Kilo's agent says of either lab."""
    return KiloGraph(
        wireguard_cidr="10.4.0.0/16",
        nodes=tuple(
            KiloNode(
                name=name,
                location={"a": "onprem", "b": "cloud"}[name[0]],
                pod_cidr=f"10.244.{number_of(name)}.0/24",
                node_ip=node_ip,
                is_leader=name in PUBLIC,
                wireguard_ip=WIREGUARD_IPS[name[0]] if name in PUBLIC else "",
                endpoint=f"{PUBLIC[name]}:51820" if name in PUBLIC else "",
            )
            for name, node_ip in NODE_IPS.items()
        ),
    )


def _neighbours(name: str) -> Iterator[str]:
    return (other for other in NODE_IPS if other[0] == name[0] and other != name)


def _common(name: str, *, is_address_left: bool) -> list[Link]:
    leads = name == leader_of(name)
    has_address = leads or is_address_left
    return [
        Link(
            name="eth0",
            index=ETH0,
            kind="veth",
            is_up=True,
            mtu_bytes=1500,
            addresses=(NODE_IPS[name],),
            prefix_lengths=(24,),
        ),
        Link(
            name="kilo0",
            index=KILO0,
            kind="wireguard",
            is_up=leads,
            mtu_bytes=1420,
            addresses=(WIREGUARD_IPS[name[0]],) if has_address else (),
            prefix_lengths=(16,) if has_address else (),
        ),
    ]


def _plain_lines(name: str) -> list[str]:
    lan = NODE_IPS[name].rpartition(".")[0]
    lines = [
        f"default via {lan}.1 dev eth0",
        f"{lan}.0/24 dev eth0 proto kernel scope link src {NODE_IPS[name]}",
    ]
    if name == leader_of(name):
        lines.append(f"10.4.0.0/16 dev kilo0 proto kernel scope link src {WIREGUARD_IPS[name[0]]}")
    return lines


def _kilo_lines(name: str, gateway: str, device: str) -> list[str]:
    """Kilo's routes of the main table: a leader's into kilo0, all others' to the leader."""
    own, remote = NODE_IPS[name], remote_to(name)
    prefixes = [prefix for other in remote for prefix in (NODE_IPS[other], f"10.244.{number_of(other)}.0/24")]
    if name == leader_of(name):
        via = WIREGUARD_IPS[remote[0][0]]
        return [f"{prefix} via {via} dev kilo0 proto static src {own} onlink" for prefix in prefixes]
    prefixes += WIREGUARD_IPS.values()
    leaders_pods = f"10.244.{number_of(leader_of(name))}.0/24"
    lines = [f"{prefix} via {gateway} dev {device} proto static src {own} onlink" for prefix in prefixes]
    return [line for line in lines if not line.startswith(leaders_pods)]


def _kilo_peers(name: str) -> dict[str, list[WireGuardPeer]]:
    """The other location's leader, as a peer; members have none."""
    if name != leader_of(name):
        return {"kilo0": []}
    remote = remote_to(name)
    prefixes = [prefix for other in remote for prefix in (f"10.244.{number_of(other)}.0/24", f"{NODE_IPS[other]}/32")]
    return {
        "kilo0": [
            WireGuardPeer(
                public_key=f"pub-{remote[0]}",
                endpoint=f"{PUBLIC[remote[0]]}:51820",
                allowed_ips=(*prefixes, f"{WIREGUARD_IPS[remote[0][0]]}/32"),
            )
        ]
    }
