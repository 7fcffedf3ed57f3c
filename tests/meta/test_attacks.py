"""DESIGN.md's list of what attackers can do: what holds each line is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.meta.tree import ROOT

_SECTION = "## What an attacker can do"
_PLACE = re.compile(r"`([a-z0-9_/]+\.py)(?:::(test_\w+))?`")


def _section() -> str:
    return (ROOT / "DESIGN.md").read_text(encoding="utf-8").partition(_SECTION)[2].partition("\n## ")[0]


def _places() -> list[tuple[str, str]]:
    return _PLACE.findall(_section())


def test_the_list_is_found():
    """Under its heading, and with more than a handful of lines."""
    assert len(_places()) > 10


def test_each_line_names_what_holds_it():
    """What nothing holds is a wish."""
    rows = [line for line in _section().splitlines() if line.startswith("|")][2:]

    assert rows
    assert [] == [row for row in rows if not _PLACE.search(row.split("|")[-2])]


@pytest.mark.parametrize(("path", "name"), _places())
def test_what_holds_a_line_is_there(path: str, name: str):
    """A file, and in it the function."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not name or name in names
