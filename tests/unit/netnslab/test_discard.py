"""The service for canaries in bulk: whatever comes is read, and nothing goes back."""

from __future__ import annotations

import socket
import threading

import pytest

from netnslab.discard import serve


class _OverError(Exception):
    """Ends the server from within."""


class _Listener(socket.socket):
    """Accepts two connections; a third ends the server."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.bind(("127.0.0.1", 0))
        self.listen()
        self.setblocking(False)
        self._left = 2

    def accept(self):
        if not self._left:
            raise _OverError
        self._left -= 1
        return super().accept()


def _serve(listener):
    with pytest.raises(_OverError):
        serve(listener)


def test_everything_is_read_and_nothing_is_said():
    """A second client is served beside the first, and each is let go when it has nothing more to say."""
    with _Listener() as listener:
        server = threading.Thread(target=_serve, args=(listener,), daemon=True)
        server.start()
        with socket.create_connection(listener.getsockname(), 5) as one:
            with socket.create_connection(listener.getsockname(), 5) as other:
                for client in (one, other):
                    client.sendall(bytes(1 << 20))
                    client.shutdown(socket.SHUT_WR)
                    assert b"" == client.recv(1)
        socket.create_connection(listener.getsockname(), 5).close()
        server.join(5)

        assert not server.is_alive()
