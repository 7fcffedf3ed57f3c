"""`meshwatchctl matrix`: the whole mesh from any node."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.nodes import NodesReply
from tests.support.example_nodes import NODES
from tests.support.example_reports import healthy, reporting


@pytest.mark.parametrize(
    ("nodes", "expected"), [(healthy(), 0), (NODES, 1), (healthy()[1:], 0), (reporting()[1:], 1), (reporting(), 2)]
)
def test_the_exit_status_is_that_of_the_worst_node(room, run, nodes, expected):
    """A node that has not reported is not ok."""
    room.backend.known = nodes
    assert [expected, expected] == [run("matrix")[0], run("matrix", "--json")[0]]


def test_json_is_the_reply_itself(room, run):
    """Ages in nanoseconds, layers by name."""
    room.backend.known = reporting()
    assert reporting() == msgspec.json.decode(run("matrix", "--json")[1], type=NodesReply).nodes
