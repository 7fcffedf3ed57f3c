"""tests/unit mirrors meshwatchd: whoever opens a file knows where its tests are, and that they are.

`meshwatchd/x/y.py` is tested by `tests/unit/x/test_y.py`, or, where one file would grow too long, by several
`tests/unit/x/test_y_<aspect>.py`; `kube/meshwatchkube/y.py` likewise by `tests/unit/meshwatchkube/test_y.py`. The
lab's own unit tests live in `tests/unit/netnslab` by the same rule; it
is not demanded there, because most of the lab is tested by being built.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.meta.tree import ROOT, name_of, python_files

PACKAGE = ROOT / "meshwatchd"
LAB_PACKAGE = ROOT / "netns-lab" / "netnslab"
KUBE_PACKAGE = ROOT / "kube" / "meshwatchkube"
PACKAGES = {"netnslab": LAB_PACKAGE, "meshwatchkube": KUBE_PACKAGE}
UNIT = ROOT / "tests" / "unit"

# Modules with logic but without a unit test of their own, each with where it is tested instead. This list
# shrinks: an entry whose test has appeared fails below, and so does a list longer than the budget.
EXCEPTIONS: dict[str, str] = {}
EXCEPTION_BUDGET = 0


def _has_logic(path: Path) -> bool:
    """A module with a function that does something; types, constants, tables and Protocols only declare."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(not isinstance(line, ast.Expr) for function in functions for line in function.body)


def _unit_folder_of(module: Path) -> Path:
    if module.is_relative_to(KUBE_PACKAGE):
        return UNIT / "meshwatchkube" / module.relative_to(KUBE_PACKAGE).parent
    return UNIT / module.relative_to(PACKAGE).parent


def _unit_tests_of(module: Path) -> list[Path]:
    folder = _unit_folder_of(module)
    return [*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")]


def _modules() -> list[Path]:
    return [path for path in python_files("meshwatchd", "kube/meshwatchkube") if path.name != "__init__.py"]


MODULES = [path for path in _modules() if _has_logic(path)]


def test_modules_with_logic_have_unit_tests():
    """Every module that does something has its unit test in the mirrored place."""
    lacking = [path for path in MODULES if name_of(path) not in EXCEPTIONS and not _unit_tests_of(path)]

    assert [] == [f"write {name_of(_unit_folder_of(path))}/test_{path.stem}.py" for path in lacking]


def test_unit_tests_have_modules():
    """No unit test outlives the module it was written for."""
    tests = [path for path in python_files("tests/unit") if path.stem.startswith("test_")]

    assert [] == [f"{name_of(test)}: there is no {name_of(first)}" for test in tests if (first := _lacking(test))]


def _lacking(test: Path) -> Path | None:
    """The module that a unit test is about by its name, where there is none of that name or of its beginning."""
    package, *folders = test.relative_to(UNIT).parent.parts
    folder = PACKAGES[package].joinpath(*folders) if package in PACKAGES else PACKAGE.joinpath(package, *folders)
    words = test.stem.removeprefix("test_").split("_")
    candidates = [folder / f"{'_'.join(words[:length])}.py" for length in range(len(words), 0, -1)]

    return None if any(candidate.is_file() for candidate in candidates) else candidates[0]


def test_exceptions_only_shrink():
    """The list of exceptions holds no module that is gone or is tested by the mirror, and never grows."""
    stale = [name for name in EXCEPTIONS if not (ROOT / name).is_file() or _unit_tests_of(ROOT / name)]

    assert [] == stale
    assert len(EXCEPTIONS) <= EXCEPTION_BUDGET
