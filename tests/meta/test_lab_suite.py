"""The further tries of the lab suite: they forgive what does not come back, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEADY = "def test_steady():\n    pass\n"
FEW_TIMES = """
from pathlib import Path
def test_{times}_times():
    mark = Path(__file__).with_name("ran-{times}")
    before = int(mark.read_text()) if mark.exists() else 0
    mark.write_text(str(before + 1))
    assert before >= {times}
"""
ONCE, TWICE = FEW_TIMES.format(times=1), FEW_TIMES.format(times=2)
ALWAYS = "def test_always():\n    raise AssertionError\n"
DRAGS = """
import pytest
@pytest.fixture(scope="module")
def mesh():
    mark = Path(__file__).with_name("ran-mesh")
    is_first = not mark.exists()
    mark.touch()
    return is_first
@pytest.mark.parametrize("n", range(6))
def test_dragged(mesh, n):
    assert not mesh
"""
MANY_FILES = [ALWAYS] * 6
MANY = DRAGS.replace("range(6)", "range(21)")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (STEADY, (0, None)),
        (STEADY + ONCE, (0, "passed at try 2, so unsteady: test_story.py::test_1_times")),
        (ONCE + TWICE, (0, "passed at try 3, so unsteady: test_story.py::test_1_times, test_story.py::test_2_times")),
        (STEADY + ALWAYS, (1, "FAILED 3 TIMES: test_story.py::test_always")),
        (ONCE + ALWAYS, (1, "FAILED 3 TIMES: test_story.py::test_always")),
        (ONCE + DRAGS, (0, "passed at try 2, so unsteady: test_story.py::test_1_times, {dragged}")),
        (MANY_FILES, (1, None)),
        (ONCE + MANY, (1, None)),
        ("import nothing_of_that_name\n", (2, None)),
        ("", (5, None)),
    ],
)
def test_what_fails_is_tried_again(root, tmp_path, source, expected):
    """The last try decides; more than one takes place where a few files have failed only, and is announced."""
    sources = [source] if isinstance(source, str) else source
    names = ["test_story.py", *(f"test_story_{number}.py" for number in range(2, len(sources) + 1))]
    for name, text in zip(names, sources, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, root / "scripts" / "lab-suite", "-q", "-p", "no:xdist", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    status, said = expected
    dragged = ", ".join(f"test_story.py::test_dragged[{number}]" for number in range(6))
    assert status == ran.returncode, ran.stdout + ran.stderr
    assert ("==>" in ran.stdout) == (said is not None)
    assert said is None or ran.stdout.rstrip().endswith(f"==> {said.format(dragged=dragged)}")
