"""Where rules of ours stand among all rules of a node, and what of somebody else's rules decides that."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

WIDE, NARROW = 100, 4
"""Priorities of a window: of the configured one, and of one between foreign rules."""


class RuleWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive rule priorities that are ours.

    A wide window is the configured one: selectors have a priority for each path, overrides one for each pair. A narrow
    one fits between foreign rules; there all selectors share a priority, and all overrides. That changes nothing:
    selectors of different ports exclude each other, as do tables that lead to different locations.

    Attributes:
        first: the lowest priority, which the kernel asks first.
    """

    first: int
    is_narrow: bool = False

    @property
    def size(self) -> int:
        """How many priorities it has."""
        return NARROW if self.is_narrow else WIDE

    @property
    def used(self) -> frozenset[int]:
        """Priorities at which rules of ours may stand; the others are free."""
        return frozenset((self.delivery, *range(self.selector(0), self.landing + 1)))

    @property
    def delivery(self) -> int:
        """Of the rule that delivers what comes out of a standby link."""
        return self.first

    def selector(self, slot: int) -> int:
        """Of the rules that select probes of a path."""
        return self.first + (1 if self.is_narrow else 10 + slot)

    def override(self, place: int) -> int:
        """Of the rule that moves a pair's traffic."""
        return self.first + (2 if self.is_narrow else 60 + place)

    @property
    def landing(self) -> int:
        """Of the rule that probes jump to which must not meet an override."""
        return self.first + (3 if self.is_narrow else 80)

    def holds(self, priority: int) -> bool:
        """Whether a priority is in the window."""
        return 0 <= priority - self.first < self.size

    def is_override(self, priority: int) -> bool:
        """Whether overrides stand at a priority."""
        return self.override(0) <= priority < self.landing


class Prefix(NamedTuple):
    """An IPv4 prefix: its network address as a number, and its length."""

    address: int
    length: int

    def within(self, length: int) -> Prefix:
        """The prefix of a shorter length that it is in."""
        return Prefix(self.address >> (32 - length) << (32 - length), length)


class ForeignRule(NamedTuple):
    """A rule of somebody else that takes packets without mark, whatever their ports.

    Attributes:
        text: as `ip rule` would say it.
        table: that it looks up; None for a rule that ends the search (blackhole, unreachable, prohibit), or leads it
            past whatever follows (goto).
        to: the destinations it takes; None for all.
        suppressed: routes of this length or shorter do not count (suppress_prefixlength); -1 for none.
    """

    priority: int
    text: str
    table: int | None = None
    to: Prefix | None = None
    suppressed: int = -1
