"""Whose addresses a prefix holds: one rule for all claims, whoever makes them.

    believed (addresses of nodes, the operator's word) --+
    claims, the best founded first ----------------------+--> accepted, and contradictions by name

Of two claims that overlap, the one stays that overlaps fewer of the others, since a prefix that is too wide overlaps
many; then the one that a node's kernel shows; then the one of a node that is alive; then the narrower; then the first
by name. All of that is in hellos, so nodes that have heard the same leave out the same.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network
from typing import NamedTuple


class Claim(NamedTuple):
    """Somebody has the addresses of an IPv4 prefix.

    Attributes:
        who: a node's name, or that of a device of this node.
        is_shown: the kernel of that node shows it; not only an agent or a file says so.
        is_alive: that node was heard lately.
    """

    who: str
    prefix: str
    is_shown: bool = False
    is_alive: bool = True


class Contradiction(NamedTuple):
    """A claim that is left out, and what it contradicts.

    Attributes:
        against: one claim that was accepted.
        others: how many more overlap with it.
    """

    claim: Claim
    against: Claim
    others: int = 0

    def render(self) -> str:
        """Who says what against whom, without a remedy."""
        more = f" and {self.others} more" if self.others else ""
        return (
            f"{self.claim.who} claims {self.claim.prefix}, which overlaps {self.against.prefix} of"
            f" {self.against.who}{more}"
        )


class Judgement(NamedTuple):
    """What `judge` makes of claims."""

    accepted: tuple[Claim, ...]
    contradictions: tuple[Contradiction, ...]


_Held = tuple[int, int, Claim]
"""First address, the last one with its sign turned, the claim: the wider of two that begin alike comes first."""


# A mesh of two thousand nodes is judged at each change of a hello, and its prefixes are the same.
@lru_cache(maxsize=8192)
def span(prefix: str) -> tuple[int, int]:
    """The first and the last address of an IPv4 prefix, as numbers; an address alone is a prefix of full length."""
    network = IPv4Network(prefix, strict=False)
    return int(network.network_address), int(network.broadcast_address)


def covers(one: str, other: str) -> bool:
    """Whether a prefix holds all of another one."""
    (first, last), (begin, end) = span(one), span(other)
    return first <= begin and end <= last


def holds(prefix: str, address: str) -> bool:
    """Whether an IPv4 prefix holds an address; neither a prefix nor an address of IPv6 is in question."""
    return ":" not in prefix and ":" not in address and covers(prefix, address)


def is_part(narrow: str, wide: str) -> bool:
    """Whether a prefix is within another and not the same; those of IPv6 are not in question."""
    return ":" not in narrow and ":" not in wide and narrow != wide and covers(wide, narrow)


def overlap(one: str, other: str) -> bool:
    """Whether two prefixes have an address in common: one of them holds the other."""
    (first, last), (begin, end) = span(one), span(other)
    return first <= end and begin <= last


def judge(believed: Iterable[Claim], claims: Iterable[Claim]) -> Judgement:
    """Settle who has which addresses; prefixes of one node may overlap.

    Args:
        believed: what stands whatever anybody claims; it is not compared with itself.
        claims: of these, those that contradict are left out.
    """
    standing, told = sorted(map(_held, believed)), sorted(map(_held, claims))
    everything = sorted(standing + told)
    if _is_consistent(everything):
        return Judgement(tuple(claim for *_, claim in told), ())
    widths = {last + first for first, last, _ in everything}
    overlaps = {claim: sum(1 for _ in _against(everything, widths, claim)) for *_, claim in told}
    accepted, contradictions = [], []
    for claim in sorted(overlaps, key=lambda claim: _order(claim, overlaps[claim])):
        first_found = next(_against(standing, widths, claim), None)
        if first_found is None:
            accepted.append(claim)
            insort(standing, _held(claim))
        else:
            contradictions.append(Contradiction(claim, first_found, overlaps[claim] - 1))
    return Judgement(tuple(accepted), tuple(contradictions))


def _held(claim: Claim) -> _Held:
    first, last = span(claim.prefix)
    return first, -last, claim


def _order(claim: Claim, overlaps: int) -> tuple[int, bool, bool, int, str, str]:
    first, last = span(claim.prefix)
    return overlaps, not claim.is_shown, not claim.is_alive, last - first, claim.who, claim.prefix


def _is_consistent(ordered: Iterable[_Held]) -> bool:
    """Whether nobody's prefix begins before the farthest end of those before it, but for the same node's."""
    farthest, owner = -1, ""
    for first, negative_last, claim in ordered:
        if first <= farthest and claim.who != owner:
            return False
        if -negative_last > farthest:
            farthest, owner = -negative_last, claim.who
    return True


def _against(ordered: list[_Held], widths: Iterable[int], claim: Claim) -> Iterator[Claim]:
    """Claims of others that overlap with one: those within it, and those that hold it."""
    first, last = span(claim.prefix)
    for begin, _, other in itertools.islice(ordered, bisect_left(ordered, (first,)), None):
        if begin > last:
            break
        if other.who != claim.who:
            yield other
    for width in sorted(widths):
        begin = first & ~-width
        if begin == first:
            continue  # found above
        place = bisect_left(ordered, (begin, width - begin))
        while place < len(ordered) and ordered[place][:2] == (begin, width - begin):
            if ordered[place][2].who != claim.who:
                yield ordered[place][2]
            place += 1
