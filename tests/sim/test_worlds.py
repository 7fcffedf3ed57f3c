"""A few random worlds on every run; the same inputs give the same decisions whatever Python's hashes are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.worlds import attempt

QUICK_WORLDS = 8


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(QUICK_WORLDS))
def test_the_properties_hold_in_a_random_world(number):
    """What they are is said where they are checked; `python -m tests.sim.worlds` runs as many as one likes."""
    _, digest, problem = attempt(number)
    assert "" == problem
    assert digest


@pytest.mark.timeout(300)
def test_the_same_inputs_give_the_same_decisions_under_any_hash_seed():
    """Two worlds, three interpreters: nothing depends on the order of a set or a dictionary of strings."""
    digests = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim.worlds", "--first", "3", "--count", "2", "--jobs", "1", "--digest"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout.splitlines()[-1])
    assert 1 == len(digests)
    assert digests.pop().startswith("digest ")
