"""One object, one line."""

from __future__ import annotations

import json
import os
import sys

from meshwatchd.runtime.stderr import say


def test_a_line_is_one_json_object(capsys):
    """Line breaks in a value do not break the line."""
    say("engine.crashed", level="error", trace="a\nb", pid=3)

    [line] = capsys.readouterr().err.splitlines()
    assert {"event": "engine.crashed", "level": "error", "trace": "a\nb", "pid": 3} == json.loads(line)


def test_in_the_journal_a_line_is_for_people(tmp_path, monkeypatch):
    """`systemctl status` shows the last ten: no braces, and a priority, which the journal takes off."""
    file = tmp_path / "journal"
    with file.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        monkeypatch.setattr(sys, "stderr", stream)
        say(
            "start.refused",
            level="error",
            reason="process 3 is here\nnow",
            pid=3,
            node="b3",
            leaders={"site-a": "a1", "site-b": "b1"},
            seq=7,
            at_ns=1953829134827,
        )

    assert (
        '<3>start.refused reason="process 3 is here\\nnow" pid=3 node=b3 leaders=site-a:a1,site-b:b1\n'
        == file.read_text()
    )
