"""Pairs of locations whose traffic a node could relay, and does not relay at this moment."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.status import Status

Pair = tuple[LocationName, LocationName]
"""The node's own location, and the other one."""


def idle_pairs(status: Status) -> frozenset[Pair]:
    """Pairs of which the node is a relay on some path, but not on the path in use."""
    return frozenset(
        (LocationName(pair.location), LocationName(pair.remote_location))
        for pair in status.pairs
        if any(path.is_local_relay for path in pair.paths)
        and not any(path.is_local_relay and path.is_active for path in pair.paths)
    )


def relayed_prefixes(mesh: MeshSettings, node: NodeName, pair: Pair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """IPv4 prefixes at the two ends of what the node would relay; not its own, whose packets it always sees."""
    near, far = (tuple(_prefixes(mesh, node, location)) for location in pair)
    return near, far


def _prefixes(mesh: MeshSettings, node: NodeName, location: LocationName) -> Iterator[str]:
    for each in mesh.node:
        if each.location == location and each.name != node:
            yield from (prefix for prefix in each.prefixes() if ":" not in prefix)
