"""Sockets whose other end is another user's, without another user."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

import pytest

SOMEBODY_ELSE = os.geteuid() + 1


def pretend_listener(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """Let the kernel name this user wherever it is asked who listens."""
    real = socket.socket.getsockopt

    def getsockopt(connection: socket.socket, level: int, option: int, *size: Any) -> Any:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED):
            return struct.pack("=iII", 1, uid, uid)
        return real(connection, level, option, *size)

    monkeypatch.setattr(socket.socket, "getsockopt", getsockopt)
