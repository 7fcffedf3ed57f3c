"""What a running lab looks like from inside: devices, tunnels, diversions and faults, for drawing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from netnslab import ownership
from netnslab.fabric import fabric_of
from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab
from netnslab.marks import is_override
from netnslab.ownership import FaultRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node.

    Attributes:
        is_tunnel_up: whether its WireGuard device is up, which makes it a leader under Kilo; None when it has none.
        diverted_to: routing tables that meshwatchd's override rules point to.
    """

    name: str
    is_tunnel_up: bool | None
    diverted_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """A WireGuard device on two nodes that know each other's key.

    Attributes:
        ends: the nodes, in the order of the topology.
        handshake_age_s: seconds since the last handshake; None when there has been none.
        transferred_bytes: received by both ends, encrypted, since they were configured.
    """

    device: str
    ends: tuple[str, str]
    handshake_age_s: int | None
    transferred_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A whole lab at one moment."""

    lab_id: str
    wireguard: str
    nodes: Mapping[str, NodeState]
    tunnels: tuple[Tunnel, ...]
    faults: tuple[FaultRecord, ...]


def observe(lab: Lab) -> LiveState:
    """Look at every node; changes nothing."""
    record = ownership.read(lab.lab_id)
    names = tuple(lab.topology.nodes)
    dumps = {name: lab.node(name).run(["wg", "show", "all", "dump"]).stdout for name in names}
    return LiveState(
        lab_id=lab.lab_id,
        wireguard=record.wireguard,
        nodes={name: _observe_node(lab.node(name), fabric_of(lab.topology).device) for name in names},
        tunnels=match_tunnels(dumps, now_s=time.time_ns() // 1_000_000_000),
        faults=tuple(record.faults),
    )


def match_tunnels(dumps: Mapping[str, str], *, now_s: int) -> tuple[Tunnel, ...]:
    """Pair the ends of tunnels by their keys.

    Args:
        dumps: output of `wg show all dump` by node; tab-separated, five fields for a device (name, private
            key, public key, port, mark), nine for a peer (device, public key, preshared key, endpoint,
            allowed addresses, latest handshake in seconds of the epoch or 0, bytes received, bytes sent,
            keepalive). See wg(8).
        now_s: seconds of the epoch.
    """
    rows = [(node, line.split("\t")) for node, dump in dumps.items() for line in dump.splitlines()]
    # All standby links of a node share one key; a link has the same device name at both ends.
    owners = {(fields[0], fields[2]): node for node, fields in rows if len(fields) == 5}
    keys = {(node, device): key for (device, key), node in owners.items()}
    order = list(dumps)
    peers = {(fields[0], keys[node, fields[0]], fields[1]): fields for node, fields in rows if len(fields) == 9}
    tunnels = []
    for (device, near, far), fields in peers.items():
        back = peers.get((device, far, near))
        if back is None or order.index(owners[device, near]) > order.index(owners[device, far]):
            continue
        latest_s = max(int(fields[5]), int(back[5]))
        tunnels.append(
            Tunnel(
                device=device,
                ends=(owners[device, near], owners[device, far]),
                handshake_age_s=now_s - latest_s if latest_s else None,
                transferred_bytes=int(fields[6]) + int(back[6]),
            )
        )
    return tuple(tunnels)


def _observe_node(node: Inhabitant, device: str) -> NodeState:
    links = json.loads(node.run(["ip", "-j", "link"], check=True).stdout)
    flags = {link["ifname"]: link["flags"] for link in links}
    rules = json.loads(node.run(["ip", "-N", "-d", "-j", "rule"], check=True).stdout)
    return NodeState(
        name=node.name,
        is_tunnel_up="UP" in flags[device] if device in flags else None,
        diverted_to=tuple(str(rule["table"]) for rule in rules if is_override(rule)),
    )


def kernel_objects(place: Inhabitant) -> tuple[str, ...]:
    """Every rule, route and device there is, whoever made it; without indices and counters, sorted."""
    rules = place.run(["ip", "-4", "rule"], check=True).stdout
    routes = place.run(["ip", "-4", "route", "show", "table", "all"], check=True).stdout
    links = json.loads(place.run(["ip", "-json", "link"], check=True).stdout)
    lines = [line for text in (rules, routes) for line in text.splitlines() if line.strip()]
    return tuple(sorted([*lines, *(f"device {link['ifname']} {' '.join(link['flags'])}" for link in links)]))
