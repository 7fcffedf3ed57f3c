"""Dumps over a netlink socket of its own, body by body, without pyroute2.

The kernel writes the next part of a dump while the part before is being read, so reading never waits; the event loop
gets its turn between the parts. A dump that was interrupted by a change says so (NLM_F_DUMP_INTR), and one that is
asked for while the kernel still works at another is refused with EBUSY: both are asked for again, quietly and not for
ever.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.model.errors import KernelError

SOL_NETLINK: Final = 270
NETLINK_GET_STRICT_CHK: Final = 12
"""linux/netlink.h: the kernel takes request headers seriously (Linux 4.20)."""

DATAGRAM_BYTES = 64 * 1024
MAX_ATTEMPTS = 20
RETRY_S = 0.005
"""The wait before the second attempt; it grows with each, to 1 s in all."""

_ABSENT: Final = frozenset((errno.EOPNOTSUPP, errno.EAFNOSUPPORT))
"""A kernel without that family has nothing of it."""

_LAST: Final = frozenset((message.NLMSG_DONE, message.NLMSG_ERROR))


class NetlinkSocket(Protocol):
    """What of a socket is used."""

    def send(self, data: bytes, /) -> int:
        """Send one datagram."""

    def recv(self, size: int, /) -> bytes:
        """Receive one datagram."""

    def close(self) -> None:
        """Close it."""


class _InterruptedDumpError(Exception):
    """What was read is not one picture."""


class Dumper:
    """One dump at a time: who asks for another meanwhile waits.

    Two would take each other's parts away, and wait for the end of theirs for ever.
    """

    def __init__(self, make_socket: Callable[[], NetlinkSocket] | None = None) -> None:
        self._socket: NetlinkSocket = (make_socket or _open)()
        self._sequence, self._turn = 0, asyncio.Lock()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def dump(self, kind: int, header: bytes, what: str, pack: Callable[[bytes], Packed | None]) -> list[Packed]:
        """Everything of one kind, as `pack` makes it of a body; what it makes None of is left out.

        Raises:
            KernelError: it was refused, or interrupted too often.
            DecodeError: what came is no netlink.
        """
        for attempt in range(MAX_ATTEMPTS):
            await asyncio.sleep(RETRY_S * attempt)
            try:
                async with self._turn:
                    return await self._attempt(kind, header, pack)
            except _InterruptedDumpError:
                continue
            except OSError as error:
                number = error.errno or errno.EIO
                if number in _ABSENT:
                    return []
                if number != errno.EBUSY:
                    raise KernelError(f"list {what}", number, os.strerror(number)) from error
        raise KernelError(f"list {what}", errno.EINTR, f"interrupted by changes {MAX_ATTEMPTS} times in a row")

    async def _attempt(self, kind: int, header: bytes, pack: Callable[[bytes], Packed | None]) -> list[Packed]:
        self._sequence = (self._sequence + 1) & 0xFFFF_FFFF
        flags = message.NLM_F_REQUEST | message.NLM_F_DUMP
        self._socket.send(message.encode(kind, flags, self._sequence, header))
        found: list[Packed] = []
        is_torn = False
        while True:
            try:
                datagram = self._socket.recv(DATAGRAM_BYTES)
            except BlockingIOError:
                await asyncio.sleep(RETRY_S)
                continue
            for each in message.split(datagram):
                if each.sequence != self._sequence:
                    continue  # of a dump that was given up
                is_torn |= bool(each.flags & message.NLM_F_DUMP_INTR)
                if each.kind in _LAST:
                    _check(each)
                    if is_torn:
                        raise _InterruptedDumpError
                    return found
                packed = pack(each.body)
                if packed is not None:
                    found.append(packed)
            await asyncio.sleep(0)


def _check(last: Message) -> None:
    code = message.error_of(last.body)
    if code:
        raise OSError(-code, os.strerror(-code))


def _open() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    made = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
    made.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
    made.bind((0, 0))
    return made
