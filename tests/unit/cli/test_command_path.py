"""`meshwatchctl path`, with a daemon and without."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.netlink.way import Way
from meshwatchd.cli.command_path import describe
from meshwatchd.cli.main import main
from tests.support.example_nodes import NODES
from tests.support.example_status import HEALTHY, MOVED

WAY = Way(address="10.244.3.7", rule="5460: from all lookup 7701", rule_protocol=117, table=7701, via="10.244.5.0")


@pytest.fixture
def known(room):
    """A daemon that knows the nodes."""
    room.backend.known = NODES
    return room


def test_a_pod_of_another_location_is_reached_over_the_relays():
    """From here to the relay of the path in use, through the tunnel, to its node."""
    view = describe("10.244.3.7", WAY, MOVED, NODES)
    assert (("b3", "b2", "a1", "a3"), "b2-a1", 1, "good") == (view.hops, view.path, view.rank, view.state)
    assert ("b2", True) == (view.gateway_node, view.is_ours)
    assert [("a3", "b2-a1")] == [(leg.peer, leg.over) for leg in view.legs]
    assert any("failover onprem --rank 3 --dry-run" in sentence for sentence in view.next)
    assert ("b3", "b1", "a1") == describe("a1", WAY, HEALTHY, NODES).hops


def test_a_node_of_the_own_location_is_reached_straight():
    """Its layers alone say how it is."""
    view = describe("b1", WAY, MOVED, NODES)
    assert (("b3", "b1"), "", "down") == (view.hops, view.path, view.state)
    assert {"underlay", "overlay"} == {leg.layer for leg in view.legs}


def test_a_strangers_address_has_the_kernels_way_only():
    """And so has this node's own."""
    assert () == describe("8.8.8.8", WAY, MOVED, NODES).legs
    assert () == describe("b3", WAY, MOVED, NODES).hops


def test_the_command_asks_kernel_and_daemon(known, run):
    """A path leads to another location: what a failover would do comes from the daemon, as a rehearsal."""
    status, out, _ = run("path", "10.244.3.7", "--json")
    view = msgspec.json.decode(out)
    assert ["b3", "b2", "a1", "a3"] == view["hops"]
    assert ["ip rule add pref 5460"] == view["operations"]
    assert known.backend.requests[0].is_dry_run
    assert status == (2 if view["way"]["problem"] else 0)
    assert "10.244.3.7 is a pod of a3 in onprem\n" in run("path", "10.244.3.7")[1]


def test_without_a_daemon_the_kernel_is_asked_alone(tmp_path, capsys):
    """Its exit status says that the rest is missing."""
    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "path", "127.0.0.1"])
    captured = capsys.readouterr()
    assert " dev lo src 127.0.0.1\n" in captured.out
    assert "rule  " in captured.out
    assert "there is no socket" in captured.err
    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "path", "b1"])


def test_a_name_that_nobody_has_is_wrong_usage(known, run):
    """The names that there are stand in the message."""
    status, _, complaint = run("path", "nobody")
    assert 64 == status
    assert "nodes are: b1, b2, b3, a1, a2, a3" in complaint
