"""What makes a node the leader of its location, in each kind of mesh: pure functions from Nodes to patches.

    kilo        annotation kilo.squat.ai/leader, by presence alone (squat/kilo 0.7.0, pkg/mesh/topology.go, findLeader)
    submariner  label submariner.io/gateway=true; a node without it gives its lease up (submariner, pkg/gateway)
    antrea      annotation multicluster.antrea.io/gateway=true; the controller makes one of the candidates the Gateway
    hook        nothing in the API: a program is called

Location, force-endpoint and force-internal-ip are no means to that end: each of them makes Kilo give every later
location another WireGuard address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

import msgspec

from meshwatchkube.cluster import Node
from meshwatchkube.settings import LeaderKind

KILO_LEADER = "kilo.squat.ai/leader"
KILO_READY_S = 60
"""Two check-ins of Kilo's agent (pkg/mesh/backend.go, Node.Ready)."""

_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/16")))
"""What Kilo takes for private, and nothing else (pkg/mesh/ip.go, isPublic)."""

_KEYS = {
    LeaderKind.KILO: ("annotations", KILO_LEADER),
    LeaderKind.SUBMARINER: ("labels", "submariner.io/gateway"),
    LeaderKind.ANTREA: ("annotations", "multicluster.antrea.io/gateway"),
}


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A label or annotation of one node.

    Attributes:
        field: "annotations" or "labels".
        value: None where there is none, or shall be none.
    """

    node: str
    field: str
    key: str
    value: str | None


def marks_for(kind: LeaderKind, nodes: Iterable[Node], *, former: str, successor: str) -> tuple[Mark, ...]:
    """What must change for a node to lead, of the nodes of its location; first the mark that is added.

    Between two writes a location then has two candidates and never none. Kilo takes the first candidate by name, so no
    other one may stay; elsewhere other candidates are spare, and only the former leader must be none.
    """
    if kind is LeaderKind.HOOK:
        return ()
    field, key = _KEYS[kind]
    held = {node.name: _values(node, field).get(key) for node in nodes}
    wanted = Mark(node=successor, field=field, key=key, value="true")
    added = () if held.get(successor) == "true" else (wanted,)
    gone = (
        name
        for name, value in sorted(held.items())
        if value is not None and name != successor and (kind is LeaderKind.KILO or name == former)
    )
    return (*added, *(Mark(node=name, field=field, key=key, value=None) for name in gone))


def inverse(marks: Iterable[Mark], nodes: Mapping[str, Node]) -> tuple[Mark, ...]:
    """What restores the nodes as they are, in the opposite order."""
    return tuple(
        Mark(node=mark.node, field=mark.field, key=mark.key, value=_values(nodes[mark.node], mark.field).get(mark.key))
        for mark in reversed(tuple(marks))
        if mark.node in nodes
    )


def stands(mark: Mark, nodes: Mapping[str, Node]) -> bool:
    """Whether a node is as it should be."""
    return mark.node in nodes and _values(nodes[mark.node], mark.field).get(mark.key) == mark.value


def kilo_leader(nodes: Iterable[Node], unix_s: int) -> str:
    """Whom Kilo's agents take for the leader of a location; empty where none of its nodes is ready.

    The first by name with annotation and public endpoint; else with annotation; else with public endpoint; else the
    first of all.
    """
    ready = sorted((node for node in nodes if is_kilo_ready(node, unix_s)), key=lambda node: node.name)
    marked = [node for node in ready if KILO_LEADER in node.annotations]
    for candidates in ([node for node in marked if _is_public(node)], marked, [n for n in ready if _is_public(n)]):
        if candidates:
            return candidates[0].name
    return ready[0].name if ready else ""


def is_kilo_ready(node: Node, unix_s: int) -> bool:
    """Whether Kilo counts a node: its agent has checked in within a minute, and has a key and an endpoint."""
    notes = node.annotations
    seen = notes.get("kilo.squat.ai/last-seen", "")
    has_all = bool(notes.get("kilo.squat.ai/key") and _endpoint(node) and node.spec.pod_cidr)
    return has_all and seen.isdigit() and unix_s - int(seen) < KILO_READY_S


def _endpoint(node: Node) -> str:
    notes = node.annotations
    return notes.get("kilo.squat.ai/force-endpoint") or notes.get("kilo.squat.ai/endpoint") or ""


def _is_public(node: Node) -> bool:
    host = _endpoint(node).rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name counts only once an agent has resolved it
    return not any(address in network for network in _PRIVATE if network.version == address.version)


def _values(node: Node, field: str) -> Mapping[str, str]:
    return node.annotations if field == "annotations" else node.labels
