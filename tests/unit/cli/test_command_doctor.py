"""`meshwatchctl doctor`, with a daemon and without."""

from __future__ import annotations

import errno
import os
import socket
import time

import msgspec
import pytest

from meshwatchd.adapters.doctor import ports
from meshwatchd.cli.main import main
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import NodeStatus
from tests.support.example_status import HEALTHY


@pytest.fixture
def config(tmp_path):
    """One that names a folder of its own."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(f'[daemon]\nnode = "b3"\nruntime_dir = "{tmp_path}"\n[auth]\nkey_file = "{tmp_path}/none.key"\n')
    return path


def test_without_a_daemon_it_checks_what_it_can(config, tmp_path, capsys):
    """The missing key and the missing daemon are errors, and the rest is there."""
    assert 2 == main(["--socket", str(tmp_path / "none.sock"), "doctor", "--config", str(config)])
    out = capsys.readouterr().out
    assert out.startswith("CRITICAL  ")
    assert "remedy: systemctl restart meshwatchd" in out
    for area in ("configuration", "key", "daemon", "ports", "kernel", "clock", "rules", "firewall"):
        assert f" {area} " in out


def test_with_a_daemon_its_words_are_part_of_it(config, room, run):
    """Versions of the neighbours among them; the exit status is the worst state."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns())
    room.backend.known = (NodeStatus(name=NodeName("b1"), version="9.9", heard_ago_ns=1),)
    status, out, _ = run("doctor", "--config", str(config), "--json")
    reply = msgspec.json.decode(out)
    texts = [check["text"] for check in reply["checks"]]

    assert (2, "error") == (status, reply["state"])
    assert "to onprem: every layer answers" in texts
    assert any("meshwatchd 9.9 on b1" in text for text in texts)
    quiet = msgspec.json.decode(run("doctor", "--config", str(config), "--json", "--quiet")[1])["checks"]
    assert "ok" not in {check["state"] for check in quiet}


def test_a_daemon_that_cannot_say_is_an_error_and_no_traceback(config, room, run):
    """The rest is checked all the same."""
    room.backend.current = None
    status, out, _ = run("doctor", "--config", str(config))
    assert 2 == status
    assert "the engine has not reported yet" in out
    assert " rules " in out


def test_who_is_not_root_has_no_errors_that_root_would_not_have(config, room, run, monkeypatch):
    """The key is root's, as it should be, and a daemon runs."""
    opened = os.open

    def refuse(path, *arguments):
        if str(path).endswith(".key"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "open", refuse)
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns())
    (check,) = _checks(run, config, "key")

    assert "note" == check["state"]
    assert "only root can look at" in check["text"]
    assert "sudo meshwatchctl doctor" == check["remedy"]


def test_who_may_not_ask_the_daemon_is_not_told_that_its_ports_are_taken(config, room, run, monkeypatch):
    """They are the daemon's own, most likely."""

    def refuse(*_arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(ports, "open_ports", lambda: {18617: 997, 18618: 997})

    assert ["note"] == [check["state"] for check in _checks(run, config, "daemon")]
    assert not [check for check in _checks(run, config, "ports") if "is taken" in check["text"]]


def test_a_daemon_in_another_mode_than_the_file_is_told(config, room, run):
    """The file was changed, or it is not the one that the daemon reads."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns())
    told = [check for check in _checks(run, config, "configuration") if check["state"] == "warning"]

    assert ["the daemon runs in mode enforce, and this file says observe"] == [check["text"] for check in told]


def _checks(run, config, area):
    reply = msgspec.json.decode(run("doctor", "--config", str(config), "--json")[1])
    return [check for check in reply["checks"] if check["area"] == area]
