"""Durations and port ranges as people write them."""

from __future__ import annotations

import pytest

from meshwatchd.model.units import HOUR, format_duration, parse_duration, parse_port_range, render_duration


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("7us", 7_000),
        ("50ms", 50_000_000),
        ("1.5s", 1_500_000_000),
        (" 5 min ", 300_000_000_000),
        ("2h", 7_200_000_000_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, duration_ns):
    """Fractions and spaces are fine."""
    assert duration_ns == parse_duration(text)


@pytest.mark.parametrize("text", ["50", "ms", "5 m", "-1s", "1s 2ms", "1e3s", "\N{ARABIC-INDIC DIGIT THREE}s", ""])
def test_anything_else_is_no_duration(text):
    """A number without a unit is the most expensive mistake of all; the message shows how to write one."""
    with pytest.raises(ValueError, match="write a number and a unit"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["900000h", "9" * 400 + "s"])
def test_a_duration_of_centuries_is_refused(text):
    """It would not fit where instants are kept, or in a floating point number."""
    with pytest.raises(ValueError, match="longer than a hundred years; write"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (1_500_000_000, "1.5 s"),
        (43_000, "43 us"),
        (50_000_000, "50 ms"),
        (90_000_000_000, "1.5 min"),
        (7_200_000_000_000, "2 h"),
    ],
)
def test_a_duration_is_shown_in_the_largest_unit_that_fits(duration_ns, text):
    """Three digits tell enough."""
    assert text == render_duration(duration_ns)


def test_a_port_range_is_two_ports_in_order():
    """Both ends belong to it; one port alone is a range too."""
    assert (10000, 29999) == parse_port_range("10000-29999")
    assert (7, 7) == parse_port_range("7 - 7")


@pytest.mark.parametrize(
    "text", ["10000", "2-1", "0-5", "1-65536", "a-b", "\N{SUPERSCRIPT TWO}-3", "1-" + "9" * 5000, ""]
)
def test_anything_else_is_no_port_range(text):
    """Port 0 asks the kernel to choose, which is what a fresh flow must not do."""
    with pytest.raises(ValueError, match="write first-last"):
        parse_port_range(text)


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [("0s", 0), ("7us", 7_000), ("0.5us", 500), ("1500ms", 1_500_000_000), ("90s", 90_000_000_000), ("72h", 72 * HOUR)],
)
def test_a_written_duration_is_read_as_the_same(text, duration_ns):
    """In the largest unit that needs no fraction."""
    assert text == format_duration(duration_ns)
    assert duration_ns == parse_duration(text)
