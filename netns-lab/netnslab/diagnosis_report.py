"""What the daemons said about each fault, judged: the cells of `bench-diagnosis` and their confusion matrix. Pure."""

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
        given: the code that stands for the daemons' diagnosis.
        is_named: a daemon says the expected code.
        is_place_right: and names the culprit.
        others: further codes that stood beside it, by how many daemons.
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
        """Named correctly, and nothing else is blamed."""
        return self.is_named and not self.others


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
) -> Cell:
    """Make a cell of what was told since the injection and what stood when it was judged.

    Companions are what a node says that sees the fault from its other side, as (node, code, culprit): that is no other
    blame.
    The diagnosis given is the expected code where it stands alone; else, of the others, the one most daemons say.
    """
    said = Counter(fault for _, fault in sorted({(each.node, each.fault) for each in standing}))
    blamed = {(each.node, each.fault) for each in standing if (each.node, each.fault, each.culprit) not in companions}
    counted = Counter(fault for _, fault in sorted(blamed))
    others = {fault: count for fault, count in counted.most_common() if fault != expected}
    mentions = [each.at_ns for each in history if each.fault == expected]
    is_named = expected in said
    return Cell(
        topology=topology,
        expected=expected,
        node=node,
        culprit=culprit,
        given=next(iter(others), expected if is_named else SILENCE),
        is_named=is_named,
        is_place_right=any(each.fault == expected and each.culprit == culprit for each in standing),
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
        row = {cell.topology: cell for cell in cells if cell.expected == expected}
        lines.append(
            f"{expected:<{width}}  {'  '.join(f'{_entry(row.get(name)):<28}' for name in topologies)}".rstrip()
        )
    total = summarise(cells)
    lines += ["", f"diagonal {total['diagonal']} of {total['cells']}, named {total['named']} (others blamed beside)"]
    return "\n".join(lines)


def _entry(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    after = f" {cell.verdict_ms / 1000:.1f} s" if cell.verdict_ms is not None else ""
    if cell.is_right:
        return f"right{after}" + ("" if cell.is_place_right else ", other node")
    return f"{'+ ' if cell.is_named else ''}{cell.given}"


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
