"""Tells systemd how the daemon fares, over the datagram socket named by NOTIFY_SOCKET (sd_notify(3))."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send assignments, such as "READY=1" or "STATUS=all paths good", one a line.

    Does nothing without NOTIFY_SOCKET, and nothing when nobody listens there: being supervised badly is no
    reason to stop working. The socket never blocks, so a full queue of the receiver loses the message.

    Args:
        state: newline-separated assignments, at most a few hundred bytes.
    """
    address = _address(os.environ.get("NOTIFY_SOCKET", ""))
    if address is None:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return


def _address(name: str) -> str | None:
    """The socket address: a path, or an abstract name that is written with @ and starts with a zero byte."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None
