"""`meshwatchctl incidents` and `explain --incident`, of a daemon and of a folder."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.storage.event_store import EventStore
from meshwatchd.cli.main import main
from tests.support.example_incidents import HEALED, NIGHT, numbered


@pytest.fixture
def folder(tmp_path):
    """A state directory that holds one night, and half a line."""
    store = EventStore(tmp_path / "events.jsonl")
    for line in numbered(*NIGHT, *HEALED):
        store.append(line)
    store.close()
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"incident": 1, "event": \xff\n[]\n{"incident":2')
    return tmp_path


def test_the_daemon_lists_its_incidents(room, run):
    """With fault, node, layer and the outage on one line."""
    assert (0, "no incident is on record here\n") == run("incidents")[:2]
    for line in numbered(*NIGHT, *HEALED):
        room.backend.store.append(line)

    code, out, _ = run("incidents")
    assert 0 == code
    assert "1    03-01 03:12:07  1.44 s  overlay-new-flows  b1    overlay  onprem  0.19 s  moved" in out
    assert 1 == msgspec.json.decode(run("--json", "incidents")[1])["incidents"][0]["number"]


@pytest.mark.parametrize("number", ["1", "last"])
def test_an_incident_is_explained(room, run, number):
    """Evidence, deeds, outage and remedy; with --json also its events."""
    for line in numbered(*NIGHT):
        room.backend.store.append(line)
    code, out, _ = run("explain", "--incident", number)
    assert 0 == code
    assert all(
        word in out for word in ("0.19 s so far", "14 of the last 14", "moved traffic to path b2-a1", "drain the")
    )
    assert 6 == len(msgspec.json.decode(run("--json", "explain", "--incident", number)[1])["events"])


def test_an_incident_that_is_not_there_is_wrong_usage(run):
    """And so is what is no number; both say what would be right."""
    for arguments in (["--incident", "9"], ["--incident", "x"], ["--incident", "last"], ["--from", "/"]):
        code, _, err = run("explain", *arguments)
        assert 64 == code
        assert "incident" in err


def test_a_folder_is_read_without_a_daemon(folder, capsys):
    """As of a node that is stopped, or of a bundle; a line that is torn costs that line."""
    assert 0 == main(["--socket", "/nonexistent", "incidents", "--from", str(folder)])
    assert "overlay-new-flows" in capsys.readouterr().out
    assert 0 == main(["explain", "--incident", "last", "--from", str(folder)])
    assert "0.19 s, from" in capsys.readouterr().out


def test_a_folder_without_events_has_no_incidents(tmp_path, capsys):
    """A directory where the file should be is none either."""
    (tmp_path / "events.jsonl").mkdir()
    assert 0 == main(["incidents", "--from", str(tmp_path)])
    assert "no incident is on record here\n" == capsys.readouterr().out
