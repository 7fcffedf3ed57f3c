"""A control server on a real socket, run by a thread, with a backend that a test fills."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from meshwatchd.adapters.control.server import ControlServer
from meshwatchd.adapters.storage.event_store import EventStore
from meshwatchd.model.bisection import BisectResult
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.outputs import ReplyOperator
from meshwatchd.model.status import Status
from tests.support.example_bisection import RESULT


class Backend:
    """What an agent would know; `asked` is what operators wanted."""

    def __init__(self, status: Status | None = None) -> None:
        self.current = status
        self.refreshed = 0
        self.seen: LocalView | None = None
        self.known: tuple[NodeStatus, ...] = ()
        self.store = EventStore()
        self.asked: list[tuple[OperatorVerb, str, int | None, bool]] = []
        self.requests: list[OperatorRequested] = []
        self.bisected: list[str] = []
        self.bisection: BisectResult | MeshwatchError = RESULT
        self.reply = ReplyOperator(request=1, is_accepted=True, text="moves", operations=("ip rule add pref 5460",))

    def status(self) -> Status | None:
        """The status that was put in."""
        return self.current

    async def refresh(self) -> None:
        """Count who wants the picture of this moment."""
        self.refreshed += 1

    def view(self) -> LocalView | None:
        """The view that was put in."""
        return self.seen

    def nodes(self) -> tuple[NodeStatus, ...]:
        """Those that were put in."""
        return self.known

    def forget(self, node: str) -> bool:
        """As the agent; it remembers b1 alone."""
        return node == "b1"

    async def bisect(self, peer: str) -> BisectResult:
        """Remember who was asked about and give the prepared result, or the prepared failure."""
        self.bisected.append(peer)
        if isinstance(self.bisection, MeshwatchError):
            raise self.bisection
        return self.bisection

    def events(self) -> EventStore:
        """The store that was filled."""
        return self.store

    async def operate(self, request: OperatorRequested) -> ReplyOperator:
        """Remember the request and give the prepared reply."""
        self.requests.append(request)
        self.asked.append((request.verb, request.location, request.to_rank, request.is_dry_run))
        return self.reply


class Failures:
    """The server's log."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object, object]] = []

    def error(self, event: str, **fields: object) -> None:
        """Take down which call failed, and why."""
        self.told.append((event, fields["method"], fields["error"]))


class Room:
    """A running server; clients that connect appear to be of `uid`."""

    def __init__(self, path: Path, backend: Backend, uid: int) -> None:
        self.path = path
        self.backend = backend
        self.uid = uid
        self.failures = Failures()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Wait until the server listens."""
        self._thread.start()
        assert self._listening.wait(10)

    def stop(self) -> None:
        """End the server and its thread."""
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10)

    def append(self, line: dict[str, object]) -> None:
        """Add an event from outside the loop."""
        self._loop.call_soon_threadsafe(self.backend.store.append, line)

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = ControlServer(self.path, self.backend, self.failures, read_owner=lambda _: (0, self.uid))
        self._task = asyncio.current_task()
        # The server binds before it first waits, so the next turn of the loop finds it listening.
        self._loop.call_soon(lambda: self._loop.call_soon(self._listening.set))
        await server.serve()


@contextlib.contextmanager
def control_room(path: Path, backend: Backend, *, uid: int = 0) -> Iterator[Room]:
    """Serve until the block ends; clients appear to be of the given user."""
    room = Room(path, backend, uid)
    room.start()
    try:
        yield room
    finally:
        room.stop()
