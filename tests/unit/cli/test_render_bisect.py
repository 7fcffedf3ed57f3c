"""What the golden pages cannot show: that no place is without words."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.render_bisect import PLACES, find_known, render_bisection
from meshwatchd.cli.text import paint_ansi, paint_nothing
from meshwatchd.core.membership.node_list import collect_faults
from meshwatchd.model.bisection import Place
from tests.support.example_bisection import RESULT
from tests.support.example_reports import reporting
from tests.support.example_status import MOVED


def test_every_place_has_words():
    """A new one needs some."""
    assert set(Place) == set(PLACES)


def test_colours_change_no_word():
    """The same text for terminals and pipes."""
    plain, coloured = render_bisection(RESULT, paint_nothing), render_bisection(RESULT, paint_ansi)

    assert "\x1b" in coloured
    assert "\x1b" not in plain
    assert "FDB" in plain


def test_what_looks_at_kernels_have_found_comes_first():
    """`the peer, behind its overlay device` is no news where that node reports that it does not forward."""
    known = find_known(msgspec.structs.replace(MOVED, reported=collect_faults(reporting(), MOVED)), "b1")
    lines = render_bisection(RESULT, paint_nothing, known).splitlines()

    assert "known   CRITICAL  b1 reports: the node does not forward packets" in lines[1]
    assert [] == find_known(MOVED, "b1")
