"""What paths are called, in sentences and tables; light to import, for every command names some."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.model.status import PathStatus


def name_path(path: PathStatus) -> str:
    """A path by its relays, as "a1-b2"."""
    return name_relays(path.relays)


def name_relays(relays: Iterable[object]) -> str:
    """The relays of a path joined by a hyphen."""
    return "-".join(str(relay) for relay in relays)
