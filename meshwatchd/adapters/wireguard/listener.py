"""Who serves a device: a group may write to the folder of the sockets, and what is sent there holds a private key."""

from __future__ import annotations

import errno
import os
import socket

from meshwatchd.adapters.socket_options import read_peer


def check_listener(connection: socket.socket) -> None:
    """Return if the other end is a program of root's or of this process's own user.

    Raises:
        PermissionError: it is another user's.
    """
    _, uid = read_peer(connection)
    if uid not in {0, os.geteuid()}:
        raise PermissionError(errno.EPERM, f"it belongs to user {uid}, neither root nor this daemon's; remove it")
