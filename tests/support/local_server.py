"""A program that answers whatever is asked with the same bytes, on a loopback port or a UNIX socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Answers:
    """What the server says next, and what it was asked.

    Attributes:
        answer: sent as it is; a function makes it from the request; None leaves the asker waiting.
        ended: set once a connection is over.
    """

    def __init__(self, answer: bytes | Callable[[bytes], bytes] | None) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.ended.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(request)
        if self.answer is None:
            await reader.read()
        else:
            writer.write(self.answer(request) if callable(self.answer) else self.answer)


def ok(body: bytes) -> bytes:
    """An answer as Go's server gives it."""
    return b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def serving(answers: Answers, path: Path | None = None) -> AsyncIterator[tuple[str, int]]:
    """Serve on a free port of 127.0.0.1, or on a UNIX socket; yields host and port of the former."""
    if path is not None:
        server: asyncio.Server = await asyncio.start_unix_server(answers.serve, str(path))
    else:
        server = await asyncio.start_server(answers.serve, "127.0.0.1", 0)
    address = ("", 0) if path is not None else server.sockets[0].getsockname()[:2]
    try:
        yield address
    finally:
        server.close()
        await server.wait_closed()
