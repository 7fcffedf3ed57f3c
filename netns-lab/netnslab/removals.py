"""Somebody removes what the daemons have put into the kernel: when, and when a daemon says so.

    with Remover(lab.node("b2")) as remover:
        removal = remover.remove(standing(lab.node("b2"))[0])

One `ip` waits for its lines, so that what is measured is the kernel and the daemon and no start of a process.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from netnslab.daemons import Daemons, Event
from netnslab.inhabitant import Inhabitant
from netnslab.marks import MARK
from netnslab.waiting import wait_until

NOTICE_S = 20.0
"""Deadline of a wait, far beyond what is promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One object gone.

    Attributes:
        object: as `standing` names it.
        removed_ns: CLOCK_MONOTONIC before the command was handed over; the kernel removed it a little later.
    """

    object: str
    removed_ns: int


class Remover:
    """Removes a node's objects, one at a time."""

    def __init__(self, place: Inhabitant) -> None:
        self._place = place
        self._ip: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._ip = self._place.popen(["ip", "-4", "-force", "-batch", "-"], stdin=subprocess.PIPE)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._ip is not None:
            self._ip.communicate()

    def remove(self, named: str) -> Removal:
        """Remove an object."""
        assert self._ip is not None, "the context has begun"
        assert self._ip.stdin is not None, "it reads a pipe"
        removed_ns = time.monotonic_ns()
        self._ip.stdin.write(deletion(named) + "\n")
        self._ip.stdin.flush()
        return Removal(object=named, removed_ns=removed_ns)


def standing(place: Inhabitant) -> tuple[str, ...]:
    """Rules and routes of the daemon on a node, each in the words of ip(8) behind `rule` or `route`, sorted."""
    rules = place.run(["ip", "-4", "rule"], check=True).stdout
    routes = place.run(["ip", "-4", "route", "show", "table", "all", "proto", str(MARK)], check=True).stdout
    found = [f"rule {_words(line)}" for line in rules.splitlines() if line.split()[-2:] == ["proto", str(MARK)]]
    return tuple(sorted([*found, *(f"route {_words(line)}" for line in routes.splitlines() if line.strip())]))


def deletion(named: str) -> str:
    """The line for `ip -batch` that removes an object."""
    kind, _, words = named.partition(" ")
    if kind == "rule":
        priority, _, selectors = words.partition(": ")
        return f"rule del pref {priority} {selectors}"
    return f"route del {words} proto {MARK}"


def await_notice(daemons: Daemons, node: str, removal: Removal) -> Event:
    """Wait until a daemon has told of a removal.

    Raises:
        LabError: it has not in time.
    """
    return wait_until(
        lambda: next(iter(notices(daemons, node, removal.removed_ns)), None),
        timeout_s=NOTICE_S,
        what=f"{node} to notice that {removal.object} is gone",
    )


def notices(daemons: Daemons, node: str, since_ns: int) -> list[Event]:
    """What a daemon has told of objects that were removed."""
    return [event for event in daemons.events(node, since_ns=since_ns) if event.name == "object.reasserted"]


def _words(line: str) -> str:
    return " ".join(line.split())
