"""Log lines as machines and people read them."""

from __future__ import annotations

import io
import os

import msgspec

from meshwatchd.runtime.logging import make_log


def test_a_json_line_begins_with_time_level_and_event():
    """The eye and the grep find the same things first."""
    stream = io.StringIO()
    make_log("json", stream=stream).warning("failover.applied", node="b3", time="2026-03-01T03:12:07.123Z", to_rank=1)
    assert (
        '{"time":"2026-03-01T03:12:07.123Z","level":"warning","event":"failover.applied","node":"b3","to_rank":1}\n'
    ) == stream.getvalue()


def test_a_line_without_time_gets_the_present_one():
    """Not every line tells a fact of the engine."""
    stream = io.StringIO()
    make_log("json", stream=stream).info("agent.started")
    line = msgspec.json.decode(stream.getvalue())
    assert {"time", "level", "event"} == set(line)
    assert line["time"].endswith("Z")


def test_a_console_line_is_for_people():
    """No braces; no colours where nobody would see them."""
    stream = io.StringIO()
    make_log("console", stream=stream).error("plan.refused", reason="exists")
    assert "plan.refused" in stream.getvalue()
    assert "reason=exists" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_debug_is_silent_unless_asked_for():
    """Single probes would drown everything else."""
    stream = io.StringIO()
    make_log("json", stream=stream).debug("session.suspected")
    assert "" == stream.getvalue()
    make_log("json", stream=stream, level="debug").debug("session.suspected")
    assert '"session.suspected"' in stream.getvalue()


def test_the_journal_is_told_the_priority(tmp_path, monkeypatch):
    """`journalctl -p warning` shows warnings only when each line says what it is."""
    file = tmp_path / "journal"
    with file.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        log = make_log("json", stream=stream)
        log.warning("failover.applied")
        log.error("plan.refused")
    assert ["<4>{", "<3>{"] == [line[:4] for line in file.read_text().splitlines()]


def test_the_journal_gets_lines_for_people_unless_json_is_asked_for(tmp_path, monkeypatch):
    """It has time and level of its own."""
    file = tmp_path / "journal"
    with file.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        make_log("auto", stream=stream).warning("failover.applied", node="b3", reason="leader is dead")
    outside = io.StringIO()
    make_log("auto", stream=outside).warning("failover.applied")

    assert '<4>failover.applied node=b3 reason="leader is dead"\n' == file.read_text()
    assert outside.getvalue().startswith("{")
