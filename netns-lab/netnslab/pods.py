"""One pod per node, wired as a CNI bridge plugin does it: veth to cni0, default route there. Pure text."""

from __future__ import annotations

from pathlib import Path

from netnslab.topology import Node

BRIDGE = "cni0"


def bridge_lines(node: Node, *, pod_network: Path, mtu_bytes: int) -> tuple[str, ...]:
    """Lines for `ip -batch` in the node: the bridge and the pod's cable.

    Args:
        node: the pod's host.
        pod_network: the file that pins the pod's network namespace.
        mtu_bytes: of the pod's link; the overlay's overhead is already taken off.
    """
    length = node.pod_cidr.partition("/")[2]
    return (
        f"link add {BRIDGE} mtu {mtu_bytes} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
        f"address add {node.pod_gateway_ip}/{length} dev {BRIDGE}",
        f"link set {BRIDGE} up",
        f"link add vethpod mtu {mtu_bytes} type veth peer name eth0 mtu {mtu_bytes} netns {pod_network}",
        f"link set vethpod master {BRIDGE} up",
    )


def pod_lines(node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch` in the pod."""
    length = node.pod_cidr.partition("/")[2]
    return (
        "link set lo up",
        f"address add {node.pod_ip}/{length} dev eth0",
        "link set eth0 up",
        f"route add default via {node.pod_gateway_ip} dev eth0",
    )
