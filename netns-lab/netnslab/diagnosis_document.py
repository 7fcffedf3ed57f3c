"""The JSON document of `bench-diagnosis`: written by one run, and joined from several of the same commit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netnslab.diagnosis_report import Cell, Told, matrix, summarise
from netnslab.machine import commit_facts, machine_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What one run has measured, and of what."""

    path: Path
    commit: str
    machine: Mapping[str, object]
    cells: tuple[Cell, ...]

    @property
    def provenance(self) -> Mapping[str, object]:
        """What a joined document tells of this one."""
        return {"file": self.path.name, "cells": len(self.cells), "load_average": self.machine.get("load_average")}


def write(
    cells: Sequence[Cell],
    path: Path,
    *,
    method: str,
    commit: str | None = None,
    merged: Sequence[Mapping[str, object]] = (),
) -> None:
    """Write a document: of the commit that runs, or of another one, joined from the runs `merged`."""
    document = {
        "benchmark": "diagnosis",
        "method": method,
        "commit": commit_facts() if commit is None else commit,
        "machine": machine_facts(),
        "merged": list(merged),
        "summary": summarise(cells),
        "matrix": matrix(cells),
        "cells": [{**dataclasses.asdict(cell), "is_right": cell.is_right} for cell in cells],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Document:
    """Read a document.

    Raises:
        ValueError: it is none of this benchmark.
        OSError: it cannot be read.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("benchmark") != "diagnosis" or "commit" not in document:
        raise ValueError(f"{path} is no document of bench-diagnosis")
    cells = tuple(_cell(each) for each in document["cells"])
    return Document(path=path, commit=document["commit"], machine=document["machine"], cells=cells)


def joined(documents: Sequence[Document]) -> tuple[tuple[Cell, ...], str]:
    """All cells, those of one topology together, and their commit; a cell that was tried twice counts twice.

    Raises:
        ValueError: they are of different commits, and so no matrix of anything.
    """
    commits = {each.commit for each in documents}
    if len(commits) > 1:
        raise ValueError(f"these are of different commits: {', '.join(sorted(commits))}")
    cells = [cell for each in documents for cell in each.cells]
    return tuple(sorted(cells, key=lambda cell: cell.topology)), commits.pop()


def _cell(fields: Mapping[str, Any]) -> Cell:
    told = {name: tuple(Told(**each) for each in fields[name]) for name in ("history", "standing")}
    return Cell(**{**{name: value for name, value in fields.items() if name != "is_right"}, **told})
