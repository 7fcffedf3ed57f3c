"""The server of the control socket: many clients on one loop, none of which can hold up another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Protocol

from meshwatchd.adapters.control.connection import Connection
from meshwatchd.adapters.control.interface import TOO_MANY_CLIENTS
from meshwatchd.adapters.control.listen import open_listener
from meshwatchd.adapters.control.methods import ControlBackend, Methods
from meshwatchd.adapters.control.varlink import Call, VarlinkError
from meshwatchd.adapters.socket_options import read_peer

__all__ = ["MAX_CLIENTS", "ControlBackend", "ControlServer"]

MAX_CLIENTS = 64
RESERVED_CLIENTS = 16
"""Of these for root alone: who has to act must not wait for those who look."""
IDLE_S = 60.0
"""How long a connection may ask for nothing; a program that wants more then connects again."""
LOOK_S = 5.0
"""How often it is seen who is idle, and whether the socket is there; a tidy program or person may have removed it."""


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def error(self, event: str, **fields: object) -> object:
        """Write a line of level error."""


class ControlServer:
    """Serves `io.meshwatch.Control` on a socket.

    Args:
        path: of the socket; its folder is created.
        log: of calls that this daemon failed to answer.
    """

    def __init__(
        self,
        path: Path,
        backend: ControlBackend,
        log: Log,
        *,
        read_owner: Callable[[socket.socket], tuple[int, int]] = read_peer,
    ) -> None:
        self._path, self._log = path, log
        self._methods = Methods(backend)
        self._read_owner = read_owner
        self._connections: dict[Connection, None] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def serve(self) -> None:
        """Answer until cancelled, or until the socket is gone; then close everything and remove the socket.

        Raises:
            ControlError: the socket cannot be listened on.
        """
        listener = open_listener(self._path)
        inode = self._path.stat().st_ino
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                server = await loop.create_unix_server(lambda: Connection(self, self._read_owner), sock=listener)
                try:
                    # Not serve_forever(): from Python 3.12 on it waits for the clients when it is cancelled.
                    await self._look_after(inode)
                finally:
                    server.close()
                    for connection in tuple(self._connections):
                        connection.abort()
                    await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next turn
        finally:
            listener.close()
            # Only our own: a successor may already listen at the same path.
            if self._is_there(inode):
                with contextlib.suppress(OSError):
                    self._path.unlink()

    async def _look_after(self, inode: int) -> None:
        """End connections that are idle, and return when somebody else has removed the socket.

        Nobody can connect to it then, and it is to be made anew.
        """
        while self._is_there(inode):
            await asyncio.sleep(LOOK_S)
            for connection in tuple(self._connections):
                if connection.idle_s() > IDLE_S:
                    connection.abort()

    def _is_there(self, inode: int) -> bool:
        try:
            return self._path.stat().st_ino == inode
        except OSError:
            return False

    def admit(self, connection: Connection) -> VarlinkError | None:
        """See `Host.admit`. Root always gets in: the connection that is idle for longest makes room."""
        is_root = connection.uid == 0
        limit = MAX_CLIENTS if is_root else MAX_CLIENTS - RESERVED_CLIENTS
        if len(self._connections) >= limit:
            if not is_root:
                return VarlinkError(TOO_MANY_CLIENTS, limit=limit)
            # Where none is idle, a stranger's before root's own, and the oldest.
            victim = max(self._connections, key=lambda each: (each.idle_s(), each.uid != 0))
            self.dismiss(victim)
            victim.abort()
        self._connections[connection] = None
        return None

    def dismiss(self, connection: Connection) -> None:
        """See `Host.dismiss`."""
        self._connections.pop(connection, None)

    def answer(self, call: Call, uid: int) -> bytes | AsyncIterator[bytes]:
        """See `Host.answer`."""
        return self._methods.answer(call, uid)

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """See `Host.start`."""
        assert self._tasks is not None
        return self._tasks.create_task(work)

    def report(self, call: Call, error: Exception) -> None:
        """See `Host.report`."""
        trace = "".join(traceback.format_exception(error))
        self._log.error("control.failed", method=call.method, error=repr(error), trace=trace)
