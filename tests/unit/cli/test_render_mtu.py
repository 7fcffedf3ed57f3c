"""The table of sizes: what is wrong first."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.interface import MtuReply
from meshwatchd.cli.render_mtu import render_sizes, worst_state
from meshwatchd.cli.text import paint_nothing
from tests.support.example_sizes import ADVICE, BLACK_HOLE_SIZES, HEALTHY_SIZES


def _page(sizes):
    reply = MtuReply(node="b3", at_ns=0, paths={"0": "b1-a1", "1": "b2-a1"}, sizes=sizes)
    return render_sizes(reply, paint=paint_nothing)


def test_all_is_well_in_one_line():
    """And the table below."""
    assert "OK  every path of b3 carries what its devices promise" == _page(HEALTHY_SIZES).splitlines()[0]


def test_each_advice_is_given_once():
    """With the nodes it is about, the black hole before the warning."""
    lines = _page(BLACK_HOLE_SIZES).splitlines()

    assert f"CRITICAL  {ADVICE} (towards b1)" == lines[0]
    assert lines[1].startswith("WARNING  the kernel believes 1000")


def test_nothing_measured_says_why():
    """Switched off, or too early."""
    assert "b3 measures no sizes (mtu.enabled, or no mesh yet)\n" == _page(())


@pytest.mark.parametrize(
    ("states", "word", "state"),
    [
        (("ok", "ok"), "OK  every path of b3 carries what its devices promise", "ok"),
        (("ok", "searching"), "OK  every path of b3 carries what its devices promise; 1 of 2 are not measured", "ok"),
        (("searching", "unknown"), "UNKNOWN  no size is measured yet", "unknown"),
        (("ok", "unreachable"), "WARNING  the underlay layer is unreachable (towards b1)", "warning"),
    ],
)
def test_the_headline_agrees_with_its_rows(states, word, state):
    """What is not measured is not praised, and what has no advice is not passed over."""
    template = HEALTHY_SIZES[0]
    sizes = tuple(msgspec.structs.replace(template, state=each, advice="") for each in states)
    reply = MtuReply(node="b3", at_ns=0, paths={}, sizes=sizes)
    assert render_sizes(reply, paint=paint_nothing).startswith(word)
    assert state == worst_state(reply)
