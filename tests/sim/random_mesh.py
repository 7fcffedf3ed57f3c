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
        letter = letters(place)
        names = [f"{letter}{number + 1}" for number in range(1 + shape.standbys + shape.members)]
        relays = names[: 1 + shape.standbys]
        locations.append(
            Location(
                name=LocationName(f"site-{letter}"),
                leader=NodeName(relays[0]),
                standbys=tuple(NodeName(name) for name in relays[1:]),
            )
        )
        nodes += [_node(place, number, name, is_relay=name in relays) for number, name in enumerate(names)]
    return MeshSettings(location=tuple(locations), node=tuple(nodes))


def letters(place: int) -> str:
    """What the names of a location's nodes begin with: a to z, then aa, ab and so on."""
    first, last = divmod(place, 26)
    return (chr(ord("a") + first - 1) if first else "") + chr(ord("a") + last)


def _node(place: int, number: int, name: str, *, is_relay: bool) -> Node:
    high, low = divmod(number + 11, 250)
    block = 100 + place * 4 + number // 250
    pods = f"10.{block}.{number % 250}.0" if block < 256 else f"11.{block - 256}.{number % 250}.0"
    above, endpoint = divmod(place * 8 + number + 1, 256)
    return Node(
        name=NodeName(name),
        location=LocationName(f"site-{letters(place)}"),
        node_ip=f"10.{place + 1}.{high}.{low + 1}",
        pod_cidr=f"{pods}/24",
        overlay_ip=pods,
        wireguard_ip=f"10.4.{0 if place < 11 else 254}.{place + 1}" if number == 0 else None,
        standby_public_key=f"key-of-{name}" if is_relay else None,
        standby_endpoint=f"203.0.{113 + above}.{endpoint}" if is_relay else None,
    )
