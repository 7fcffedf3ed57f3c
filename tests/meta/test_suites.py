"""Every test is run by one of the suites that `make test` runs: a test that nobody runs proves nothing."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath

from tests.meta.tree import ROOT, python_files

LAB_ITSELF = "tests/lab"
"""tests/conftest.py marks everything below it."""


def _folders(name: str) -> tuple[str, ...]:
    """A list of the Makefile."""
    found = re.search(rf"^{name} *:= *(.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, name
    return tuple(found[1].split())


def _is_below(path: PurePath, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_lab_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "lab" and ast.unparse(node) == "pytest.mark.lab"


def test_every_test_belongs_to_a_suite():
    """Those that are marked for the lab to its suite, all others to the quick one; `make pictures` has its own."""
    quick, lab, pictures = (_folders(f"{name}_TESTS") for name in ("QUICK", "LAB", "PICTURE"))
    tests = [path for path in python_files("tests") if path.name.startswith("test_")]
    tests = [path for path in tests if not _is_below(path.relative_to(ROOT), pictures)]
    assert tests
    homeless = []
    for path in tests:
        place, tree = path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))
        is_lab_only = _is_below(place, (LAB_ITSELF,))
        is_marked = is_lab_only or any(_is_lab_mark(node) for node in ast.walk(tree))
        if (is_marked and not _is_below(place, lab)) or (not is_lab_only and not _is_below(place, quick)):
            homeless.append(str(place))
    assert [] == homeless


def test_what_a_folder_shares_ends_with_it():
    """A package's fixtures lie in a package: elsewhere pytest keeps them, such as a mesh under load, to the end."""
    conftests = [path for path in python_files("tests") if path.name == "conftest.py"]
    sharing = [path.parent for path in conftests if 'scope="package"' in path.read_text(encoding="utf-8")]
    assert sharing
    assert [] == [str(folder) for folder in sharing if not (folder / "__init__.py").exists()]
