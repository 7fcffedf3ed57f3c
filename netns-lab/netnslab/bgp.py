"""A routing daemon on every node, speaking BGP over plain WireGuard: it alone writes the routes to other nodes' pods.

    pod eth0 -- veth -- cni0 (10.42.N.1/24) -- wg0 (10.8.0.N/24, UDP 51820) -- eth0
    a1 announces what is on cni0 to a2, b1 and b2, and has of each:  10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird

The first location has BIRD; any other FRR, whose routes are of proto bgp and point to a nexthop object (nhid). Timers
are their own but for those of a start, so that a session outlives a dead tunnel by three minutes, BIRD's by four.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from netnslab.native_wireguard import NativeOverlay
from netnslab.overlay import Overlay
from netnslab.pods import BRIDGE
from netnslab.topology import Node, Topology
from netnslab.wg_quick import DEVICE, WgQuick, address
from netnslab.wireguard import KeyPair, Program

FILE, FRR_FILE = Path("/etc/bird/bird.conf"), Path("/etc/frr/frr.conf")
FRR = Path("/usr/lib/frr")
ZEBRA = Path("/run/frr/zserv.api")
"""zebra's socket: a bgpd that does not find it tries again ten seconds later."""

FIRST_AS = 64512
"""Of the first location; the first for private use (RFC 6996)."""


def _frr(daemon: str) -> tuple[str, ...]:
    """As root: its own user may not read the lab's files."""
    return (str(FRR / daemon), "-u", "root", "-g", "frrvty", "-f", str(FRR_FILE), "--log", "stdout")


class Bgp:
    """The fabric: wg0 as wg-quick makes it, and BIRD or FRR."""

    device = DEVICE
    carries_overlay = True
    programs: tuple[Program, ...] = (
        Program(command=("bird", "-f", "-c", str(FILE)), file=FILE),
        Program(command=_frr("zebra"), file=FRR_FILE),
        Program(command=_frr("bgpd"), file=FRR_FILE, socket=ZEBRA),
    )

    def __init__(self) -> None:
        self._tunnel = WgQuick(carries_pods=True)

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Every node has it."""
        return self._tunnel.has_device(topology, node)

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """Key, port and peers, each for a node's address and its pods."""
        return self._tunnel.configuration(topology, node, keys)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch`: address, MTU, up."""
        return self._tunnel.device_lines(topology, node)

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """None: they are the routing daemon's."""
        return self._tunnel.route_lines(topology, node, overlay)

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """wg-quick's file and the routing daemon's."""
        has_bird = node.location == next(iter(topology.locations))
        daemons = {FILE: bird_conf(topology, node)} if has_bird else {FRR_FILE: frr_conf(topology, node)}
        return {**self._tunnel.files(topology, node, keys), **daemons}


def _numbers(topology: Topology) -> dict[str, int]:
    """The autonomous system of each location."""
    return {name: FIRST_AS + index for index, name in enumerate(topology.locations)}


def frr_conf(topology: Topology, node: Node) -> str:
    """FRR's configuration on a node: one session for each other node, which is told of this node's pods alone.

    Each has settings of its own: members of a peer-group are all of this node's system, or none is.
    """
    numbers = _numbers(topology)
    others = {address(other): numbers[other.location] for other in topology.nodes.values() if other.name != node.name}
    lines = [
        f"ip prefix-list pods permit {node.pod_cidr}",
        f"router bgp {numbers[node.location]}",
        f" bgp router-id {address(node)}",
        " no bgp ebgp-requires-policy",
    ]
    for other, number in others.items():
        lines.append(f" neighbor {other} remote-as {number}")
        lines.append(f" neighbor {other} advertisement-interval 0")
        lines.append(f" neighbor {other} timers connect 2")
    lines += [" address-family ipv4 unicast", f"  network {node.pod_cidr}"]
    lines += [f"  neighbor {other} prefix-list pods out" for other in others]
    return "\n".join([*lines, " exit-address-family", ""])


def bird_conf(topology: Topology, node: Node) -> str:
    """BIRD's configuration on a node: one session for each other node, named after it."""
    numbers = _numbers(topology)
    lines = [
        "log stderr all;",
        f"router id {address(node)};",
        "protocol device { scan time 1; }",
        f'protocol direct pods {{ ipv4; interface "{BRIDGE}"; }}',
        "protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }",
        "template bgp node {",
        f"  local {address(node)} as {numbers[node.location]};",
        "  direct; connect delay time 1; connect retry time 2; error wait time 1, 5;",
        "  ipv4 { import all; export where source = RTS_DEVICE; };",
        "}",
    ]
    for other in topology.nodes.values():
        if other.name != node.name:
            neighbour = f"neighbor {address(other)} as {numbers[other.location]};"
            lines.append(f"protocol bgp {other.name} from node {{ {neighbour} }}")
    return "\n".join(lines) + "\n"


BGP = Bgp()
BGP_OVERLAY = NativeOverlay(relay_device=DEVICE, is_flannels=False)
