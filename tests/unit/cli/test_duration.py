"""Durations on the command line."""

from __future__ import annotations

import click
import pytest

from meshwatchd.cli.duration import Duration


def test_a_duration_has_a_unit():
    """Nanoseconds come out, and pass as they are."""
    assert 30_000_000_000 == Duration().convert("30s", None, None)
    assert 5 == Duration().convert(5, None, None)


@pytest.mark.parametrize("text", ["3", "", "soon", "-1s", "1e400s", "9" * 5000 + "s"])
def test_anything_else_is_wrong_usage(text):
    """With the parameter's name, which click adds."""
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)
