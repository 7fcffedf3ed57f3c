"""One object, one line."""

from __future__ import annotations

import json

from meshwatchd.runtime.stderr import say


def test_a_line_is_one_json_object(capsys):
    """Line breaks in a value do not break the line."""
    say("engine.crashed", level="error", trace="a\nb", pid=3)

    [line] = capsys.readouterr().err.splitlines()
    assert {"event": "engine.crashed", "level": "error", "trace": "a\nb", "pid": 3} == json.loads(line)
