"""What the daemons said about each fault, judged: the cells of `bench-diagnosis` and their confusion matrix. Pure.

A fault's own code counts where it names the right culprit; the code at another node is blame like any other, and stands
in the matrix as `code@node`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

SILENCE = "(nothing)"
"""The diagnosis of a fault that nobody told."""

CALM = "none"
"""What a verdict says while all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that one daemon told or still says.

    Attributes:
        source: verdict or finding.
        at_ns: CLOCK_MONOTONIC; 0 for what stands.
    """

    node: str
    fault: str
    culprit: str
    source: str
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault in one topology, and what became of it.

    Attributes:
        expected: the code of the verdict it deserves.
        culprit: the node that deserves it.
        given: the code that stands for the daemons' diagnosis; `code@node` where it is the expected one elsewhere.
        is_named: a daemon says the expected code.
        is_place_right: and names the culprit.
        others: further codes that stood beside it, and the expected one at other nodes, by how many daemons.
        verdict_ms: from the injection to the first mention of the expected code; None without any.
        history: everything told from the injection to the judgement.
        calm_ms: from healing to everybody's silence; None when that did not come in time.
    """

    topology: str
    expected: str
    node: str
    culprit: str
    given: str
    is_named: bool
    is_place_right: bool
    others: Mapping[str, int]
    verdict_ms: float | None
    history: Sequence[Told]
    standing: Sequence[Told]
    calm_ms: float | None

    @property
    def is_right(self) -> bool:
        """Named correctly with its culprit, and nothing else is blamed."""
        return self.is_place_right and not self.others


def judge(
    *,
    topology: str,
    expected: str,
    node: str,
    culprit: str,
    injected_ns: int,
    history: Sequence[Told],
    standing: Sequence[Told],
    calm_ms: float | None,
    companions: Collection[tuple[str, str, str]] = (),
    places: Collection[tuple[str, str]] | None = None,
) -> Cell:
    """Make a cell of what was told since the injection and what stood when it was judged.

    Companions are what a node says that sees the fault from its other side, as (node, code, culprit): that is no other
    blame. Places are the culprits that a node may name, as (node, culprit), where a fault is between two nodes or at
    both; elsewhere it is `culprit` for everybody.
    The diagnosis given is the expected code where it stands alone; else, of the others, the one most daemons say.
    """

    def is_place(each: Told) -> bool:
        is_right = each.culprit == culprit if places is None else (each.node, each.culprit) in places
        return each.fault == expected and is_right

    blamed = {
        (each.node, each.fault if each.fault != expected else f"{each.fault}@{each.culprit}")
        for each in standing
        if not is_place(each) and (each.node, each.fault, each.culprit) not in companions
    }
    counted = Counter(fault for _, fault in sorted(blamed))
    others = dict(counted.most_common())
    mentions = [each.at_ns for each in history if each.fault == expected]
    is_named = any(each.fault == expected for each in standing)
    return Cell(
        topology=topology,
        expected=expected,
        node=node,
        culprit=culprit,
        given=next(iter(others), expected if is_named else SILENCE),
        is_named=is_named,
        is_place_right=any(is_place(each) for each in standing),
        others=others,
        verdict_ms=(min(mentions) - injected_ns) / 1e6 if mentions else None,
        history=history,
        standing=standing,
        calm_ms=calm_ms,
    )


def summarise(cells: Sequence[Cell]) -> dict[str, object]:
    """Counts and shares for the JSON document."""
    times = sorted(cell.verdict_ms for cell in cells if cell.verdict_ms is not None)
    return {
        "cells": len(cells),
        "diagonal": sum(cell.is_right for cell in cells),
        "diagonal_share": _share(sum(cell.is_right for cell in cells), len(cells)),
        "named": sum(cell.is_named for cell in cells),
        "named_share": _share(sum(cell.is_named for cell in cells), len(cells)),
        "place_right": sum(cell.is_place_right for cell in cells),
        "verdict_p50_ms": times[len(times) // 2] if times else None,
        "verdict_max_ms": times[-1] if times else None,
        "not_calm_afterwards": sum(cell.calm_ms is None for cell in cells),
    }


def matrix(cells: Iterable[Cell]) -> dict[str, dict[str, int]]:
    """How often each expected code (outer key) was given as which (inner key)."""
    counted: dict[str, dict[str, int]] = {}
    for cell in cells:
        row = counted.setdefault(cell.expected, {})
        row[cell.given] = row.get(cell.given, 0) + 1
    return counted


def render(cells: Sequence[Cell]) -> str:
    """The confusion matrix for a terminal: a row for each fault, the diagonal first, what was said instead behind."""
    width = max((len(cell.expected) for cell in cells), default=0)
    topologies = tuple(dict.fromkeys(cell.topology for cell in cells))
    lines = [f"{'fault':<{width}}  {'  '.join(f'{name:<28}' for name in topologies)}"]
    for expected in dict.fromkeys(cell.expected for cell in cells):
        rows = [[each for each in cells if (each.expected, each.topology) == (expected, name)] for name in topologies]
        lines.append(f"{expected:<{width}}  {'  '.join(f'{_entries(row):<28}' for row in rows)}".rstrip())
    total = summarise(cells)
    right = f"diagonal {total['diagonal']} of {total['cells']} (named, at the right node, and nothing else blamed)"
    lines += ["", f"{right}; named {total['named']}, culprit named {total['place_right']}"]
    return "\n".join(lines)


def _entries(cells: Sequence[Cell]) -> str:
    return ", ".join(_entry(cell) for cell in cells) or "-"


def _entry(cell: Cell) -> str:
    if cell.is_right:
        return "right" + (f" {cell.verdict_ms / 1000:.1f} s" if cell.verdict_ms is not None else "")
    return f"{'+ ' if cell.is_place_right else ''}{cell.given}"


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
