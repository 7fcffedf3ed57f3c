"""A listener whose kernel loses full segments and nothing else, as behind a broken offload."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

SO_ATTACH_FILTER = 26
"""asm-generic/socket.h; connections that are accepted inherit the filter."""

LARGEST_BYTES = 1_000
"""TCP header included: handshakes, banners and acknowledgements are smaller."""

# linux/filter.h, struct sock_filter: code, jt, jf, k.
_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = b"".join(
    _INSTRUCTION.pack(*each)
    for each in (
        (0x80, 0, 0, 0),  # ld len
        (0x25, 0, 1, LARGEST_BYTES),  # jgt
        (0x06, 0, 0, 0),  # ret 0: drop
        (0x06, 0, 0, 0xFFFFFFFF),  # ret all: keep
    )
)


@contextmanager
def deaf_listener(host: str = "127.0.0.1", backlog: int | None = None) -> Iterator[socket.socket]:
    """A TCP listener on a port of the kernel's that accepts connections and never sees what comes in bulk."""
    code = ctypes.create_string_buffer(_PROGRAM)
    program = struct.pack("@HP", len(_PROGRAM) // _INSTRUCTION.size, ctypes.addressof(code))
    with socket.create_server((host, 0), backlog=backlog) as listener:
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        yield listener
