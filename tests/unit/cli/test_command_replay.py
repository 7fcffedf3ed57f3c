"""`meshwatchctl replay`: the decisions, and whether they are the same."""

from __future__ import annotations

import os
from collections import Counter

import msgspec
import pytest

from meshwatchd.adapters.storage.journal.writer import Journal
from meshwatchd.cli.main import main as cli_main
from meshwatchd.model.events import Tick
from meshwatchd.model.failover_facts import FailoverHeld
from meshwatchd.model.settings import SECOND
from tests.support.bench import primary_is_silent, ready


@pytest.fixture
def journal(tmp_path):
    """Of a1, which loses its path; one decision in it was never made."""
    bench = ready("a1")
    journal = Journal(tmp_path, 1 << 20, Counter())
    journal.begin(bench.engine, bench.now)
    feed = bench.feed

    def noted(event):
        outputs = feed(event)
        journal.note(event, bench.now, outputs, is_asked=True)
        return outputs

    bench.feed = noted  # type: ignore[method-assign]
    bench.silent = primary_is_silent
    bench.run(SECOND)
    return bench, journal, tmp_path


def test_the_same_decisions_are_told_and_exit_0(journal, run):
    """One line each, as in the list of events."""
    _, writer, folder = journal
    writer.close()
    status, text, err = run("replay", str(folder))
    assert (0, "") == (status, err)
    assert "failover.proposed" in text
    assert "verdict.changed" in text
    assert "session.suspected" not in text
    assert text.endswith(" decisions and changes, the same\n")
    assert "session.suspected" in run("replay", "-v", str(folder))[1]


def test_another_decision_is_shown_beside_that_of_then(journal, run):
    """And the exit status says so."""
    bench, writer, folder = journal
    writer.note(Tick(), bench.now, [FailoverHeld(pair=0, reason="never said")], is_asked=True)
    writer.close()
    status, text, _ = run("replay", str(folder))
    assert 1 == status
    assert "then: " in text
    assert "never said" in text
    assert "1 of them other than then" in text


def test_json_is_one_object_a_line(journal, run):
    """For programs."""
    _, writer, folder = journal
    writer.close()
    events = [msgspec.json.decode(line) for line in run("--json", "replay", str(folder))[1].splitlines()]
    assert "failover.proposed" in {event["event"] for event in events}


def test_what_is_no_journal_is_refused(tmp_path, run):
    """With a remedy."""
    status, _, err = run("replay", str(tmp_path))
    assert 64 == status
    assert "no journal is here" in err


@pytest.mark.parametrize("spoil", [b"\x06\0\0\0\0\1\0\0\0\7", b"\x09\0\0\0\0\0\0\0\0"])
def test_a_damaged_journal_is_told_in_a_line(journal, run, spoil):
    """Whatever its records are mistaken for."""
    _, writer, folder = journal
    writer.close()
    (events,) = folder.glob("*.events")
    events.write_bytes(spoil + events.read_bytes())
    status, _, err = run("replay", str(folder))
    assert 64 == status
    assert f"{events}: it is damaged (" in err


def test_a_journal_that_may_not_be_read_is_no_wrong_usage(tmp_path, monkeypatch, capsys):
    """It is the daemon's user's: 77, where 64 said that there was none."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)

    assert 77 == cli_main(["replay", str(tmp_path)])
    assert "sudo -u meshwatch meshwatchctl replay" in capsys.readouterr().err
