"""The second try of the lab suite: it forgives what does not come back, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

STEADY = "def test_steady():\n    pass\n"
ONCE = """
from pathlib import Path
def test_once(request):
    mark = Path(__file__).with_name("ran")
    if not mark.exists():
        mark.touch()
        raise AssertionError
"""
ALWAYS = "def test_always():\n    raise AssertionError\n"
FOUR = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_four(n):\n    raise AssertionError\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (STEADY, (0, None)),
        (STEADY + ONCE, (0, "passed at the second try, so unsteady: test_story.py::test_once")),
        (STEADY + ALWAYS, (1, "FAILED TWICE: test_story.py::test_always")),
        (ONCE + ALWAYS, (1, "FAILED TWICE: test_story.py::test_always, test_story.py::test_once")),
        (STEADY + FOUR, (1, None)),
        ("import nothing_of_that_name\n", (2, None)),
        ("", (5, None)),
    ],
)
def test_what_fails_is_tried_once_more(root, tmp_path, source, expected):
    """Its own status decides; a second run takes place for a few failed tests only, and is announced."""
    (tmp_path / "test_story.py").write_text(source, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, root / "scripts" / "lab-suite", "-q", "-p", "no:xdist", "test_story.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    status, said = expected
    assert status == ran.returncode, ran.stdout + ran.stderr
    assert ("==>" in ran.stdout) == (said is not None)
    assert said is None or ran.stdout.rstrip().endswith(f"==> {said}")
