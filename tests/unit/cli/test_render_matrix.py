"""The grid, and what is told where there is no room for one."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.cli.render_matrix import render_matrix
from meshwatchd.cli.text import paint_nothing
from tests.support.example_reports import healthy, many, reporting


def _page(nodes, width=100):
    return render_matrix(NodesReply(node="b3", nodes=nodes), paint=paint_nothing, width=width)


def _cells(page, name):
    (line,) = (line for line in page.splitlines() if f"  {name}  " in line)
    return line.split()[-6:]


def test_each_row_is_what_one_node_sees():
    """Itself, who answers, and the lowest layer on which somebody does not."""
    page = _page(reporting())
    assert [".", "ok", "ok", "ok", "ok", "ok"] == _cells(page, "b1")
    assert ["ov", ".", "ok", "ok", "ok", "ok"] == _cells(page, "b2")
    assert "ov overlay does not answer" in page


def test_a_node_that_has_not_reported_lately_is_not_known():
    """What it said a quarter of an hour ago is not shown as true."""
    page = _page(reporting())
    assert ["?", "?", "?", "?", ".", "?"] == _cells(page, "a2")
    assert page.startswith("CRITICAL  6 nodes in 2 locations: 5 report, 3 of them not ok\n")


def test_who_reports_what_stands_below():
    """And who misses whom."""
    page = _page(reporting())
    assert "b1 does not answer b2, b3 (overlay)\n" in page
    assert "CRITICAL  b1 reports: the node does not forward packets [at b1, relay], 2.0 s ago\n" in page
    assert "WARNING  b2, b3 report: to onprem: new overlay flows die" in page


def test_a_healthy_mesh_is_ok():
    """With nothing below the grid but its legend."""
    assert _page(healthy()).startswith("OK  6 nodes in 2 locations: 6 report, 0 of them not ok\n")
    assert "reports" not in _page(healthy())


@pytest.mark.parametrize(("nodes", "width"), [(many(1000), 100), (reporting(), 40)])
def test_where_a_grid_has_no_room_those_that_are_not_ok_are_listed(nodes, width):
    """A thousand nodes make a page of a few lines."""
    page = _page(nodes, width)
    assert 20 > len(page.splitlines())
    assert "NODE  LOCATION  STATE" in page
    assert "row asks column" not in page
