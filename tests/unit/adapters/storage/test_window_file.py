"""The record of where rules of ours stand."""

import os

import pytest

from meshwatchd.adapters.storage.window_file import MAX_WINDOWS, Loaded, WindowFile
from meshwatchd.model.rule_window import RuleWindow


def test_what_was_saved_is_read(tmp_path):
    """Bounded, the one in use first."""
    windows = tuple(RuleWindow(first=number, is_narrow=True) for number in range(1, 3 * MAX_WINDOWS))

    assert Loaded(()) == WindowFile(tmp_path).load()
    assert "" == WindowFile(tmp_path).save(windows)
    assert Loaded(windows[:MAX_WINDOWS]) == WindowFile(tmp_path).load()


def test_what_makes_no_sense_is_moved_aside(tmp_path):
    """Rules stand at the configured place then."""
    (tmp_path / "rules.json").write_text('{"version": 1, "windows": [{"first": "x"}]}')
    loaded = WindowFile(tmp_path).load()

    assert () == loaded.windows
    assert "moved aside as rules.json.bad" in loaded.problem


def test_nobody_waits_for_the_disk(tmp_path, monkeypatch):
    """It is written in the agent's loop; a power cut ends the rules that it tells of."""
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("fsync may take as long as the disk likes"))

    assert "" == WindowFile(tmp_path).save((RuleWindow(first=5400),))
