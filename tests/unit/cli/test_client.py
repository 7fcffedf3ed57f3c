"""When there is no good answer, the line says what to check."""

from __future__ import annotations

import contextlib
import grp
import socket
import threading
from types import SimpleNamespace

import pytest

from meshwatchd.cli import client
from meshwatchd.cli.client import Client
from meshwatchd.model.errors import ControlError
from tests.support.control_room import Backend, control_room


def _refusal(path, method="io.meshwatch.Control.Status", timeout_s=10.0):
    with pytest.raises(ControlError) as caught:
        Client(path, timeout_s=timeout_s).call(method)
    return caught.value.code, str(caught.value)


@pytest.fixture
def listener(tmp_path):
    """A socket that is listened on by somebody else than a daemon."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "control.sock"))
        sock.listen(1)
        yield sock


def test_a_dead_daemons_socket_is_told_from_a_missing_one(tmp_path, listener):
    """Somebody was there once."""
    listener.close()
    code, text = _refusal(tmp_path / "control.sock")
    assert (3, True) == (code, text.startswith(f"nobody listens on {tmp_path / 'control.sock'}; meshwatchd has died"))


def test_a_daemon_that_does_not_answer_is_not_waited_for(tmp_path, listener):
    """It took the call, so it is there, and wedged."""
    code, text = _refusal(tmp_path / "control.sock", timeout_s=0.05)
    assert (3, True) == (code, text.startswith("meshwatchd took the call and does not answer; look at: journalctl"))


def test_a_daemon_that_takes_no_calls_is_not_waited_for(tmp_path, listener):
    """Its queue is full of callers that gave up; one more would hang without ever being in it."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.connect(str(tmp_path / "control.sock"))
        code, text = _refusal(tmp_path / "control.sock", timeout_s=0.05)
    assert (3, True) == (code, text.startswith("meshwatchd takes no calls on "))


def test_what_is_no_socket_is_not_called_a_dead_daemon(tmp_path):
    """connect(2) refuses both in the same way."""
    assert (3, f"{tmp_path} is no socket; another place: --socket or MESHWATCH_SOCKET") == _refusal(tmp_path)


def test_a_socket_that_is_removed_meanwhile_is_a_dead_daemons(tmp_path, monkeypatch, listener):
    """As by a daemon that is being stopped: it refuses calls, and a moment later its socket is gone."""
    path = tmp_path / "control.sock"

    def refuse(_self, _address):
        path.unlink()
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert _refusal(path)[1].startswith(f"nobody listens on {path}; meshwatchd has died")


@pytest.mark.parametrize(
    ("answer", "why"), [(b"", "it closed the connection"), (b"nonsense\0", "meshwatchd's answer: not")]
)
def test_a_connection_that_breaks_is_an_error_in_words(tmp_path, listener, answer, why):
    """The agent may be restarted at any instant."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    code, text = _refusal(tmp_path / "control.sock")
    thread.join(10)
    assert (3, True) == (code, f"lost meshwatchd on {tmp_path / 'control.sock'}: {why}" in text)


def test_an_error_reply_is_told_in_its_own_words(tmp_path):
    """Where it has a reason; an error reply without one is in ours."""
    with control_room(tmp_path / "control.sock", Backend()) as room:
        assert (3, "meshwatchd: the engine has not reported yet") == _refusal(room.path)


@pytest.mark.parametrize(
    ("method", "unknown"),
    [("x.y.Z", "interface x.y"), ("io.meshwatch.Control.OfTheFuture", "method OfTheFuture")],
)
def test_a_daemon_that_does_not_know_a_command_may_be_of_another_version(tmp_path, method, unknown):
    """As between an upgrade and the restart: the name of Varlink's error told nobody what to do."""
    with control_room(tmp_path / "control.sock", Backend()) as room:
        code, text = _refusal(room.path, method)

    assert 3 == code
    assert f"meshwatchd does not know what this meshwatchctl asks for ({unknown}); is it of another version? " in text


def test_permission_has_an_exit_status_of_its_own(tmp_path):
    """A script can tell it from a daemon that is down."""
    with control_room(tmp_path / "control.sock", Backend(), uid=1000) as room:
        code, text = _refusal(room.path, "io.meshwatch.Control.Failover")
    assert (77, "only root may do that; use sudo, or --dry-run to look only") == (code, text)


def test_who_may_not_open_the_socket_is_told_which_group_to_join(tmp_path, monkeypatch, listener):
    """Or, where the socket is root's alone, to use sudo."""

    def deny(_self, _address):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "control.sock"
    monkeypatch.setattr(
        client,
        "socket",
        SimpleNamespace(**{**vars(socket), "socket": type("Denied", (socket.socket,), {"connect": deny})}),
    )
    group = SimpleNamespace(gr_name="meshwatch")
    monkeypatch.setattr(grp, "getgrgid", lambda _gid: group)
    code, text = _refusal(path)
    assert (77, True) == (
        code,
        text.endswith("use sudo, or join the group: usermod -aG meshwatch YOU (as root), then log in again"),
    )

    group.gr_name = "root"
    assert (77, f"you may not open {path}; use sudo") == _refusal(path)
