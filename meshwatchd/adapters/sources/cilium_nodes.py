"""The nodes that Cilium's agent knows: GET /v1/cluster/nodes on /var/run/cilium/cilium.sock.

The answer is JSON. A node's name is "CLUSTER/NAME" where the agent knows a cluster's name. Of its secondary addresses
the one inside its pod CIDR is that of its cilium_host.

Source: ClusterNodeStatus, NodeElement and NodeAddressing in api/v1/openapi.yaml of Cilium 1.19.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Final

import msgspec

from meshwatchd.adapters.sources import check
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import CiliumNode, CiliumNodes

SOURCE: Final = "cilium agent"
TARGET: Final = "/v1/cluster/nodes"

MAX_NODES: Final = 5000


class _Element(msgspec.Struct, frozen=True, rename="kebab"):
    """NodeAddressingElement."""

    enabled: bool = True
    ip: str = ""
    alloc_range: str = ""


class _Addressing(msgspec.Struct, frozen=True):
    """NodeAddressing."""

    ipv4: _Element | None = None


class _Node(msgspec.Struct, frozen=True, rename="kebab"):
    """NodeElement."""

    name: str
    primary_address: _Addressing | None = None
    secondary_addresses: tuple[_Element, ...] | None = None
    health_endpoint_address: _Addressing | None = None


class _Answer(msgspec.Struct, frozen=True, rename="kebab"):
    """ClusterNodeStatus."""

    self: str = ""
    nodes_added: tuple[_Node, ...] | None = None


def parse(data: bytes) -> CiliumNodes:
    """Turn the answer into nodes.

    Raises:
        DecodeError: it is no JSON of that shape, or an address is none.
    """
    answer = decode_json(data, _Answer, Door(SOURCE))
    told = answer.nodes_added or ()
    if len(told) > MAX_NODES:
        raise DecodeError(SOURCE, f"there are more than {MAX_NODES} nodes")
    nodes = sorted(map(_node, told), key=lambda node: (node.cluster, node.name))
    own = check.name(answer.self, SOURCE, "self") if answer.self else ""
    return CiliumNodes(own_name=own, nodes=tuple(nodes))


def _node(told: _Node) -> CiliumNode:
    place = f"node {check.shown(told.name)}"
    cluster, _, name = check.name(told.name, SOURCE, place).rpartition("/")
    primary = _enabled(told.primary_address)
    pod_cidr = check.ipv4_prefix(primary.alloc_range, SOURCE, place) if primary.alloc_range else ""
    return CiliumNode(
        name=name,
        cluster=cluster,
        node_ip=check.ipv4(primary.ip, SOURCE, place) if primary.ip else "",
        pod_cidr=pod_cidr,
        router_ip=_router(told, pod_cidr, place),
        health_ip=_health(told, place),
    )


def _enabled(addressing: _Addressing | None) -> _Element:
    found = addressing.ipv4 if addressing is not None else None
    return found if found is not None and found.enabled else _Element()


def _health(told: _Node, place: str) -> str:
    ip = _enabled(told.health_endpoint_address).ip
    return check.ipv4(ip, SOURCE, place) if ip else ""


def _router(told: _Node, pod_cidr: str, place: str) -> str:
    """The address of cilium_host; secondary addresses may be IPv6 as well, which no check here is for."""
    for each in told.secondary_addresses or ():
        if each.ip and ":" not in each.ip and pod_cidr:
            address = check.ipv4(each.ip, SOURCE, place)
            if IPv4Address(address) in IPv4Network(pod_cidr):
                return address
    return ""
