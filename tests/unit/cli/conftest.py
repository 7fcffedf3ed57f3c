"""meshwatchctl against a server that a test fills."""

from __future__ import annotations

import pytest

from meshwatchd.cli.main import main
from tests.support.control_room import Backend, control_room
from tests.support.example_status import MOVED


@pytest.fixture
def room(tmp_path):
    """A running server whose mesh is on a standby path."""
    with control_room(tmp_path / "control.sock", Backend(MOVED)) as running:
        yield running


@pytest.fixture
def run(room, capsys):
    """Run meshwatchctl against the room; returns exit status, standard output and standard error."""

    def _run(*arguments: str) -> tuple[int, str, str]:
        status = main(["--socket", str(room.path), *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return _run
