"""Canaries for meshwatchd.toml from the Nodes of a cluster: API servers asked from kubelets, kubelets from API servers.

    [[probe.canary]] apiserver-a1   port 6443     asked by the nodes of all other locations
    [[probe.canary]] kubelet-b1     port 10250    likewise, those of the control plane among them

A Node stays Ready while its own heartbeat goes out, and nobody reaches its kubelet; or the other way round. Each
canary tells one of the two apart from the tunnel, which has a verdict of its own with the direction (one-way-break).
The role names the fault, apiserver-unreachable or kubelet-unreachable, and stays right where you change the port. Both
take TCP connections for TLS, so a refused one (RST) counts as silence too: the node answers, the service has stopped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from types import MappingProxyType

from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind, CanaryRole
from meshwatchd.model.ids import NodeName
from meshwatchkube.cluster import Node

PORTS = MappingProxyType({CanaryRole.APISERVER: 6443, CanaryRole.KUBELET: 10250})
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MOST = 16
"""That one daemon takes (`settings.ProbeSettings.canary`)."""

_HEADER = """\
# API servers and kubelets of this cluster, for meshwatchd.toml of every node. Names of nodes must be those of the mesh.
"""


def render(nodes: Iterable[Node]) -> str:
    """The sections, as many as a daemon takes; API servers first, then kubelets by name."""
    found = list(_canaries(sorted(nodes, key=lambda node: node.name)))
    left_out = [f"# {each.name} is left out: a daemon takes {MOST}." for each in found[MOST:]]
    return "\n".join((_HEADER, *map(_section, found[:MOST]), *left_out)).rstrip() + "\n"


def _canaries(nodes: list[Node]) -> Iterator[Canary]:
    masters = [node for node in nodes if CONTROL_PLANE in node.labels]
    for node, role in (
        *((node, CanaryRole.APISERVER) for node in masters),
        *((node, CanaryRole.KUBELET) for node in nodes),
    ):
        if address := _address(node):
            name, port = f"{role}-{node.name}", PORTS[role]
            yield Canary(
                name=name,
                address=address,
                port=port,
                node=NodeName(node.name),
                kind=CanaryKind.TCP,
                role=role,
                expect=CanaryExpect.SERVICE,
            )


def _section(canary: Canary) -> str:
    fields = {"name": canary.name, "address": canary.address, "node": canary.node}
    fields |= {"kind": canary.kind.value, "role": canary.role.value, "expect": canary.expect.value}
    lines = [f'{key} = "{value}"' for key, value in fields.items()]
    return "\n".join(("[[probe.canary]]", *lines, f"port = {canary.port}", ""))


def _address(node: Node) -> str:
    """The InternalIP of a Node; empty where it has none, or a name in its place."""
    for each in node.status.addresses or ():
        if each.type == "InternalIP":
            try:
                return str(ipaddress.ip_address(each.address))
            except ValueError:
                continue
    return ""
