"""The command line itself: wrong usage, no daemon, and nothing heavy on the way."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
import time

import click
import msgspec
import pytest

import meshwatchd
from meshwatchd.cli.main import cli, main
from meshwatchd.model.ids import NodeName
from tests.support.example_status import HEALTHY


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["failover", "--rank", "9"],
        ["events", "--since", "3"],
        ["status", "--colour"],
        ["events", "a", "b"],
    ],
)
def test_wrong_usage_exits_64(arguments, capsys):
    """Never 1 or 2: those are states of the mesh."""
    assert 64 == main(arguments)
    assert "Usage: meshwatchctl" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "explain", "events", "failover", "failback"])
def test_without_a_daemon_the_exit_status_is_3_and_says_what_to_check(command, tmp_path, capsys):
    """One line, and nothing on standard output that a program might take for an answer."""
    path = tmp_path / "control.sock"
    assert 3 == main(["--socket", str(path), command])
    captured = capsys.readouterr()
    assert "" == captured.out
    assert (
        f"meshwatchctl: there is no socket {path}; is meshwatchd running? look at: systemctl status meshwatchd "
        "(another place: --socket or MESHWATCH_SOCKET)\n"
    ) == captured.err


def test_the_socket_can_come_from_the_environment(tmp_path, monkeypatch, capsys):
    """For a shell inside a node of the lab."""
    monkeypatch.setenv("MESHWATCH_SOCKET", str(tmp_path / "elsewhere.sock"))
    assert 3 == main(["status"])
    assert "elsewhere.sock" in capsys.readouterr().err


def test_every_command_can_be_imported_and_has_help(capsys):
    """The list of commands is kept by hand."""
    for name in cli.list_commands(click.Context(cli)):
        assert 0 == main([name, "--help"])
        assert f"Usage: meshwatchctl {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("stats", "there is no command stats; did you mean status?"),
        ("explian", "there is no command explian; did you mean explain?"),
        ("zzz", "there is no command zzz; `meshwatchctl --help` lists all commands"),
    ],
)
def test_a_verb_that_is_none_names_the_nearest(verb, hint, capsys):
    """Also behind options of the program."""
    assert 64 == main(["--json", verb])
    assert hint in capsys.readouterr().err


def test_a_socket_that_may_not_be_opened_is_no_wrong_usage(tmp_path, monkeypatch, capsys):
    """Who may not open it hears so from connect(2), with the group to join: nobody else looks before."""
    path = tmp_path / "control.sock"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)

    assert 3 == main(["--socket", str(path), "status"])
    assert "is no socket" in capsys.readouterr().err


def test_the_version_needs_no_daemon(capsys):
    """One line."""
    assert 0 == main(["--version"])
    assert f"meshwatchctl {meshwatchd.__version__}\n" == capsys.readouterr().out


def test_the_start_is_light():
    """An operator in a hurry does not wait for libraries that status does not use."""
    heavy = ["asyncio", "pyroute2", "rich", "scapy", "structlog", "tomllib", "meshwatchd.core", "meshwatchd.runtime"]
    heavy += ["statistics", "meshwatchd.model.settings", "meshwatchd.adapters.control.interface"]
    code = (
        "import sys; from meshwatchd.cli.main import main;"
        "assert 3 == main(['--socket', '/nonexistent', 'status']);"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert "[]" == done.stdout.strip()


def test_help_is_lighter_still():
    """It decodes nothing and calls nobody."""
    heavy = ["msgspec", "socket", "meshwatchd.cli.client"]
    code = (
        "import sys; from meshwatchd.cli.main import main; main(['--help']);"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "[]" == done.stderr.strip()


@pytest.mark.parametrize("command", [["pause", "--for", "1h", "--reason"], ["forget"], ["mtu"]])
def test_an_argument_that_is_not_utf8_is_wrong_usage(command, room, capsys):
    """As it comes from a Latin-1 console: one line, and nothing is asked of the daemon."""
    assert 64 == main(["--socket", str(room.path), *command, os.fsdecode(b"f\xfcr")])
    assert "meshwatchctl: an argument is not UTF-8: 'f\\udcfcr'\n" == capsys.readouterr().err


def test_a_terminal_that_lacks_a_sign_shows_another(room, monkeypatch):
    """The bars of `top` are in no Latin-1, nor are all names."""
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="latin-1"))
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns(), node=NodeName("b\u0142k"))
    assert 0 == main(["--socket", str(room.path), "status"])
    assert b"b?k" in shown.getvalue()


def test_a_reader_that_has_seen_enough_is_no_error(room):
    """`meshwatchctl events | head -1` prints no traceback."""
    for at_ns in range(5000):
        room.append({"at_ns": at_ns, "event": "test.happened", "filler": "x" * 100})
    command = f"{sys.executable} -m meshwatchd.cli.main --socket {room.path} events | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30)
    assert "test.happened" in done.stdout
    assert "" == done.stderr


@pytest.mark.parametrize("command", ["status", "explain", "events", "topology"])
def test_the_answer_of_another_version_is_no_state_of_the_mesh(command, tmp_path, capsys):
    """After an upgrade the old daemon runs until it is restarted; 1 and 2 would say that the mesh is degraded."""
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b'{"parameters":{"answer":42}}\0')

        thread = threading.Thread(target=serve)
        thread.start()
        assert 3 == main(["--socket", str(path), command])
        thread.join(10)
    captured = capsys.readouterr()
    assert "" == captured.out
    assert "is not understood" in captured.err
    assert "systemctl restart meshwatchd" in captured.err


@pytest.mark.parametrize("command", ["status", "explain", "topology", "mtu", "failover --dry-run", "version", "events"])
def test_json_may_be_asked_for_before_or_behind_the_command(command, run):
    """README promises it of every command, and hands put it last."""
    before, behind = run("--json", *command.split()), run(*command.split(), "--json")
    assert before == behind
    assert all(line.startswith("{") for line in before[1].splitlines())


@pytest.mark.parametrize(
    ("where", "status", "complaint"),
    [
        (">/dev/full", 74, "meshwatchctl: the answer cannot be written: No space left on device\n"),
        (">&-", 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", 0, ""),
    ],
)
def test_an_answer_that_cannot_be_written_is_no_state_of_the_mesh(where, status, complaint):
    """1 would be read as degraded; and nobody is shown a traceback."""
    command = f"{sys.executable} -m meshwatchd.cli.main explain leader-dead {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=30)
    assert (status, complaint) == (done.returncode, done.stderr)
