"""The figures of a mesh at rest. Pure: readings in, medians out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import attrgetter

from netnslab.topology import Topology

Counters = Mapping[str, int]

LAN_DEVICE = "eth0"
TUNNELS = ("kilo0", "wg0", "mw")
"""How the names of devices begin that lead to another location: the mesh's own and the standby links."""

WIREGUARD_BYTES = 60
"""Around each packet of a tunnel over IPv4: 20 IP, 8 UDP, 32 WireGuard; its padding to 16 bytes is left out."""

GOALS: Mapping[str, float] = {
    "wan_kbit_s": 100,
    "member_lan_kbit_s": 60,
    "member_cpu_percent": 1.0,
    "leader_cpu_percent": 2.0,
    "rss_mib": 56,
    "engine_rss_mib": 20,
}
"""What is aimed at; reported, not asserted."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a network device has carried; IP packets without the headers of the wire for a tunnel."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All counters of a node at one instant; processor time and memory by kind of process."""

    at_ns: int
    devices: Mapping[str, Device]
    cpu_ns: Mapping[str, int]
    rss_kib: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is printed.

    Attributes:
        worst: the greatest of each figure that has a goal; None where the mesh has no such node.
        wan: by location and direction, all tunnels of its nodes together.
        nodes: by node.
    """

    worst: Mapping[str, float | None]
    wan: Mapping[str, Mapping[str, Mapping[str, float]]]
    nodes: Mapping[str, Mapping[str, float]]


def read_devices(text: str) -> dict[str, Device]:
    """The text of /proc/PID/net/dev: two lines of heading, then `name:` and 16 numbers, 8 of them received."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        values = [int(number) for number in numbers.split()]
        found[name.strip()] = Device(values[0], values[1], values[8], values[9])
    return found


def summarise(topology: Topology, readings: Mapping[str, Sequence[Reading]]) -> Rest:
    """Medians over the windows between readings."""
    nodes = {node: _node(topology, node, taken) for node, taken in readings.items()}
    wan = {name: _wan([readings[node.name] for node in topology.members(name)]) for name in topology.locations}
    members = [figures for node, figures in nodes.items() if not topology.is_leader(node)]
    leaders = [figures for node, figures in nodes.items() if topology.is_leader(node)]
    worst: dict[str, float | None] = {
        "wan_kbit_s": max(way["kbit_s"] for each in wan.values() for way in each.values()),
        "member_lan_kbit_s": _worst(members, "lan_out_kbit_s", "lan_in_kbit_s"),
        "member_cpu_percent": _worst(members, "cpu_percent"),
        "leader_cpu_percent": _worst(leaders, "cpu_percent"),
        "rss_mib": _worst([*members, *leaders], "rss_mib"),
        "engine_rss_mib": _worst([*members, *leaders], "engine_rss_mib"),
    }
    return Rest(worst=worst, wan=wan, nodes=nodes)


def _worst(nodes: Sequence[Mapping[str, float]], *names: str) -> float | None:
    """None where the mesh has no such node."""
    return max((figures[name] for figures in nodes for name in names), default=None)


def _wan(nodes: Sequence[Sequence[Reading]]) -> dict[str, dict[str, float]]:
    """All tunnels of the nodes of a location together, out of it and into it."""
    found = {}
    for way in ("tx", "rx"):
        packets = _rate(nodes, partial(_tunnels, f"{way}_packets"))
        byte_rate = _rate(nodes, partial(_tunnels, f"{way}_bytes"))
        found["out" if way == "tx" else "in"] = {
            "kbit_s": round(byte_rate * 8 / 1000, 1),
            "on_the_wire_kbit_s": round((byte_rate + packets * WIREGUARD_BYTES) * 8 / 1000, 1),
            "packets_s": round(packets, 1),
        }
    return found


def _tunnels(counter: str, reading: Reading) -> int:
    return sum(attrgetter(counter)(device) for name, device in reading.devices.items() if name.startswith(TUNNELS))


def _lan(counter: str, reading: Reading) -> int:
    return int(attrgetter(counter)(reading.devices[LAN_DEVICE]))


def _cpu_ns(process: str, reading: Reading) -> int:
    return reading.cpu_ns[process]


def _node(topology: Topology, node: str, readings: Sequence[Reading]) -> dict[str, float]:
    figures: dict[str, float] = {"is_leader": topology.is_leader(node)}
    for way, name in (("tx", "out"), ("rx", "in")):
        figures[f"lan_{name}_kbit_s"] = round(_rate([readings], partial(_lan, f"{way}_bytes")) * 8 / 1000, 1)
        figures[f"lan_{name}_packets_s"] = round(_rate([readings], partial(_lan, f"{way}_packets")), 1)
    for kind in readings[0].cpu_ns:
        used = _rate([readings], partial(_cpu_ns, kind))
        figures[f"{kind}_cpu_percent"] = round(used / 1e7, 2)
        figures[f"{kind}_rss_mib"] = round(statistics.median(each.rss_kib[kind] for each in readings) / 1024, 1)
    figures["cpu_percent"] = round(sum(figures[f"{kind}_cpu_percent"] for kind in readings[0].cpu_ns), 2)
    figures["rss_mib"] = round(sum(figures[f"{kind}_rss_mib"] for kind in readings[0].cpu_ns), 1)
    return figures


def _rate(nodes: Sequence[Sequence[Reading]], counter: Callable[[Reading], int]) -> float:
    """By how much a counter of all these nodes together grows in a second: the median of all windows."""
    windows = [[_growth(before, after, counter) for before, after in pairwise(readings)] for readings in nodes]
    return statistics.median([float(sum(together)) for together in zip(*windows, strict=True)])


def _growth(before: Reading, after: Reading, counter: Callable[[Reading], int]) -> float:
    return (counter(after) - counter(before)) * 1e9 / (after.at_ns - before.at_ns)
