"""The page is text of other people's making, and stays a page."""

from __future__ import annotations

import msgspec

from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.cli.report_page import render_page
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_status import HEALTHY, NOW_NS

(NIGHT,) = read_incidents(HISTORY_LINES, 1)


def test_nothing_that_a_node_says_becomes_markup():
    """Faults, nodes, evidence and steps are escaped."""
    evil = msgspec.structs.replace(
        NIGHT, fault="<script>", culprit="<script>", because=("<script>",), location="<script>", observer="<script>"
    )
    assert "<script>" not in render_page(HEALTHY, evil, now_ns=NOW_NS)


def test_a_page_without_a_daemon_says_so():
    """It is still a page."""
    assert "no daemon could be asked" in render_page(None, None, now_ns=NOW_NS)
