"""When a verdict deserves proof, and from whom: which node a bisection should look at.

A verdict names a layer and a culprit; where at the culprit packets die is for taps to tell. Every node that sees a
broken overlay could look, and in a large location that would be a stampede: the culprit, the relays and a few more do.
"""

from __future__ import annotations

from typing import Final

from meshwatchd.model.faults import Severity, Verdict
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.settings import MeshSettings

PROVABLE: Final = frozenset({Layer.OVERLAY, Layer.IPIP})
WITNESSES: Final = 3
"""Ordinary members that look as well, the first by name: a fault can be one member's alone."""


def choose_peer(verdict: Verdict, mesh: MeshSettings, node: str) -> NodeName | None:
    """The node to bisect the way to; None where a verdict needs no proof from here.

    Whoever is accused looks towards a relay of its own location, or another neighbour: what leaves it dies there too.
    """
    if verdict.severity is Severity.OK or verdict.layer not in PROVABLE or not verdict.culprit:
        return None
    homes = {each.name: each.location for each in mesh.node}
    here, there = homes.get(NodeName(node)), homes.get(NodeName(verdict.culprit))
    if here is None or here != there:
        return None
    relays = next((each.relays() for each in mesh.location if each.name == here), ())
    members = sorted(name for name, home in homes.items() if home == here and name not in relays)
    if node == verdict.culprit:
        return next((name for name in (*relays, *members) if name != node), None)
    return NodeName(verdict.culprit) if node in {*relays, *members[:WITNESSES]} else None
