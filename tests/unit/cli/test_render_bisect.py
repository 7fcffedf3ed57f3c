"""What the golden pages cannot show: that no place is without words."""

from __future__ import annotations

from meshwatchd.cli.render_bisect import PLACES, render_bisection
from meshwatchd.cli.text import paint_ansi, paint_nothing
from meshwatchd.model.bisection import Place
from tests.support.example_bisection import RESULT


def test_every_place_has_words():
    """A new one needs some."""
    assert set(Place) == set(PLACES)


def test_colours_change_no_word():
    """The same text for terminals and pipes."""
    plain, coloured = render_bisection(RESULT, paint_nothing), render_bisection(RESULT, paint_ansi)

    assert "\x1b" in coloured
    assert "\x1b" not in plain
    assert "FDB" in plain
