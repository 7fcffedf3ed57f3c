"""On which way the packets of a series were lost, by the reflector's count; arithmetic only.

The reflector's numbers that are missing are answers that were lost on the way back, and the lost packets beyond those
were lost on the way there. Three things spoil it, and each makes losses undetermined instead of wrong:

    a packet that arrives twice there is counted twice    its numbers stand for one packet of ours
    a count that begins again                             nothing connects the numbers before and after
    numbers beyond the packets that are missing           copies whose answers did not come

The reflector's own time orders its answers, whichever way they overtook one another; where its clock jumps, the order
of arrival does. Every lost packet is in one of the three sums, whatever a reflector writes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

_TIMES: Final = 1 << 64
_NUMBERS: Final = 1 << 32


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Where packets were lost: on the way there, on the way back, or where the count does not show it."""

    forward: int
    reverse: int
    undetermined: int


class Counted(NamedTuple):
    """One answer.

    Attributes:
        sequence: the sender's number of the packet.
        number: how many the reflector had counted before it; 32 bits, which may have wrapped.
        timestamp: when the answer left the reflector, by its own clock, 64 bits.
    """

    sequence: int
    number: int
    timestamp: int


def find_loss(answers: Sequence[Counted], sent: int) -> Loss:
    """Divide the lost packets of a series among the two ways, by all its answers in the order of arrival, copies
    included.
    """
    answered = {answer.sequence for answer in answers}
    lost = [sequence for sequence in range(sent) if sequence not in answered]
    forward = reverse = 0
    # Losses between two runs and behind the last answer are in none of them.
    behind = -1
    for index, run in enumerate(_runs(answers)):
        least, most = min(entry.sequence for entry in run), max(entry.sequence for entry in run)
        begin = _beginning(run, least) if index == 0 else None
        first = 0 if begin is not None else max(least, behind)
        inside = lost[bisect_left(lost, first) : bisect_right(lost, most)]
        there, back = _divide(run, inside, begin)
        forward, reverse, behind = forward + there, reverse + back, max(behind, most)
    return Loss(forward=forward, reverse=reverse, undetermined=len(lost) - forward - reverse)


def _beginning(run: Sequence[Counted], least: int) -> Counted | None:
    """The answer that would come before packet 0, if the reflector's count begins with this series.

    A number that is ahead of ours has counted something else before, or begins with 1.
    """
    number = min(entry.number for entry in run)
    return Counted(-1, -1, 0) if number <= least else None


def _divide(run: Sequence[Counted], lost: Sequence[int], begin: Counted | None) -> tuple[int, int]:
    """How many of the lost packets were certainly lost on the way there, and on the way back."""
    seen = sorted({(entry.number, entry.sequence) for entry in (run if begin is None else (begin, *run))})
    missing = max(0, seen[-1][0] - seen[0][0] + 1 - len(seen))
    copies = len(seen) - len({sequence for _, sequence in seen})
    surplus = sum(
        max(0, later - number - 1 - _between(lost, sequence, other))
        for (number, sequence), (later, other) in itertools.pairwise(seen)
    )
    back = min(missing, len(lost))
    return len(lost) - back, back - min(back, copies + surplus)


def _between(lost: Sequence[int], one: int, other: int) -> int:
    return bisect_left(lost, max(one, other)) - bisect_left(lost, min(one, other))


def _runs(answers: Sequence[Counted]) -> list[list[Counted]]:
    """The answers in the order in which they left, cut where the count begins again; numbers go on beyond 32 bits."""
    zero = answers[0].timestamp
    by_time = sorted(answers, key=lambda answer: (answer.timestamp - zero + _TIMES // 2) % _TIMES)
    return min(_cut(by_time), _cut(answers), key=len)


def _cut(answers: Iterable[Counted]) -> list[list[Counted]]:
    """Begin a new run where a number is not above the last one, unless the answer is a copy of that."""
    runs: list[list[Counted]] = []
    for answer in answers:
        before = runs[-1][-1] if runs else answer
        step = (answer.number - before.number + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2
        if runs and (step > 0 or (step == 0 and answer.sequence == before.sequence)):
            runs[-1].append(answer._replace(number=before.number + step))
        else:
            runs.append([answer])
    return runs
