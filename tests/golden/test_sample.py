"""The installed configuration is the one the program would write: a default changed in the code changes the sample."""

from __future__ import annotations

import os

from meshwatchd.config.dump import sample


def test_the_installed_sample_is_the_generated_one(root):
    """`make golden` writes it; the difference is then read like code."""
    installed = root / "etc/meshwatchd/meshwatchd.toml"
    if os.environ.get("MESHWATCH_UPDATE_GOLDEN"):
        installed.write_text(sample(), encoding="utf-8")
    assert sample() == installed.read_text(encoding="utf-8")
