"""A running lab in ASCII: one box a location, the tunnels between them, and what is wrong at the moment.
Pure.

    onprem  192.168.100.0/24              cloud  10.2.0.0/24
    +------------------------------+      +------------------------------+
    | a1  192.168.100.11   leader  |      | b1  10.2.0.11        leader  |
    |     pod 10.244.1.2           |      |     pod 10.244.4.2           |
    |                              |      |     FAULT leader-dead        |
    +------------------------------+      +------------------------------+
    a1 ==== kilo0 ==== b1   handshake 3 s ago, 12.3 kB
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from netnslab.live_state import LiveState, NodeState, Tunnel
from netnslab.ownership import FaultRecord
from netnslab.topology import Location, Node, Topology

BOX_WIDTH = 46
GAP = "      "


def draw(topology: Topology, state: LiveState) -> str:
    """The picture, several lines of text without a final newline."""
    columns = [_column(topology, location, state) for location in topology.locations.values()]
    rows = itertools.zip_longest(*columns, fillvalue=" " * BOX_WIDTH)
    return "\n".join(
        [
            f"{state.lab_id}  (WireGuard: {state.wireguard})",
            "",
            *(GAP.join(row).rstrip() for row in rows),
            "",
            *map(_tunnel_line, state.tunnels),
            *map(_fault_line, state.faults),
        ]
    )


def _column(topology: Topology, location: Location, state: LiveState) -> list[str]:
    edge = "+" + "-" * (BOX_WIDTH - 2) + "+"
    lines = [f"{location.name}  {location.lan}".ljust(BOX_WIDTH), edge]
    for node in topology.members(location.name):
        lines += [_boxed(text) for text in _node_lines(topology, node, location, state)]
    return [*lines, edge]


def _boxed(text: str) -> str:
    return f"| {text[: BOX_WIDTH - 4]:<{BOX_WIDTH - 4}} |"


def _node_lines(topology: Topology, node: Node, location: Location, state: LiveState) -> Iterator[str]:
    indent = " " * (len(node.name) + 2)
    yield f"{node.name}  {node.node_ip:<16}{_role(topology, node, location, state.nodes[node.name])}"
    yield f"{indent}pod {node.pod_ip}" + (f", public {node.public_ip}" if node.public_ip else "")
    tables = state.nodes[node.name].diverted_to
    if tables:
        yield f"{indent}DIVERTED to table {', '.join(tables)}"
    for fault in _faults_at(node.name, state.faults):
        yield f"{indent}FAULT {fault.kind}"


def _role(topology: Topology, node: Node, location: Location, observed: NodeState) -> str:
    if topology.fabric in ("wg-quick", "wireguard-bgp"):
        return f"wg0 {node.wireguard_ip}" + ("" if observed.is_tunnel_up else " DOWN")
    if observed.is_tunnel_up:
        return "leader"
    return "standby" if node.name in location.standbys else ""


def _faults_at(node: str, faults: Sequence[FaultRecord]) -> Iterator[FaultRecord]:
    return (fault for fault in faults if fault.node == node and fault.is_injected)


def _tunnel_line(tunnel: Tunnel) -> str:
    age_s = tunnel.handshake_age_s
    handshake = "no handshake yet" if age_s is None else f"handshake {age_s} s ago"
    near, far = tunnel.ends
    return f"{near} ==== {tunnel.device} ==== {far}   {handshake}, {tunnel.transferred_bytes / 1000:.1f} kB"


def _fault_line(fault: FaultRecord) -> str:
    return f"{fault.kind} at {fault.node}: {'injected' if fault.is_injected else 'armed'}"
