"""Everything between the nodes: a switch per location, its router, and the Internet with 1:1 NAT. Pure text.

                 .----------------------- namespace `wan` -----------------------.
    a1 eth0 -----| a1-eth0                                              b1-eth0  |----- eth0 b1
    a2 eth0 -----| a2-eth0  br-onprem 192.168.100.1 | 10.2.0.1 br-cloud b2-eth0  |----- eth0 b2
    a3 eth0 -----| a3-eth0                         NAT                  b3-eth0  |----- eth0 b3
                 '---------------------------------------------------------------'

The NAT is stateless, as a cloud's is: a table of connections here would be one more thing that times out. A
location with `nat_ip` has just that, as a home router does: its nodes share one address, with random ports, and
nobody gets in who was not called.
Private addresses do not cross, so a packet that escaped the mesh is lost and not silently delivered; but where the
topology says that the LANs are routed, as the networks of two clusters in one cloud are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from netnslab.topology import Location, Node, Topology

TABLE = "netnslab_wan"


def link_lines(topology: Topology, network_of: dict[str, Path]) -> tuple[str, ...]:
    """Lines for `ip -batch` in the wan namespace: switches, routers' addresses, and a cable to each node.

    Args:
        topology: what to build.
        network_of: by node name, the file that pins its network namespace; the far end of the cable starts
            there.
    """
    lines = ["link set lo up"]
    for location in topology.locations.values():
        length = location.lan.partition("/")[2]
        lines += [
            f"link add {location.bridge} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
            f"address add {location.gateway}/{length} dev {location.bridge}",
            f"link set {location.bridge} up",
        ]
    for node in topology.nodes.values():
        far_end = f"eth0 address {node.eth0_mac} netns {network_of[node.name]}"
        lines += [
            f"link add {node.switch_port} type veth peer name {far_end}",
            f"link set {node.switch_port} master {topology.locations[node.location].bridge} up",
        ]
    return tuple(lines)


def nft_ruleset(topology: Topology) -> str:
    """The Internet as an nftables table: 1:1 NAT by rewriting, and nothing else passes between the LANs."""
    public = [node for node in topology.nodes.values() if node.public_ip is not None]
    inbound = ", ".join(f"{node.public_ip} : {node.node_ip}" for node in public)
    outbound = ", ".join(f"{node.node_ip} : {node.public_ip}" for node in public)
    locations = tuple(topology.locations.values())
    return "\n".join(
        [
            f"table ip {TABLE} {{",
            f"  map inbound {{ type ipv4_addr : ipv4_addr; elements = {{ {inbound} }} }}",
            f"  map outbound {{ type ipv4_addr : ipv4_addr; elements = {{ {outbound} }} }}",
            "  chain from_lan {",
            "    type filter hook prerouting priority raw; policy accept;",
            *(() if topology.is_routed else _private_drops(locations)),
            "    ip daddr set ip daddr map @inbound",
            "  }",
            "  chain to_lan {",
            "    type filter hook postrouting priority srcnat; policy accept;",
            *(() if topology.is_routed else _source_rewrites(locations)),
            "  }",
            *_masquerades(locations),
            "}",
            "",
        ]
    )


def node_lines(topology: Topology, node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch` in a node: its NIC and the way out."""
    location = topology.locations[node.location]
    length = location.lan.partition("/")[2]
    return (
        "link set lo up",
        f"address add {node.node_ip}/{length} dev eth0",
        "link set eth0 up",
        f"route add default via {location.gateway} dev eth0",
    )


def _private_drops(locations: tuple[Location, ...]) -> Iterator[str]:
    """Nobody may address another LAN by its private addresses."""
    for location in locations:
        others = ", ".join(other.lan for other in locations if other.name != location.name)
        if others:
            yield f'    iifname "{location.bridge}" ip daddr {{ {others} }} drop'


def _source_rewrites(locations: tuple[Location, ...]) -> Iterator[str]:
    for location in locations:
        if location.nat_ip is not None:
            continue
        elsewhere = f'oifname "br-*" oifname != "{location.bridge}" ip saddr {location.lan}'
        yield f"    {elsewhere} ip saddr set ip saddr map @outbound"
        yield f"    {elsewhere} counter drop"


def _masquerades(locations: tuple[Location, ...]) -> Iterator[str]:
    """A chain of type nat makes the kernel track connections in this namespace, so it is there only if needed."""
    hidden = [location for location in locations if location.nat_ip is not None]
    if not hidden:
        return
    yield "  chain hide {"
    yield "    type nat hook postrouting priority srcnat; policy accept;"
    for location in hidden:
        yield (
            f'    oifname "br-*" oifname != "{location.bridge}" ip saddr {location.lan}'
            f" meta l4proto {{ tcp, udp }} snat to {location.nat_ip}:20000-39999 random"
        )
    yield "  }"
