import os
import socket

from meshwatchd.adapters.sdnotify import notify


def receiver(address):
    """A socket as systemd has it."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.bind(address)
    end.setblocking(False)
    return end


def test_a_state_arrives_at_the_named_socket(tmp_path, monkeypatch):
    """As systemd names it for services of its own."""
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with receiver(path) as end:
        notify("READY=1\nSTATUS=all paths good")

        assert b"READY=1\nSTATUS=all paths good" == end.recv(4096)


def test_an_abstract_socket_is_written_with_an_at_sign(monkeypatch):
    """As container managers name it."""
    name = f"meshwatchd-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with receiver(f"\0{name}") as end:
        notify("WATCHDOG=1")

        assert b"WATCHDOG=1" == end.recv(4096)


def test_without_a_listener_nothing_happens(tmp_path, monkeypatch):
    """Started by hand, or systemd is gone: the daemon works on."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    for address in ("", "relative", str(tmp_path / "gone"), "@" + "x" * 200):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
