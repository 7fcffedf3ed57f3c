"""BIRD on every node, speaking BGP over plain WireGuard: it alone writes the routes to other nodes' pods.

    pod eth0 -- veth -- cni0 (10.42.N.1/24) -- wg0 (10.8.0.N/24, UDP 51820) -- eth0
    a1 announces what is on cni0 to a2, b1 and b2, and has of each:  10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird

Timers are BIRD's own but for those of a start, so that a session outlives a dead tunnel by four minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from netnslab.native_wireguard import NativeOverlay
from netnslab.overlay import Overlay
from netnslab.pods import BRIDGE
from netnslab.topology import Node, Topology
from netnslab.wg_quick import DEVICE, WgQuick, address
from netnslab.wireguard import KeyPair

FILE = Path("/etc/bird/bird.conf")

FIRST_AS = 64512
"""Of the first location; the first for private use (RFC 6996)."""


class Bgp:
    """The fabric: wg0 as wg-quick makes it, and BIRD."""

    device = DEVICE
    carries_overlay = True
    program: tuple[str, ...] = ("bird", "-f", "-c", str(FILE))

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
        """None: they are BIRD's."""
        return self._tunnel.route_lines(topology, node, overlay)

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """wg-quick's file and BIRD's."""
        return {**self._tunnel.files(topology, node, keys), FILE: bird_conf(topology, node)}


def bird_conf(topology: Topology, node: Node) -> str:
    """BIRD's configuration on a node: one session for each other node, named after it."""
    numbers = {name: FIRST_AS + index for index, name in enumerate(topology.locations)}
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
