"""What several sockets ask the kernel for: a larger buffer, and who is at the other end."""

from __future__ import annotations

import socket
import struct
from types import MappingProxyType
from typing import Final

_UCRED: Final = struct.Struct("=iII")
"""struct ucred of linux/socket.h: pid, uid, gid."""

_BEYOND_THE_LIMIT: Final = MappingProxyType({socket.SO_SNDBUF: 32, socket.SO_RCVBUF: 33})
"""SO_SNDBUFFORCE and SO_RCVBUFFORCE of asm-generic/socket.h."""


def grow_buffer(opened: socket.socket, option: int, size_bytes: int) -> None:
    """Set SO_RCVBUF or SO_SNDBUF, beyond the system's limit where that is allowed, else up to it.

    In a user namespace nobody has CAP_NET_ADMIN over the machine, which it takes.
    """
    try:
        opened.setsockopt(socket.SOL_SOCKET, _BEYOND_THE_LIMIT[option], size_bytes)
    except OSError:
        opened.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a Unix socket; of one that listens, as when it began to.

    Raises:
        OSError: it is not connected.
    Source: unix(7), SO_PEERCRED.
    """
    pid, uid, _gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid
