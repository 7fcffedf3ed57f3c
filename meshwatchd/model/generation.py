"""Generations: which move of a pair of locations is the later one.

A generation is a serial number (RFC 1982) from 1 to 2^24 - 1, which is what a packet has room for; after the last comes
the first. 0 is a node that knows of no move: every other one is later.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.ids import NodeName

GENERATIONS: Final = (1 << 24) - 1
MOST_MISSED: Final = 1 << 20
"""Moves that a node may have missed: at 48 a day, policy's default, those of sixty years."""

_HALF: Final = GENERATIONS // 2


def following(generation: int) -> int:
    """The next one."""
    return generation % GENERATIONS + 1


def preceding(generation: int) -> int:
    """The one before, never 0."""
    return (generation - 2) % GENERATIONS + 1


def moves_between(earlier: int, later: int) -> int:
    """How many moves the second is after the first; negative where it is before it."""
    if not earlier or not later:
        return later - earlier
    return (later - earlier + _HALF) % GENERATIONS - _HALF


def is_comparable(one: int, other: int) -> bool:
    """Whether both can be of one mesh."""
    return abs(moves_between(one, other)) <= MOST_MISSED


class GenerationRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A peer is at a generation that this pair cannot have reached: it is not followed. Told once a minute."""

    pair: int
    peer: NodeName
    generation: int
    own_generation: int


class GenerationAccepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Most nodes agree on generations far from this node's, which was wrong: it counts as they do from here on."""

    pair: int
    generation: int
    own_generation: int
