"""Meshes by number: how many locations, standbys and members, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.topology import Location, Node


class Shape(NamedTuple):
    """One location: standbys beside its leader, and nodes that relay nothing."""

    standbys: int
    members: int


def mesh_of(shapes: Sequence[Shape]) -> MeshSettings:
    """Locations a, b, c, ...; the leader of a is a1, its standbys a2 and so on, then its members."""
    locations, nodes = [], []
    for place, shape in enumerate(shapes):
        letter = chr(ord("a") + place)
        names = [f"{letter}{number + 1}" for number in range(1 + shape.standbys + shape.members)]
        relays = names[: 1 + shape.standbys]
        locations.append(
            Location(
                name=LocationName(f"site-{letter}"),
                leader=NodeName(relays[0]),
                standbys=tuple(NodeName(name) for name in relays[1:]),
            )
        )
        nodes += [_node(place, letter, number, is_relay=name in relays) for number, name in enumerate(names)]
    return MeshSettings(location=tuple(locations), node=tuple(nodes))


def _node(place: int, letter: str, number: int, *, is_relay: bool) -> Node:
    name = f"{letter}{number + 1}"
    high, low = divmod(number + 11, 250)
    return Node(
        name=NodeName(name),
        location=LocationName(f"site-{letter}"),
        node_ip=f"10.{place + 1}.{high}.{low + 1}",
        pod_cidr=f"10.{100 + place * 4 + number // 250}.{number % 250}.0/24",
        overlay_ip=f"10.{100 + place * 4 + number // 250}.{number % 250}.0",
        wireguard_ip=f"10.4.0.{place + 1}" if number == 0 else None,
        standby_public_key=f"key-of-{name}" if is_relay else None,
        standby_endpoint=f"203.0.113.{place * 8 + number + 1}" if is_relay else None,
    )
