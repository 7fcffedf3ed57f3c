"""Whether each canary can be asked, and stands for a node there is."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.config.check_mesh import is_whole
from meshwatchd.config.shape import element_key
from meshwatchd.config.values import (
    Finding,
    check_address,
    check_address6,
    check_duration,
    check_name,
    check_number,
)
from meshwatchd.model.settings import MINUTE, MS, Canary, CanaryExpect, CanaryKind, Settings

MAX_CANARIES = 16
"""Each may have several questions open, and each of those is a descriptor; it is the mesh that is to be watched."""

SHORTEST_INTERVAL_NS = 200 * MS
"""Somebody else's service answers: five questions a second from every node are enough to ask of it."""


def check_canaries(settings: Settings) -> Iterator[Finding]:
    """Everything under [[probe.canary]]."""
    canaries = settings.probe.canary
    if len(canaries) > MAX_CANARIES:
        yield Finding(
            key="probe.canary",
            problem=f"{len(canaries)} canaries are declared",
            remedy=f"keep at most {MAX_CANARIES}: one for each node that matters",
        )
    names = [canary.name for canary in canaries]
    nodes = [node.name for node in settings.mesh.node]
    for index, canary in enumerate(canaries):
        key = element_key("probe.canary", index, canary.name)
        yield from check_name(f"{key}.name", canary.name)
        if canary.name in names[:index]:
            first = f"probe.canary[{names.index(canary.name)}]"
            yield Finding(key=f"{key}.name", problem=f"{first} has the same name", remedy="give each its own")
        yield from _check_canary(key, canary)
        if canary.node not in nodes and is_whole(settings):
            yield Finding(
                key=f"{key}.node",
                problem=f"{canary.node!r} is no node of the mesh",
                remedy=f"write the node the pod runs on, one of {', '.join(nodes) or 'those under [[mesh.node]]'}",
            )


def _check_canary(key: str, canary: Canary) -> Iterator[Finding]:
    check = check_address6 if ":" in canary.address else check_address
    yield from check(f"{key}.address", canary.address)
    yield from check_number(f"{key}.port", canary.port, least=1, most=65_535)
    yield from check_duration(f"{key}.interval", canary.interval, shortest_ns=SHORTEST_INTERVAL_NS, longest_ns=MINUTE)
    if canary.kind is CanaryKind.UDP and canary.expect is CanaryExpect.SERVICE:
        yield Finding(
            key=f"{key}.expect",
            problem='"service" means a connection, and UDP has none',
            remedy='write expect = "answer", or kind = "tcp"',
        )
