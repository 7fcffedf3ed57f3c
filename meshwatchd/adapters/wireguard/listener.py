"""Who serves a device: a group may write to the folder of the sockets, and what is sent there holds a private key."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("=iII")
"""struct ucred of linux/socket.h: pid, uid, gid."""


def check_listener(connection: socket.socket) -> None:
    """Return if the other end is a program of root's or of this process's own user.

    Raises:
        PermissionError: it is another user's.
    Source: unix(7), SO_PEERCRED: the user of the moment at which it began to listen.
    """
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in {0, os.geteuid()}:
        raise PermissionError(errno.EPERM, f"it belongs to user {uid}, neither root nor this daemon's; remove it")
