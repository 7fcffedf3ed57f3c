"""`meshwatchctl events`: what happened, and what happens."""

from __future__ import annotations

import subprocess
import sys
import time

import msgspec

from meshwatchd.adapters.storage.event_store import EventStore
from tests.support.example_status import INCIDENT


def test_events_are_told_oldest_first(room, run):
    """One line each."""
    for line in INCIDENT:
        room.backend.store.append(line)
    code, out, _ = run("events")
    assert 0 == code
    assert [line["event"] for line in INCIDENT] == [line.split()[2] for line in out.splitlines()]


def test_json_is_one_object_a_line(room, run):
    """With every field."""
    for line in INCIDENT:
        room.backend.store.append(line)
    lines = [msgspec.json.decode(raw) for raw in run("--json", "events")[1].splitlines()]
    assert [line["at_ns"] for line in INCIDENT] == [line["at_ns"] for line in lines]
    assert INCIDENT[-1].items() <= {**lines[-1], "seq": 1}.items()


def test_since_leaves_out_what_is_older(room, run):
    """Reckoned back from the present."""
    now = time.monotonic_ns()
    for age_s in (3600, 5):
        room.backend.store.append({"at_ns": now - age_s * 1_000_000_000, "event": "test.happened", "age": age_s})
    out = run("events", "--since", "1min")[1]
    assert "age=5" in out
    assert "age=3600" not in out


def test_following_tells_what_happens(room):
    """Line by line, not when a buffer is full."""
    command = [sys.executable, "-m", "meshwatchd.cli.main", "--socket", str(room.path), "events", "--follow"]
    room.append({"at_ns": 1, "event": "daemon.started"})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "daemon.started" in process.stdout.readline()
        room.append({"at_ns": 2, "event": "daemon.ready"})
        assert "daemon.ready" in process.stdout.readline()
        process.terminate()


def test_a_reader_that_was_too_slow_is_told(room, run):
    """On standard error, with an exit status: the output has a gap at its end."""
    room.backend.store = EventStore(capacity=1)
    room.backend.store.append({"at_ns": 1, "event": "events.lost", "lost": 7})
    code, _, err = run("events")
    assert (1, "meshwatchctl: too slow, 7 events were lost; start again\n") == (code, err)


def test_only_what_is_wanted_is_told(room, run):
    """All filters hold together."""
    for event in INCIDENT:
        room.append(event)
    assert 2 == len(run("events", "--severity", "critical", "--location", "onprem")[1].splitlines())
    assert 1 == len(run("events", "--fault", "overlay-new-flows", "--node", "b1")[1].splitlines())
    assert (64, "") == run("events", "--fault", "nonsense")[:2]
