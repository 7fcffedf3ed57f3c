"""One line of `meshwatchctl doctor`: what was looked at, how it is, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class CheckState(StrEnum):
    """How it is. A note needs no action and does not change the exit status."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check.

    Attributes:
        area: "configuration", "key", "daemon", "ports", "kernel", "rules", "clock", "firewall", "tunnels", "nodes".
        remedy: a command, or what to write where; empty where nothing is to be done.
    """

    area: str
    state: CheckState
    text: str
    remedy: str = ""


_ORDER = (CheckState.OK, CheckState.NOTE, CheckState.WARNING, CheckState.ERROR)


def worst(checks: Iterable[Check]) -> CheckState:
    """The worst state of all; OK where there are none."""
    return max((check.state for check in checks), key=_ORDER.index, default=CheckState.OK)
