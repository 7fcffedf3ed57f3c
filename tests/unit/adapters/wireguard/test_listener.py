"""Whose program serves a device."""

import os
import socket

import pytest

from meshwatchd.adapters.wireguard.listener import check_listener
from tests.support.listener_user import SOMEBODY_ELSE, pretend_listener


@pytest.fixture
def connection(tmp_path):
    """To a socket of this process."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as asking:
        listening.bind(str(tmp_path / "mw0.sock"))
        listening.listen()
        asking.connect(str(tmp_path / "mw0.sock"))
        yield asking


def test_root_and_the_own_user_may_serve_a_device(connection, monkeypatch):
    """Others start wireguard-go as root, the daemon starts it as what it is."""
    check_listener(connection)
    for uid in (0, os.geteuid()):
        pretend_listener(monkeypatch, uid)
        check_listener(connection)


def test_nobody_else_may(connection, monkeypatch):
    """The line names the user and what to do."""
    pretend_listener(monkeypatch, SOMEBODY_ELSE)

    with pytest.raises(PermissionError, match=f"belongs to user {SOMEBODY_ELSE}, .*; remove it"):
        check_listener(connection)
