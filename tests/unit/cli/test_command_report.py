"""`meshwatchctl report`: pages that stand alone, of the present and of an incident."""

from __future__ import annotations

import re

import pytest

from tests.support.example_incidents import HISTORY_LINES


@pytest.fixture
def remembering(room):
    """A daemon that has seen a night."""
    for line in HISTORY_LINES:
        room.backend.store.append(line)
    return room


def test_a_page_about_the_present(remembering, run, tmp_path):
    """The drawing, the evidence, and the status as it is printed."""
    assert 0 == run("report", "--html", str(tmp_path / "now.html"))[0]
    page = (tmp_path / "now.html").read_text()
    assert "<svg" in page
    assert "b3 in cloud" in page


def test_a_page_about_an_incident_stands_alone(remembering, run):
    """Nothing is loaded from anywhere: it can be mailed."""
    code, page, _ = run("report", "--html", "-", "--incident", "1")
    assert 0 == code
    assert all(word in page for word in ("Incident 1", "0.19 s", "14 of the last 14", "moved traffic to path b2-a1"))
    assert 2 == page.count("<svg")
    assert [] == re.findall(r"(?:src|href)=|url\(|@import|<script", page)


def test_the_drawing_alone(remembering, run, tmp_path):
    """For a chat or a ticket."""
    assert 0 == run("report", "--svg", str(tmp_path / "mesh.svg"))[0]
    assert (tmp_path / "mesh.svg").read_text().startswith("<svg xmlns")


def test_a_history_in_a_folder_needs_no_daemon(tmp_path, capsys):
    """There is no mesh to draw then, and the rest is there."""
    from meshwatchd.adapters.storage.event_store import EventStore
    from meshwatchd.cli.main import main

    store = EventStore(tmp_path / "events.jsonl")
    for line in HISTORY_LINES:
        store.append(line)
    arguments = [
        "--socket",
        str(tmp_path / "none"),
        "report",
        "--html",
        "-",
        "--incident",
        "1",
        "--from",
        str(tmp_path),
    ]
    assert 0 == main(arguments)
    assert "Incident 1" in capsys.readouterr().out


def test_wrong_usage_names_what_is_missing(run):
    """No file, no number, no such incident."""
    for arguments, word in (
        ([], "--html"),
        (["--html", "-", "--from", "/"], "--incident"),
        (["--html", "-", "--incident", "9"], "9"),
    ):
        code, out, err = run("report", *arguments)
        assert (64, "") == (code, out)
        assert word in err
