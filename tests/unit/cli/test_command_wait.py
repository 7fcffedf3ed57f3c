"""`meshwatchctl wait`: at once, in time, or not."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest

from meshwatchd.cli.client import Client
from meshwatchd.cli.main import main
from meshwatchd.model.errors import ControlError
from meshwatchd.model.settings import MINUTE
from tests.support.example_status import HEALTHY, MOVED, STUCK


def _fresh(status, **more):
    return msgspec.structs.replace(status, at_ns=time.monotonic_ns(), **more)


@pytest.fixture
def run_with(room, run):
    """Run the command where the daemon has a status."""

    def use(status):
        room.backend.current = status
        return run

    return use


@pytest.mark.parametrize(
    ("status", "options", "expected"),
    [
        (HEALTHY, ("--healthy",), (0, "")),
        (STUCK, (), (0, "")),
        (MOVED, ("--healthy",), (1, "not healthy: to onprem: new overlay flows die")),
        (STUCK, ("--healthy",), (2, "not healthy: to onprem: ")),
        (msgspec.structs.replace(HEALTHY, is_ready=False), (), (3, "starting")),
        (msgspec.structs.replace(HEALTHY, pairs=()), (), (4, "nothing is watched")),
    ],
)
def test_the_state_at_the_end_is_the_exit_status(run_with, status, options, expected):
    """With the reason; watching is enough where health is not asked for."""
    run = run_with(_fresh(status))
    code, out, complaint = run("wait", "--timeout", "10ms", *options)
    assert (expected[0], "") == (code, out)
    assert expected[1] in complaint
    is_met = msgspec.json.decode(run("wait", "--timeout", "10ms", *options, "--json")[1])["is_met"]
    assert is_met == (not expected[1])


def test_a_report_that_is_too_old_is_unknown(room, run):
    """Its engine may have died."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns() - MINUTE)
    status, _, complaint = run("wait", "--timeout", "10ms")
    assert 3 == status
    assert "stopped reporting" in complaint


def test_it_ends_as_soon_as_it_is_so(room, run):
    """Within the time."""
    room.backend.current = _fresh(STUCK)
    heal = threading.Timer(0.2, lambda: setattr(room.backend, "current", _fresh(HEALTHY)))
    heal.start()
    assert 0 == run("wait", "--healthy", "--timeout", "60s")[0]
    heal.join()


def test_who_may_not_ask_is_told_at_once(monkeypatch, capsys, tmp_path):
    """The end of the time would change nothing."""

    def refuse(_client, _method, _kind=None, _parameters=None):
        raise ControlError(77, "you may not open the socket")

    monkeypatch.setattr(Client, "ask", refuse)
    began = time.monotonic()
    assert 77 == main(["--socket", str(tmp_path / "none.sock"), "wait", "--timeout", "30s"])
    assert time.monotonic() - began < 5
    assert "you may not open the socket" in capsys.readouterr().err


def test_a_daemon_may_be_starting(tmp_path, capsys):
    """Until the time is over."""
    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "wait", "--timeout", "10ms"])
    assert "there is no socket" in capsys.readouterr().err
