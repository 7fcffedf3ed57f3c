"""UDP sockets of questions about ways: each question leaves by a port of its own, each answer by the address asked.

Datagrams may be cut into fragments on their way, as outer packets of overlays may: Linux would forbid it to UDP.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from meshwatchd.model.errors import KernelError

_IP_PKTINFO: Final = 8
_IP_MTU_DISCOVER, _PMTUDISC_DONT = 10, 0
"""linux/in.h."""
_PKTINFO: Final = struct.Struct("=I4s4s")
"""struct in_pktinfo: index of the device, the local address, the header's destination."""
RECEIVE_BYTES: Final = 9_001
MOST_WAITING: Final = 32
"""Datagrams that are looked at after the time is over: somebody may send more than can be read."""


class Asked(NamedTuple):
    """A datagram that came in: its sender, and the own address that it was sent to."""

    datagram: bytes
    sender: tuple[str, int]
    address: bytes


def listen(port: int) -> socket.socket:
    """A socket for questions.

    Raises:
        KernelError: the port is taken, or this process may open no more files.
    """
    with contextlib.ExitStack() as undone:
        try:
            opened = undone.enter_context(_open())
            opened.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            opened.bind(("", port))
        except OSError as error:
            raise KernelError(f"listen on UDP port {port}", error.errno or errno.EIO, error.strerror or "") from error
        undone.pop_all()
    return opened


def _open() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DONT)
    return opened


def receive(opened: socket.socket) -> Asked | None:
    """The next datagram; None where there is none."""
    try:
        datagram, ancillary, _, sender = opened.recvmsg(RECEIVE_BYTES, socket.CMSG_SPACE(_PKTINFO.size))
    except OSError:
        return None
    info = next((data for level, kind, data in ancillary if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO)), None)
    if info is None or len(info) < _PKTINFO.size:
        return None
    _, local, _ = _PKTINFO.unpack_from(info)
    return Asked(datagram, (str(sender[0]), int(sender[1])), local)


def answer(opened: socket.socket, asked: Asked, datagram: bytes) -> None:
    """Send an answer from the address that was asked, by whatever route that has; one that is refused is lost."""
    info = _PKTINFO.pack(0, asked.address, bytes(4))
    with contextlib.suppress(OSError):
        opened.sendmsg([datagram], [(socket.IPPROTO_IP, _IP_PKTINFO, info)], 0, asked.sender)


async def ask(
    datagram: bytes, *, source: str, to: tuple[str, int], timeout_s: float, is_answer: Callable[[bytes], bool]
) -> bytes | None:
    """Send one datagram in a flow of its own and wait for its answer; None for silence, and where nothing can leave.

    A process that may open no more files is one of those: it asks again in its next round.
    """
    loop = asyncio.get_running_loop()
    try:
        with _open() as opened:
            opened.bind((source, 0))
            opened.sendto(datagram, to)
            try:
                async with asyncio.timeout(timeout_s):
                    while True:
                        received = await loop.sock_recv(opened, RECEIVE_BYTES)
                        if is_answer(received):
                            return received
                        await asyncio.sleep(0)  # while datagrams are there nothing else gets its turn
            except TimeoutError:
                return _waiting(opened, is_answer)
    except OSError:
        return None


def _waiting(opened: socket.socket, is_answer: Callable[[bytes], bool]) -> bytes | None:
    """An answer that a busy process has not got round to."""
    with contextlib.suppress(OSError):
        for _ in range(MOST_WAITING):
            received = opened.recv(RECEIVE_BYTES)
            if is_answer(received):
                return received
    return None
