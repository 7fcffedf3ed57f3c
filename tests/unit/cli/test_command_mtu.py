"""`meshwatchctl mtu`: the table, one node's lines, and the exit status."""

from __future__ import annotations

import time

import msgspec
import pytest

from meshwatchd.adapters.control.interface import MtuReply
from tests.support.example_sizes import BLACK_HOLE_SIZES, HEALTHY_SIZES
from tests.support.example_status import HEALTHY


def _shown(sizes):
    return msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns(), sizes=sizes)


@pytest.mark.parametrize(
    ("sizes", "code"),
    [(HEALTHY_SIZES, 0), (BLACK_HOLE_SIZES, 2), (BLACK_HOLE_SIZES[-1:], 1), (BLACK_HOLE_SIZES[-2:-1], 3), ((), 0)],
)
def test_the_exit_status_is_the_worst_state(room, run, sizes, code):
    """0 all that is measured is carried, 1 something is to be done, 2 large packets are lost, 3 nothing is measured."""
    room.backend.current = _shown(sizes)

    assert code == run("mtu")[0]


def test_a_stale_report_is_no_measurement(room, run):
    """What was carried a minute ago may be lost at present."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=1, sizes=HEALTHY_SIZES)
    code, out, _ = run("mtu")
    assert (3, True) == (code, out.startswith("UNKNOWN  the engine last reported "))


def test_one_node_can_be_asked_about(room, run):
    """Only the lines towards it."""
    room.backend.current = _shown(BLACK_HOLE_SIZES)
    _code, out, _ = run("mtu", "b1", "--json")

    reply = msgspec.json.decode(out, type=MtuReply)
    assert {"b1"} == {line.peer for line in reply.sizes}
    assert "b1-a1" == reply.paths["0"]


def test_a_node_that_is_not_measured_is_a_usage_error(room, run):
    """With the command that shows those that are."""
    room.backend.current = _shown(HEALTHY_SIZES)
    code, _out, err = run("mtu", "nobody")

    assert 64 == code
    assert "no size is measured towards nobody" in err


def test_both_places_of_the_switch_answer_in_json(room, run):
    """Before the command like everywhere, and behind it."""
    room.backend.current = _shown(HEALTHY_SIZES)

    assert run("--json", "mtu")[1] == run("mtu", "--json")[1]
