"""Which events a person wants to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from meshwatchd.model.fault_codes import Severity, weight

_LEVELS = {"debug": 0, "info": 0, "warning": 1, "error": 2}
_NAMING = ("culprit", "peer", "source", "relays")
"""Fields that hold names of nodes; `node` is always the one that tells."""


class Wanted(NamedTuple):
    """What an event must have; empty for whatever."""

    severity: str = "ok"
    node: str = ""
    location: str = ""
    fault: str = ""

    def is_met(self, event: Mapping[str, object]) -> bool:
        """Whether an event is wanted."""
        return (
            _weight(event) >= weight(self.severity)
            and self.location in ("", event.get("location"))
            and (not self.node or any(_holds(event.get(field), self.node) for field in _NAMING))
            and (not self.fault or self.fault in (event.get("fault"), event.get("previous")))
        )


def _weight(event: Mapping[str, object]) -> int:
    """How bad: by its severity, as of verdicts, or else by its level."""
    severity = event.get("severity")
    if severity in set(Severity):
        return weight(str(severity))
    return _LEVELS.get(str(event.get("level")), 0)


def _holds(value: object, name: str) -> bool:
    return value == name or (isinstance(value, list) and name in value)
