"""One client of the control socket: calls in, replies out, in order and within bounds."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Protocol

from meshwatchd.adapters.control.varlink import (
    INVALID_PARAMETER,
    MAX_MESSAGE_BYTES,
    Call,
    Splitter,
    VarlinkError,
    decode_call,
    encode_error,
)
from meshwatchd.model.errors import DecodeError

MAX_WAITING_CALLS = 4
"""Calls a client may send ahead of the replies; then its connection is read no further."""
MAX_UNSENT_BYTES = 256 * 1024
STALL_TIMEOUT_S = 30.0
"""How long a client may leave its replies unread before its connection is cut."""


class Host(Protocol):
    """What a connection needs of its server."""

    def admit(self, connection: Connection) -> VarlinkError | None:
        """Take a connection in, or say why not."""

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection."""

    def answer(self, call: Call, uid: int) -> bytes | AsyncIterator[bytes]:
        """The reply to a call, or its replies one after the other."""

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run something that waits."""

    def report(self, call: Call, error: Exception) -> None:
        """Tell of a call that this daemon failed to answer."""


class Connection(asyncio.Protocol):
    """The server's end of one connection.

    Attributes:
        uid: that user.
    """

    def __init__(self, host: Host, read_owner: Callable[[socket.socket], tuple[int, int]]) -> None:
        self._host = host
        self._read_owner = read_owner
        self._splitter = Splitter(MAX_MESSAGE_BYTES)
        self._waiting: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._next_turn: asyncio.Handle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._stall: asyncio.TimerHandle | None = None
        self._used_s = time.monotonic()
        self.uid = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's call at the start."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        _, self.uid = self._read_owner(transport.get_extra_info("socket"))
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        if (refusal := self._host.admit(self)) is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call at the end; whatever was on its way is given up."""
        del exc
        self._host.dismiss(self)
        self._waiting.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
        if self._stall is not None:
            self._stall.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Asyncio's call with bytes of the client."""
        try:
            self._waiting += self._splitter.feed(data)
        except DecodeError:
            self._refuse(VarlinkError(INVALID_PARAMETER, parameter="message"))
            return
        self._proceed()

    def pause_writing(self) -> None:
        """Asyncio's call when the client leaves too much unread."""
        self._writable.clear()
        self._stall = asyncio.get_running_loop().call_later(STALL_TIMEOUT_S, self.abort)

    def resume_writing(self) -> None:
        """Asyncio's call when the client reads again."""
        self._writable.set()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self._proceed()

    def idle_s(self) -> float:
        """Seconds since the last reply; 0 while a call is being answered, as a follower's always is."""
        return 0.0 if self._task is not None else time.monotonic() - self._used_s

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _refuse(self, error: VarlinkError) -> None:
        """Say why, and hang up: after a message that is none there is nothing to go on with."""
        self._waiting.clear()
        self._transport.write(encode_error(error))
        self._transport.close()

    def _proceed(self) -> None:
        """Answer one of the calls that wait, and the others in later turns of the loop.

        One read of the socket brings thousands of calls, and an answer takes milliseconds (`Explain`). All other
        clients have their turn between two of them, and so has the engine, which kills an agent that does not answer.
        """
        if self._next_turn is not None:
            return
        if self._is_next_due():
            self._answer(self._waiting.popleft())
        if self._is_next_due():
            self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)
        if self._transport.is_closing():
            return
        # A connection that is not read does not tell its end either, so reading stops for a flood only, and until the
        # next turn: a client that has sent its last calls and closed its end gets all answers before that is read.
        if self._next_turn is not None or len(self._waiting) > MAX_WAITING_CALLS:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _take_turn(self) -> None:
        self._next_turn = None
        self._proceed()

    def _is_next_due(self) -> bool:
        """Whether there is a call that nothing has to be waited for."""
        return bool(self._waiting) and self._task is None and self._writable.is_set()

    def _answer(self, message: bytes) -> None:
        try:
            call = decode_call(message)
        except DecodeError:
            self._refuse(VarlinkError(INVALID_PARAMETER, parameter="message"))
            return
        try:
            reply = self._host.answer(call, self.uid)
        except VarlinkError as error:
            self._send(call, encode_error(error))
            return
        except Exception as error:  # noqa: BLE001  # an error of this daemon's own must end no more than one connection
            self._fail(call, error)
            return
        if isinstance(reply, bytes):
            self._send(call, reply)
        else:
            self._task = self._host.start(self._relay(call, reply))

    async def _relay(self, call: Call, replies: AsyncIterator[bytes]) -> None:
        """Send replies as they come, no faster than the client reads."""
        try:
            async for reply in replies:
                self._send(call, reply)
                await self._writable.wait()
        except VarlinkError as error:
            self._send(call, encode_error(error))
        except Exception as error:  # noqa: BLE001  # the task is one of a group: the agent would end with it
            self._fail(call, error)
            return
        self._task = None
        self._proceed()

    def _fail(self, call: Call, error: Exception) -> None:
        """Give up the connection: what it has been told may be half an answer."""
        self._waiting.clear()
        self._host.report(call, error)
        self.abort()

    def _send(self, call: Call, reply: bytes) -> None:
        self._used_s = time.monotonic()
        if not call.oneway and not self._transport.is_closing():
            self._transport.write(reply)
