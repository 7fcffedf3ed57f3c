"""The table fits into 80 columns."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.legs import legs_to
from meshwatchd.cli.render_ping import render_ping
from meshwatchd.cli.text import paint_nothing
from tests.support.example_status import MOVED


def test_the_first_line_says_whether_anything_was_lost():
    """A leg that is down counts, though nothing is sent on it."""
    quiet = tuple(msgspec.structs.replace(leg, sent=0, lost=0) for leg in legs_to(MOVED, "b1"))
    page = render_ping("b1", quiet, seconds=5, paint=paint_nothing)
    assert page.startswith("LOSS  b1: 2 of 3 legs without loss in 5 s\n")
    well = tuple(msgspec.structs.replace(leg, state="up") for leg in quiet)
    assert render_ping("b1", well, seconds=5, paint=paint_nothing).startswith("OK  b1: 3 of 3 legs")


def test_it_fits_into_80_columns():
    """With an address of IPv6, a long layer and all numbers at their longest."""
    leg = msgspec.structs.replace(
        legs_to(MOVED, "b1")[0],
        layer="pod_network",
        address="2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff",
        over="b1-a1",
        sent=999_999,
        lost=999_999,
        rtt_ns=999_990_000,
        state="suspect",
    )
    assert 80 >= max(len(line) for line in render_ping("b1", [leg], seconds=5, paint=paint_nothing).splitlines())


def test_no_leg_at_all_is_not_ok():
    """A layer that this target does not have."""
    assert "UNKNOWN  b3: nobody asks for it over what was chosen\n" == render_ping(
        "b3", [], seconds=1, paint=paint_nothing
    )
