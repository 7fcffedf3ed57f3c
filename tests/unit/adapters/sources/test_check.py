"""Values that are what they are called, or a complaint that quotes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources import check
from meshwatchd.model.errors import DecodeError

SOURCE, PLACE = "kilo graph", "node 'b1'"


def test_good_values_come_back_in_one_form():
    """So that equal things compare equal."""
    assert "10.42.0.0/24" == check.ipv4_prefix("10.42.0.1/24", SOURCE, PLACE)
    assert "10.2.0.13" == check.ipv4("10.2.0.13", SOURCE, PLACE)
    assert "gw.example.net:51820" == check.endpoint("gw.example.net:51820", SOURCE, PLACE)
    assert "[fd00::1]:51820" == check.endpoint("[fd00::1]:51820", SOURCE, PLACE)
    assert 1450 == check.number("1450", SOURCE, PLACE, most=65535)
    assert "fd00::1/64" == str(check.interface("fd00::1/64", SOURCE, PLACE))
    assert "default/b1" == check.name("default/b1", SOURCE, PLACE)


@pytest.mark.parametrize(
    ("checked", "value"),
    [
        (check.ipv4, "10.2.0.256"),
        (check.ipv4, "fd00::1"),
        (check.ipv4_prefix, "10.2.0.0/33"),
        (check.interface, "eth0"),
        (check.endpoint, "10.2.0.1"),
        (check.endpoint, "10.2.0.1:0"),
        (check.endpoint, "10.2.0.1:65536"),
        (check.endpoint, "a b:51820"),
        (check.name, ""),
        (check.name, "b1\n"),
        (check.name, "-b1"),
        (check.name, "b" * 300),
    ],
)
def test_others_are_refused_with_the_place(checked, value):
    """The complaint names the source, the place in it and what is there."""
    with pytest.raises(DecodeError, match="node 'b1': ") as refused:
        checked(value, SOURCE, PLACE)

    assert SOURCE == refused.value.source


@pytest.mark.parametrize("value", ["-1", "1.5", "", "65536", "1" * 5000, "\u0661"])
def test_numbers_have_digits_and_a_limit(value):
    """Also where Python's int() would take more, or take its time."""
    with pytest.raises(DecodeError):
        check.number(value, SOURCE, PLACE, most=65535)


@given(st.text(min_size=41))
def test_long_values_are_quoted_in_part(value):
    """A complaint goes to the log."""
    assert len(check.shown(value)) <= len(repr(value[: check.MAX_SHOWN])) + 5


def test_bytes_that_are_no_text_are_refused():
    """With the place of the first."""
    assert "a\u00e9" == check.text_of("a\u00e9".encode(), SOURCE)
    with pytest.raises(DecodeError, match="can't decode byte 0xff in position 1"):
        check.text_of(b"a\xff", SOURCE)
