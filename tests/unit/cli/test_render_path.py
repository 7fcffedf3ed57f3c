"""The page of a way; what it looks like in full is in tests/golden/cli."""

from __future__ import annotations

from meshwatchd.adapters.netlink.way import Way
from meshwatchd.cli.render_path import PathView, render_path
from meshwatchd.cli.text import paint_nothing


def test_without_a_daemon_there_is_the_kernels_part():
    """A device on the link has no gateway."""
    way = Way(address="10.2.0.11", rule="32766: from all lookup main", table=254, device="eth0", source="10.2.0.13")
    assert (
        "10.2.0.11 belongs to no node of the mesh that is known here\n\n"
        "rule   32766: from all lookup main\nroute  table main dev eth0 src 10.2.0.13\n"
    ) == render_path(PathView(target="10.2.0.11", way=way), at_ns=0, paint=paint_nothing)


def test_a_way_that_does_not_exist_says_what_the_kernel_says():
    """In its words."""
    way = Way(address="10.9.9.9", problem="Network is unreachable")
    page = render_path(PathView(target="10.9.9.9", way=way), at_ns=0, paint=paint_nothing)
    assert page.endswith("route  none: the kernel answers: Network is unreachable\n")
