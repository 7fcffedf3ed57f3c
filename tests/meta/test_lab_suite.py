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
MANY = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_many(n):\n    raise AssertionError\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (STEADY, (0, None)),
        (STEADY + ONCE, (0, "passed at try 2, so unsteady: test_story.py::test_1_times")),
        (ONCE + TWICE, (0, "passed at try 3, so unsteady: test_story.py::test_1_times, test_story.py::test_2_times")),
        (STEADY + ALWAYS, (1, "FAILED 3 TIMES: test_story.py::test_always")),
        (ONCE + ALWAYS, (1, "FAILED 3 TIMES: test_story.py::test_always")),
        (STEADY + MANY, (1, None)),
        ("import nothing_of_that_name\n", (2, None)),
        ("", (5, None)),
    ],
)
def test_what_fails_is_tried_again(root, tmp_path, source, expected):
    """The last try decides; more than one takes place for a few failed tests only, and is announced."""
    (tmp_path / "test_story.py").write_text(source, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, root / "scripts" / "lab-suite", "-q", "-p", "no:xdist", "test_story.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    status, said = expected
    assert status == ran.returncode, ran.stdout + ran.stderr
    assert ("==>" in ran.stdout) == (said is not None)
    assert said is None or ran.stdout.rstrip().endswith(f"==> {said}")
