"""Times and durations as an operator reads them."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.adapters.control.incidents import Step
from meshwatchd.cli.render_incidents import MAX_STEPS, explain_incident, render_seconds, render_time
from meshwatchd.cli.text import paint_nothing
from tests.support.example_incidents import HISTORY_LINES


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1904, "0.19 s"), (59.6, "60 s"), (119, "119 s"), (1300, "21 min"), (7321, "2 h 2 min")]
)
def test_durations_have_the_digits_that_matter(seconds, text):
    """Hundredths of what a failover takes, minutes of what nobody has mended."""
    assert text == render_seconds(round(seconds * 1e9))


def test_times_leave_out_the_year():
    """The list is of the last weeks."""
    assert "03-01 03:12:07.123" == render_time("2026-03-01T03:12:07.123Z")
    assert "-" == render_time("")


def test_a_long_night_leaves_out_its_middle():
    """The beginning and the end fit on a screen."""
    one = msgspec.structs.replace(
        read_incidents(HISTORY_LINES)[0], steps=tuple(Step(time="", text=f"step{number}.") for number in range(100))
    )
    told = explain_incident(one, paint_nothing)
    assert all(word in told for word in ("step0.", "step99.", f"... {100 - MAX_STEPS} more"))
    assert "step50." not in told
