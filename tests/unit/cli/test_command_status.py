"""`meshwatchctl status`: the state is the exit status."""

from __future__ import annotations

import time

import msgspec
import pytest

from meshwatchd.model.faults import Severity
from meshwatchd.model.status import Knowledge, Status
from tests.support.example_status import HEALTHY, MOVED, STUCK


def _fresh(status: Status) -> Status:
    return msgspec.structs.replace(status, at_ns=time.monotonic_ns())


@pytest.mark.parametrize(("status", "code"), [(HEALTHY, 0), (MOVED, 1), (STUCK, 2)])
def test_the_exit_status_is_the_severity(room, run, status, code):
    """For people and for programs alike."""
    room.backend.current = _fresh(status)
    assert [code, code] == [run("status")[0], run("--json", "status")[0]]


@pytest.mark.parametrize("severity", list(Severity))
def test_a_node_that_watches_nothing_is_never_ok(room, run, severity):
    """Whatever was found on it: its exit status is its own, and the first line says why and what to do."""
    knowledge = Knowledge(origin="nothing", nodes=1, problems=("there is no mesh key; copy it", "and more"))
    idle = msgspec.structs.replace(HEALTHY, pairs=(), sessions=(), severity=severity, knowledge=knowledge)
    room.backend.current = _fresh(idle)
    code, out, _ = run("status")

    assert [4, 4, 4] == [code, run("--json", "status")[0], run("explain")[0]]
    assert "NOT WATCHING  b3 watches nothing: there is no mesh key; copy it" == out.splitlines()[0]
    assert (1, 1) == (out.count("copy it"), out.count("and more"))


def test_a_stale_report_is_unknown(room, run):
    """Its severity was true once."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns() - 60_000_000_000)
    code, out, _ = run("status")
    assert (3, True) == (code, out.startswith("UNKNOWN"))


def test_the_first_line_says_what_is_broken_where_and_what_was_done(room, run):
    """Without colours, as nobody is at a terminal."""
    room.backend.current = _fresh(MOVED)
    first = run("status")[1].splitlines()[0]
    assert (
        "WARNING  to onprem: new overlay flows die while established flows pass [at b1, overlay]; "
        "traffic moved to standby b2-a1 (rank 1)"
    ) == first


def test_verbose_adds_sessions_and_counters(room, run):
    """Loss and round trip of each."""
    room.backend.current = _fresh(MOVED)
    out = run("status", "-v")[1]
    assert "4.8 % of 1000" in out
    assert "rejected_replay" in out
    assert "4.8 %" not in run("status")[1]


def test_json_is_the_status_itself(room, run):
    """It decodes to what the engine has said."""
    room.backend.current = _fresh(MOVED)
    assert room.backend.current == msgspec.json.decode(run("--json", "status")[1], type=Status)


def test_watching_without_a_terminal_shows_it_once(room, run):
    """A pipe cannot be redrawn."""
    room.backend.current = _fresh(HEALTHY)
    assert 0 == run("status", "--watch")[0]
