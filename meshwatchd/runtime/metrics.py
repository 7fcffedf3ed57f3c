"""Serves figures over HTTP, and writes them for node_exporter.

The server answers one question: GET /metrics. It is part of the agent, never of the engine, reads no more than
a request line, and closes after each answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.settings import MetricsSettings
from meshwatchd.model.status import Status
from meshwatchd.runtime.sinks import Warns

REQUEST_TIMEOUT_S = 5.0
RETRY_S = 10.0
WRITE_S = 15.0
"""As often as Prometheus usually asks."""

MAX_CONNECTIONS = 16

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Figures = Callable[[], tuple[Status | None, OverlayFigures]]


class Metrics:
    """What is served and written.

    Args:
        settings: where; nothing is done for what is empty.
        refresh: has `figures` give those of this moment.

    Attributes:
        incidents: what went wrong so far, and for how long traffic was lost.
    """

    def __init__(
        self, settings: MetricsSettings, figures: Figures, log: Warns, *, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self.incidents = IncidentTracker()
        self._settings, self._figures, self._log, self._refresh = settings, figures, log, refresh
        self._connections = 0
        self._problem = ""

    def text(self) -> bytes:
        """All metrics of this instant."""
        from meshwatchd.adapters.metrics.families import render  # noqa: PLC0415 - slow to import, and off by default

        status, figures = self._figures()
        return render(status, figures, self.incidents, now_ns=time.monotonic_ns())

    async def serve(self) -> None:
        """Answer for ever; an address that cannot be had is tried again."""
        if not self._settings.listen:
            return
        host, _, port = self._settings.listen.rpartition(":")
        while True:
            try:
                server = await asyncio.start_server(self._answer, host.strip("[]"), int(port))
            except OSError as error:
                self._log.warning(
                    "metrics.refused", listen=self._settings.listen, error=str(error), remedy="set metrics.listen"
                )
                await asyncio.sleep(RETRY_S)
                continue
            async with server:
                await server.serve_forever()

    async def write(self) -> None:
        """Write the file for ever; when the agent ends, what is in it would be taken for the present."""
        if not self._settings.textfile:
            return
        path = Path(self._settings.textfile)
        try:
            while True:
                await self._refresh()
                self._write(path)
                await asyncio.sleep(WRITE_S)
        finally:
            _remove(path)

    def _write(self, path: Path) -> None:
        """In one step: a reader sees the old figures or the new ones."""
        temporary = path.with_name(f".{path.name}.tmp")
        problem = ""
        try:
            temporary.write_bytes(self.text())
            temporary.chmod(0o644)
            temporary.replace(path)
        except OSError as error:
            problem = os.strerror(error.errno or 0)
        if problem and problem != self._problem:
            self._log.warning("metrics.unwritten", path=str(path), error=problem)
        self._problem = problem

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > MAX_CONNECTIONS:
                return
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                await self._refresh()
                # Else a rest of 64 KiB counts as sent, and is kept for a client that never reads it.
                writer.transport.set_write_buffer_limits(0)
                writer.write(self._reply(line))
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # a client that went away, is slow, or speaks no HTTP; it will not miss the answer
        finally:
            self._connections -= 1
            # Not close(), which waits for ever where anything is unsent; what is to arrive has left this process.
            writer.transport.abort()

    def _reply(self, line: bytes) -> bytes:
        words = line.split()
        if len(words) < 2 or words[0] not in (b"GET", b"HEAD"):
            return _http("405 Method Not Allowed", "text/plain", b"GET /metrics\n")
        if words[1].partition(b"?")[0] != b"/metrics":
            return _http("404 Not Found", "text/plain", b"there is /metrics\n")
        body = self.text()
        return _http("200 OK", CONTENT_TYPE, body if words[0] == b"GET" else b"", length=len(body))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _http(status: str, kind: str, body: bytes, *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    return head.encode("ascii") + body
