"""The link between engine and agent: typed frames over a pair of SOCK_SEQPACKET sockets.

A frame is one msgpack message. The kernel needs contiguous memory for a packet of a local socket, so a
frame travels in pieces, each one packet:

    offset  bytes  content
    0       1      0 = last (or only) piece of its frame, 1 = more follow
    1       n      up to PIECE_BYTES of the frame

Order is kept and packets have edges, so nothing else is needed. Sending never blocks: what the socket does
not take waits in a bounded queue. A peer that stops reading costs old facts, counted, but never time. The
queue outlives the socket: what the engine says while its agent is dead reaches the next one.
"""

from __future__ import annotations

import socket
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec

from meshwatchd.model.decoding import Door, decode_frame
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.frames import MAX_FRAME_BYTES, FactFrame, StatusFrame, ToAgent, ToEngine

PIECE_BYTES: Final = 32 * 1024
"""Eight pages and a bit: memory the kernel always finds; a frame of 4 MiB is 128 pieces."""
QUEUE_BYTES: Final = 2 * MAX_FRAME_BYTES
SOCKET_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Takes a burst of some thousand facts, or a large snapshot, without the other side's help."""
RECEIVE_LIMIT: Final = 256
"""Pieces taken in one turn: at most 8 MiB, a few milliseconds."""

_SO_SNDBUFFORCE: Final = 32
_DOOR: Final = Door("frame", "engine and agent are of different versions: systemctl restart meshwatchd")
_LAST: Final = b"\0"
_MORE: Final = b"\1"

Sent = TypeVar("Sent", bound=msgspec.Struct)
Received = TypeVar("Received")


class LinkClosedError(Exception):
    """The process at the other end is gone."""


class Outbox:
    """Encoded frames that wait for the socket, oldest first.

    A status is worth nothing once there is a newer one: at most one waits, behind everything else. When the
    rest grows over its limit the oldest facts are dropped first; commands and answers are kept.
    """

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._frames: deque[tuple[bytes, bool]] = deque()
        self._status: bytes | None = None
        self._bytes = 0
        self._offset = 0

    def put(self, frame: msgspec.Struct) -> None:
        """Add a frame; too large a one is counted and dropped."""
        data = _ENCODER.encode(frame)
        if len(data) > MAX_FRAME_BYTES:
            self._counters["link-frames-too-large"] += 1
        elif isinstance(frame, StatusFrame):
            self._counters["link-status-superseded"] += self._status is not None
            self._status = data
        else:
            self._frames.append((data, isinstance(frame, FactFrame)))
            self._bytes += len(data)
            if self._bytes > QUEUE_BYTES:
                self._drop_oldest_fact()

    def piece(self) -> bytes | None:
        """The next piece to send, or None when nothing waits."""
        if not self._frames:
            if self._status is None:
                return None
            # A status that has begun to travel is a frame like any other.
            self._frames.append((self._status, False))
            self._bytes += len(self._status)
            self._status = None
        data, _is_fact = self._frames[0]
        end = self._offset + PIECE_BYTES
        return (_LAST if end >= len(data) else _MORE) + data[self._offset : end]

    def advance(self) -> None:
        """The piece has been sent."""
        self._offset += PIECE_BYTES
        data, _is_fact = self._frames[0]
        if self._offset >= len(data):
            self._frames.popleft()
            self._bytes -= len(data)
            self._offset = 0

    def rewind(self) -> None:
        """The receiver is gone: its successor needs the frame under way from the beginning."""
        self._offset = 0

    def _drop_oldest_fact(self) -> None:
        # The frame under way must be finished, or the receiver would join two halves.
        for position in range(1 if self._offset else 0, len(self._frames)):
            data, is_fact = self._frames[position]
            if is_fact:
                del self._frames[position]
                self._bytes -= len(data)
                self._counters["link-facts-dropped"] += 1
                return


class LinkEnd(Generic[Sent, Received]):
    """One end of the link, for use in a loop that watches `fileno()`.

    Args:
        end: a socket of `pair()`; made non-blocking here.
        outbox: what an earlier link could not send.
    """

    def __init__(
        self,
        end: socket.socket,
        decoder: msgspec.msgpack.Decoder[Received],
        counters: Counter[str],
        outbox: Outbox | None = None,
    ) -> None:
        end.setblocking(False)
        self._socket, self._decoder, self._counters = end, decoder, counters
        self._outbox = outbox or Outbox(counters)
        self._outbox.rewind()
        self._partial: list[bytes] = []
        self._partial_bytes = 0

    def fileno(self) -> int:
        """The descriptor to watch: readable when frames came, writable when `wants_write`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket, which tells the other side that this one is gone."""
        self._socket.close()

    @property
    def wants_write(self) -> bool:
        """Whether something waits for the socket; call `flush` when it is writable."""
        return self._outbox.piece() is not None

    def send(self, frame: Sent) -> None:
        """Send a frame, or queue it; never blocks and never fails. A dead peer shows in `receive`."""
        self._outbox.put(frame)
        self.flush()

    def flush(self) -> None:
        """Hand to the socket what waits, as far as it takes it."""
        while (piece := self._outbox.piece()) is not None:
            try:
                self._socket.send(piece, socket.MSG_NOSIGNAL)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                return
            except OSError:
                # ENOBUFS or ENOMEM: the kernel is short of memory at this moment.
                self._counters["link-send-failed"] += 1
                return
            self._outbox.advance()

    def receive(self) -> list[Received]:
        """The frames that are complete.

        Raises:
            LinkClosedError: the other end is closed and everything it sent has been received.
        """
        frames: list[Received] = []
        for _ in range(RECEIVE_LIMIT):
            try:
                piece = self._socket.recv(1 + PIECE_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:
                piece = b""
            if not piece:
                if frames:
                    break
                raise LinkClosedError
            frames.extend(self._take(piece))
        return frames

    def _take(self, piece: bytes) -> Iterable[Received]:
        self._partial_bytes += len(piece) - 1
        if self._partial_bytes <= MAX_FRAME_BYTES:
            self._partial.append(piece[1:])
        if piece[:1] == _MORE:
            return ()
        pieces, size = self._partial, self._partial_bytes
        self._partial, self._partial_bytes = [], 0
        if size > MAX_FRAME_BYTES:
            self._counters["link-frames-too-large"] += 1
            return ()
        try:
            return (decode_frame(b"".join(pieces), self._decoder, _DOOR),)
        except DecodeError:
            return ()


EngineEnd = LinkEnd[ToAgent, ToEngine]
AgentEnd = LinkEnd[ToEngine, ToAgent]

_ENCODER: Final = msgspec.msgpack.Encoder()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets with buffers for a large frame; the second is for the agent."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        try:
            end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SOCKET_BUFFER_BYTES)
        except PermissionError:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    return ends


def engine_end(end: socket.socket, counters: Counter[str], outbox: Outbox | None = None) -> EngineEnd:
    """The engine's end: sends ToAgent, receives ToEngine."""
    return LinkEnd(end, msgspec.msgpack.Decoder(ToEngine), counters, outbox)


def agent_end(fd: int, counters: Counter[str]) -> AgentEnd:
    """The agent's end, from the descriptor number it was given."""
    return LinkEnd(socket.socket(fileno=fd), msgspec.msgpack.Decoder(ToAgent), counters)
