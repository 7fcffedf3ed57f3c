"""The first line is what monitoring shows."""

from __future__ import annotations

import pytest

from meshwatchd.cli.render_doctor import render_checkup, summarise
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.checkup import Check, CheckState

BAD = Check(area="key", state=CheckState.WARNING, text="a | b", remedy="head | base64")


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ([], "OK  0 checks, nothing to be done"),
        ([Check(area="clock", state=CheckState.NOTE, text="x")], "OK  1 checks, nothing to be done"),
        ([BAD], "WARNING  1 of 1 checks: a / b"),
        ([BAD, Check(area="ports", state=CheckState.ERROR, text="taken")], "CRITICAL  2 of 2 checks: taken"),
    ],
)
def test_the_summary_names_the_first_of_the_worst(checks, line):
    """A vertical bar begins figures in Nagios, so there is none."""
    assert line == summarise(checks, paint=paint_nothing)


def test_a_remedy_stays_on_one_line():
    """It is there to be copied."""
    remedy = "install " + "x" * 200
    page = render_checkup(
        [Check(area="kernel", state=CheckState.ERROR, text="y" * 10 + " z" * 80, remedy=remedy)], paint=paint_nothing
    )
    assert f"remedy: {remedy}" in page
    assert all(len(line) <= 100 for line in page.splitlines()[2:] if "remedy" not in line)
