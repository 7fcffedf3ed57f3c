"""Style that no linter knows: sizes, and the words a comment may not contain.

Limits are for readers. A file of the product of 400 lines is the last that fits in a head, and one of tests or
laboratory, which are read one by one, of 500; a function of 60 is the last that fits on a screen. All are hard, and
most code stays far below.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, name_of, python_files, repository_files

MAX_FILE_LINES, MAX_TEST_LINES = 400, 500
MAX_FUNCTION_LINES = 60
# One number for the formatter, the linter and this test.
MAX_LINE_LENGTH: int = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]

CODE = python_files("meshwatchd", "netns-lab", "kube", "scripts", "tests")

# A comment describes the code as it stands. Words that tell its history belong to the commit message.
# `now` is the name of an argument all over the core, so it is spared in code quotes and in
# places where it names an argument in prose ("passes now", "<= now").
HISTORY_WORDS = re.compile(
    r"\b(no longer|anymore|used to be|formerly|previously was|was renamed|newly|"
    r"as of this (commit|change|version))\b"
    r"|(?:^|[.:;] )now\b(?!=)"
    r"|\b(is|are|we|it|this|has|have|can|does|do|will) now\b",
    re.IGNORECASE,
)
# Where they begin, a whole file has quotes or a number sign: to take a file apart costs more than to search it.
MAY_BE_HISTORY = re.compile(HISTORY_WORDS.pattern.replace("(?:^|", "(?:[\"'#] *|"), re.IGNORECASE)
TASK_WITHOUT_ISSUE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?! ?\(?#\d+)")

# Text files whose lines are read by people. Lock files and the licence are not ours to break.
PROSE_SUFFIXES = {".py", ".toml", ".sh", ".service", ".conf", ".nft"}


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(_text(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _without_quoted_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "``", text)


def test_files_fit_in_a_head():
    """No Python file is longer than the limit; split by responsibility, not by size, when one is."""
    lengths = {name_of(path): len(_text(path).splitlines()) for path in CODE}

    limits = {name: MAX_TEST_LINES if name.startswith(("tests/", "netns-lab/")) else MAX_FILE_LINES for name in lengths}
    assert [] == [f"{name} has {lines} lines" for name, lines in lengths.items() if lines > limits[name]]


def test_functions_fit_on_a_screen():
    """No function is longer than the limit, decorators and docstring included."""
    too_long = [
        f"{name_of(path)}:{node.lineno} {node.name}: {length} lines"
        for path in CODE
        if _text(path).count("\n") > MAX_FUNCTION_LINES
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]

    assert [] == too_long


def test_comments_tell_the_present():
    """Comments and docstrings say how things are and why, not how they came to be."""
    offences = [
        f"{name_of(path)}:{line}: {match.group(0).strip()!r}"
        for path in CODE
        if MAY_BE_HISTORY.search(_text(path))
        for line, text in [*_comments(path), *_docstrings(path)]
        if (match := HISTORY_WORDS.search(_without_quoted_code(text)))
    ]

    assert [] == offences


def test_open_tasks_name_an_issue():
    """A TODO without an issue number is a wish; with one it is a plan."""
    offences = [
        f"{name_of(path)}:{line}: {match.group(0)}"
        for path in CODE
        if TASK_WITHOUT_ISSUE.search(_text(path))
        for line, text in _comments(path)
        if (match := TASK_WITHOUT_ISSUE.search(text))
    ]

    assert [] == offences


def test_lines_are_short_enough():
    """No line of code, configuration or script is longer than the limit."""
    offences = [
        f"{name_of(path)}:{number}: {len(line)} columns"
        for path in repository_files()
        if path.suffix in PROSE_SUFFIXES or ROOT / "scripts" in path.parents
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_LINE_LENGTH
    ]

    assert [] == offences


@pytest.mark.parametrize(
    "comment",
    ["the table is now empty", "Now the rule is added.", "no longer needed", "it is not used anymore"],
)
def test_history_is_recognised(comment):
    """The words that tell a change are found, and so is a file that has them."""
    assert HISTORY_WORDS.search(comment)
    assert MAY_BE_HISTORY.search(f'"""{comment}')
    assert MAY_BE_HISTORY.search(f"    # {comment}")


@pytest.mark.parametrize(
    "comment",
    ["deadline() <= now", "the caller passes now, in nanoseconds", "RFC 5880: known, renowned"],
)
def test_a_moment_is_not_history(comment):
    """The name of the time argument is spared."""
    assert not HISTORY_WORDS.search(comment)
