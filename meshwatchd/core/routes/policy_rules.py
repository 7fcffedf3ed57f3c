"""Overrides as a kernel shows them: whose they are, and which are nobody's.

A daemon that is killed between the two messages of a change leaves the override of the path it went to behind that of
the path it came from: both have the pair's priority, and the kernel asks the older one first. So the first of a pair's
is the one that traffic follows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.plan import Rule
from meshwatchd.model.snapshot import Snapshot


class Legacy(NamedTuple):
    """What is left in the kernel of a path.

    Attributes:
        rules: its override; none on a node whose own traffic never took it.
        devices, tables: what it stands on.
    """

    rules: tuple[Rule, ...]
    devices: tuple[str, ...]
    tables: tuple[int, ...]


def by_pair(planner: Planner, rules: Iterable[Rule]) -> dict[int, tuple[Rule, ...]]:
    """The overrides among rules of ours, by the index of their pair, each pair's in the order of the kernel.

    That of a detour is about no pair.
    """
    found: dict[int, tuple[Rule, ...]] = {}
    for rule in (each for each in rules if not planner.is_of_detour(each)):
        path = planner.overridden_by(rule)
        pair = planner.pair_of_override(rule) if path is None else path.pair
        if pair is not None:
            found[pair] = (*found.get(pair, ()), rule)
    return found


def strays(planner: Planner, rules: Iterable[Rule], claimed: Container[Rule]) -> tuple[Rule, ...]:
    """Overrides that no pair knows of."""
    return tuple(rule for rule in rules if planner.pair_of_override(rule) is not None and rule not in claimed)


def legacy_of(rules: Sequence[Rule], snapshot: Snapshot, device_prefix: str) -> Legacy:
    """What is to be left behind where the first of these overrides fits no path of the mesh."""
    tables = tuple(dict.fromkeys(rule.table for rule in rules))
    devices = {route.dev for route in snapshot.routes if route.table in tables}
    return Legacy(tuple(rules), tuple(sorted(each for each in devices if each.startswith(device_prefix))), tables)
