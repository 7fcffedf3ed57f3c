"""A role that lasts: what a restart of Kilo's agent looks like for a moment is no change of leaders.

Each start of Kilo's agent begins with a fifth of a second in which it knows no node but its own, so that kilo0 is up
and this node leads. Whoever believed that would tear down paths that work. Leaders do change, and then the new role
stays.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.discovery import Finding, LocalView

HOLD_NS: Final = 1_200_000_000
"""Six times as long as the transient. A change of leaders has to be followed by all nodes within three seconds, and up
to 0.5 s pass before it is looked at, 0.3 s until the words of all nodes agree, 0.5 s until the engines have it."""

_ROLE: Final = ("leader", "is_leader", "granularity", "wireguard_ip", "wireguard_ip6")


class Steady:
    """Holds a new role back until it has been the same for a while.

    The first is believed at once: there is nothing that could be kept instead.

    Args:
        hold_ns: how long.
    """

    def __init__(self, hold_ns: int = HOLD_NS) -> None:
        self._hold_ns = hold_ns
        self._believed: LocalView | None = None
        self._doubted: tuple[object, ...] | None = None
        self._since_ns = 0

    def observe(self, view: LocalView, now: int) -> LocalView:
        """Take in a view; returns it with the role that is believed.

        Args:
            view: as composed.
            now: monotonic nanoseconds.
        """
        believed = self._believed
        if believed is None or _role(view) == _role(believed):
            self._believed, self._doubted = view, None
            return view
        if self._doubted != _role(view):
            self._doubted, self._since_ns = _role(view), now
        if now - self._since_ns >= self._hold_ns:
            self._believed, self._doubted = view, None
            return view
        held = {name: getattr(believed, name) for name in _ROLE}
        lasting = f"which counts once it has lasted for {self._hold_ns / 1e9:g} s"
        text = f"{_tell(view)}, {lasting}; until then {_tell(believed)}"
        why = (*view.why, Finding(source=f"link {view.wireguard_device}", text=text))
        self._believed = msgspec.structs.replace(view, **held)
        return msgspec.structs.replace(self._believed, why=why)

    def deadline(self) -> int | None:
        """When a view has to be observed again although nothing has changed; None while nothing is doubted."""
        return None if self._doubted is None else self._since_ns + self._hold_ns


def _role(view: LocalView) -> tuple[object, ...]:
    return tuple(getattr(view, name) for name in _ROLE)


def _tell(view: LocalView) -> str:
    if view.is_leader:
        return "this node leads"
    return f"{view.leader} leads" if view.leader else "nobody leads"
