"""Rules of ours in a window wide or narrow keep their order, and know their own."""

import pytest

from meshwatchd.model.rule_window import Prefix, RuleWindow


@pytest.mark.parametrize("window", [RuleWindow(first=5400), RuleWindow(first=96, is_narrow=True)])
def test_the_order_is_delivery_selectors_overrides_landing(window):
    """A probe that jumps must not meet an override, and goes forwards only."""
    places = [window.delivery, window.selector(0), window.selector(39), window.override(0), window.override(19)]

    assert sorted(places) == places
    assert window.selector(39) < window.override(0)
    assert max(places) < window.landing
    assert all(window.holds(each) for each in (*places, window.landing))
    assert {*places, window.landing} <= window.used
    assert all(window.holds(each) for each in window.used)
    assert not window.holds(window.first - 1)
    assert not window.holds(window.first + window.size)
    assert [False, False, True, False] == [
        window.is_override(each) for each in (window.delivery, window.selector(39), window.override(19), window.landing)
    ]


def test_the_wide_one_is_what_stands_in_kernels_already():
    """An update moves no rule."""
    window = RuleWindow(first=5400)

    assert (5400, 5449, 5461, 5480) == (window.delivery, window.selector(39), window.override(1), window.landing)


def test_a_prefix_is_in_one_of_each_shorter_length():
    """Down to all addresses."""
    assert Prefix(0x0AF40000, 16) == Prefix(0x0AF40580, 25).within(16)
    assert Prefix(0, 0) == Prefix(0x0AF40580, 25).within(0)
