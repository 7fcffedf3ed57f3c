"""Many addresses asked by one ICMP echo each, all at the same time, while the agent does other things."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from typing import Final, Protocol

from meshwatchd.adapters.echo import Echoes

TIMEOUT_S: Final = 1.0
_RECEIVE_BYTES: Final = 65_535


class OneEcho(Protocol):
    """What is used of `Echoes`."""

    @property
    def opened(self) -> socket.socket:
        """Where answers come in."""

    def send(self) -> None:
        """Send a request."""

    def is_answer(self, packet: bytes) -> bool:
        """Whether a packet answers it."""

    def close(self) -> None:
        """Ask no more."""


async def who_answers(
    asked: Collection[tuple[str, str]], *, timeout_s: float = TIMEOUT_S, make: Callable[..., OneEcho] = Echoes
) -> frozenset[str]:
    """The addresses that answer, each in a flow that nobody has seen.

    Each of `asked` comes with this node's own address to ask from, or with nothing for that of the route.

    Raises:
        KernelError: no socket may be opened.
    """

    async def is_heard(address: str, source: str) -> bool:
        with contextlib.closing(make(address, source=source)) as echoes:
            return await _hear(echoes, timeout_s)

    heard = await asyncio.gather(*(is_heard(address, source) for address, source in asked))
    return frozenset(address for (address, _), is_answer in zip(asked, heard, strict=True) if is_answer)


async def _hear(echoes: OneEcho, timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    echoes.opened.setblocking(False)
    try:
        echoes.send()
        async with asyncio.timeout(timeout_s):
            while not echoes.is_answer(await loop.sock_recv(echoes.opened, _RECEIVE_BYTES)):
                pass
    except TimeoutError:
        return _has_come(echoes)
    except OSError:
        return False
    return True


def _has_come(echoes: OneEcho) -> bool:
    """Whether an answer waits that a busy process has not got round to."""
    with contextlib.suppress(OSError):
        while not echoes.is_answer(echoes.opened.recv(_RECEIVE_BYTES)):
            pass
        return True
    return False
