"""Ages, round trips and columns."""

from __future__ import annotations

import pytest

from meshwatchd.cli.text import (
    columns,
    is_stale,
    middle,
    paint_ansi,
    paint_nothing,
    render_age,
    render_flow,
    render_rtt,
)
from meshwatchd.model.ids import FlowClass


@pytest.mark.parametrize(
    ("age_ns", "text"),
    [
        (-5, "just now"),
        (40_000_000, "just now"),
        (2_340_000_000, "2.3 s ago"),
        (119_900_000_000, "119.9 s ago"),
        (120_000_000_000, "2 min ago"),
        (7_199_000_000_000, "119 min ago"),
        (7_200_000_000_000, "2 h ago"),
        (3 * 86_400_000_000_000, "3 days ago"),
    ],
)
def test_an_age_is_told_in_the_unit_that_matters(age_ns, text):
    """Nobody converts seconds at night."""
    assert text == render_age(age_ns)


def test_flows_have_the_names_of_the_field():
    """What the wire calls pinned is an established flow to an engineer."""
    assert ["fresh", "established"] == [render_flow(flow) for flow in FlowClass]


@pytest.mark.parametrize(("rtt_ns", "text"), [(0, "-"), (1_840_000, "1.84 ms"), (120_000, "0.12 ms")])
def test_a_round_trip_is_told_in_milliseconds(rtt_ns, text):
    """Zero means that none was measured."""
    assert text == render_rtt(rtt_ns)


def test_columns_are_as_wide_as_their_widest_cell():
    """And lines have no trailing blanks."""
    rows = [[("a", ""), ("", "")], [("long", ""), ("y", "")]]
    assert ["X     Y", "a", "long  y"] == columns(("X", "Y"), rows, paint_nothing)


def test_colour_does_not_change_the_width():
    """Cells are aligned before they are painted."""
    (header, first, second) = columns(("X", "Y"), [[("a", "down"), ("1", "")], [("bb", ""), ("2", "")]], paint_ansi)
    assert "\x1b[31ma \x1b[0m  1" == first
    assert "bb  2" == second
    assert "\x1b[2m" in header


def test_an_unknown_role_has_no_colour():
    """A new state of the engine is shown plainly."""
    assert "text" == paint_ansi("text", "unwatched")


def test_staleness_begins_after_five_reports_were_missed():
    """One a second is promised."""
    assert not is_stale(7, 7 + 5_000_000_000)
    assert is_stale(7, 7 + 5_000_000_001)


@pytest.mark.parametrize(("values", "expected"), [([5], 5), ([9, 1], 5), ([3, 1, 2], 2), ([1, 2, 4, 100], 3)])
def test_the_middle_is_the_median(values, expected):
    """Of an even number the mean of the two."""
    assert expected == middle(values)
