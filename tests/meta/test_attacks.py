"""DESIGN.md's list of what attackers can do: what holds each line is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.meta.tree import ROOT

_SECTION = "## What an attacker can do"
_PLACE = re.compile(r"`([a-z0-9_/]+\.py)(?:::(test_\w+))?`")


def _places() -> list[tuple[str, str]]:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8").partition(_SECTION)[2].partition("\n## ")[0]
    return _PLACE.findall(text)


def test_the_list_is_found():
    """Under its heading, and with more than a handful of lines."""
    assert len(_places()) > 10


@pytest.mark.parametrize(("path", "name"), _places())
def test_what_holds_a_line_is_there(path: str, name: str):
    """A file, and in it the function."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not name or name in names
