"""Documents name only what exists: a reader who looks for a file finds it."""

from __future__ import annotations

import re

import pytest

from tests.meta.tree import ROOT, name_of, repository_files

DOCUMENTS = [
    path
    for path in repository_files()
    if path.suffix == ".md" and path.name != "CHANGELOG.md" and "tests" not in path.relative_to(ROOT).parts
]
# A path in backticks: a folder of the repository or of the package, then a name with a suffix of ours.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|md|service|txt))(?:[:.]{1,2}\w+)*`")
ROOTS = ("", "meshwatchd/", "meshwatchd/core/", "tests/", "netns-lab/", "netns-lab/netnslab/")


def missing(text: str) -> list[str]:
    """The paths of a text that no folder of ours holds; NAME stands for any, and what begins with / is a node's."""
    named = (match[1] for match in PATH.finditer(text))
    return sorted(
        {path for path in named if "NAME" not in path and not any((ROOT / root / path).exists() for root in ROOTS)}
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_document_names_only_files_that_exist(document):
    """A map that leads nowhere is worse than none."""
    assert [] == missing(document.read_text(encoding="utf-8"))


def test_a_file_that_does_not_exist_is_found():
    """The test itself can fail."""
    assert ["core/nowhere.py"] == missing("see `core/nowhere.py` and `core/engine.py`")
