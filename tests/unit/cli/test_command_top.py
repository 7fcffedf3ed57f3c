"""`meshwatchctl top` in a terminal of its own, with keys."""

from __future__ import annotations

import os
import pty
import select
import struct
import sys
import time
from fcntl import ioctl
from termios import ECHO, TIOCSWINSZ, tcgetattr

import pytest

from tests.support.example_status import INCIDENT

WITHIN_S = 60


def test_once_draws_one_screen_into_a_pipe(room, run):
    """For a ticket, and where there is no terminal."""
    for line in INCIDENT:
        room.backend.store.append(line)
    code, out, _ = run("top", "--once")
    assert 0 == code
    assert "b3 in cloud" in out
    assert "failover.verified" in out
    assert "\x1b" not in out


def test_wrong_uses_name_the_right_ones(run):
    """No terminal, and a program that asks."""
    for arguments, word in ((["top"], "--once"), (["--json", "top"], "status --json")):
        code, out, err = run(*arguments)
        assert (64, "") == (code, out)
        assert word in err


def test_a_daemon_that_is_gone_is_what_the_screen_says(capsys, tmp_path):
    """It may come back: a live view does not end for that."""
    from meshwatchd.cli.main import main

    assert 0 == main(["--socket", str(tmp_path / "none"), "top", "--once"])
    assert "is meshwatchd running?" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def terminal(room):
    """A child in a terminal of 80 columns; ended if it did not end itself."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        code = "import sys; from meshwatchd.cli.main import main; sys.exit(main())"
        os.execv(sys.executable, [sys.executable, "-c", code, "--socket", str(room.path), "top"])
    ioctl(descriptor, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield pid, descriptor
    os.close(descriptor)


def _read_until(descriptor, word):
    seen, until = b"", time.monotonic() + WITHIN_S
    while word not in seen:
        assert time.monotonic() < until, seen
        if select.select([descriptor], [], [], 1)[0]:
            seen += os.read(descriptor, 65536)
    return seen


def test_keys_change_the_screen_and_q_gives_the_terminal_back(terminal):
    """With echo as before, and the exit status of something that went well."""
    pid, descriptor = terminal
    before = tcgetattr(descriptor)[3] & ECHO
    _read_until(descriptor, b"to onprem")
    os.write(descriptor, b"?")
    _read_until(descriptor, b"hold the picture, or go on")
    os.write(descriptor, b"q")
    _read_until(descriptor, b"\x1b[?1049l")
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert before == tcgetattr(descriptor)[3] & ECHO
