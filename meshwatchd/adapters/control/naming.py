"""What paths are called, in sentences and tables; light to import, for every command names some."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.model.faults import BETWEEN_NODES
from meshwatchd.model.status import PairStatus, PathStatus


def name_path(path: PathStatus) -> str:
    """A path by its relays, as "a1-b2"."""
    return name_relays(path.relays)


def name_relays(relays: Iterable[object]) -> str:
    """The relays of a path joined by a hyphen."""
    return "-".join(str(relay) for relay in relays)


def name_place(pair: PairStatus) -> str:
    """Where the verdict's fault is: "node b1" or nothing; of a tunnel its ends, "tunnel b1-a1" or "tunnel to d1"."""
    culprit = pair.verdict.culprit
    if pair.verdict.fault in BETWEEN_NODES:
        for path in pair.paths:
            if path.rank == 0 and culprit in path.relays:
                return f"tunnel {name_path(path)}"
        return f"tunnel to {culprit}" if culprit else ""
    return f"node {culprit}" if culprit else ""
