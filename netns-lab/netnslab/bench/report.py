"""The JSON document and the table of one benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from netnslab.bench import bird, frr
from netnslab.machine import machine_facts

WIDTH = 130
"""Figures that are cut off are worse than lines that a narrow terminal wraps."""
OUTPUT = Path("build/bench")

Row = Mapping[str, object]


def document(name: str, method: str, rows: Sequence[Row], **more: object) -> dict[str, object]:
    """What is written: where, when and with what it was measured, how, and the rows."""
    return {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "versions": {"bird": bird.version(), "frr": frr.version()},
        "method": method,
        **more,
        "rows": list(rows),
    }


def write(found: Mapping[str, object], directory: Path = OUTPUT) -> Path:
    """Write a document to its file and return that."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{found['benchmark']}.json"
    path.write_text(json.dumps(found, indent=2, default=str) + "\n", encoding="utf-8")
    return path


def show(found: Mapping[str, object], columns: Sequence[str], path: Path) -> None:
    """Print the rows as a table; a column `detect.p50` shows that entry of a nested figure."""
    rows = found["rows"]
    assert isinstance(rows, list)
    table = Table(title=str(found["benchmark"]), box=SIMPLE, padding=(0, 0, 0, 1))
    for column in columns:
        table.add_column(column.replace("_", " ").replace(".", " "), justify="right")
    for row in rows:
        table.add_row(*(cell(row, column) for column in columns))
    console = Console(width=max(Console().width, WIDTH))
    console.print(table, crop=False)
    console.print(f"details: {path}", highlight=False, soft_wrap=True)


def cell(row: Row, column: str) -> str:
    """One figure as text; `-` where there is none."""
    value: object = row
    for key in column.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return "-" if value is None else str(value)
