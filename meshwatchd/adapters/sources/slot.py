"""One source: when it is asked, what it last said, and what was wrong with it the last time."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.settings import SECOND
from meshwatchd.model.sources import Rejection

LARGE_BYTES: Final = 32 * 1024
"""What is longer is parsed in a thread: Kilo's graph of a large mesh takes a good part of a second."""

ABSENT: Final = frozenset((errno.ECONNREFUSED, errno.ENOENT, errno.ENOTDIR))
"""Nobody is there; that is no fault of a program that does not run on this node."""

ENDED_NS: Final = 300 * SECOND
"""An agent that is restarted or updated is back by then."""

Value = TypeVar("Value")


class Slot(Generic[Value]):
    """Asks a source when it is due, and keeps its last good answer.

    Args:
        read: asks it; None where there is nothing.
        parse: checks and translates the answer.

    Attributes:
        value: the last good answer; None before the first, and after there was nothing.
        rejection: why the last attempt gave no new one.
        is_ended: nobody has been there for ENDED_NS, or only a user who is not believed: the value is that of a program
            that is gone.
    """

    def __init__(
        self,
        name: str,
        interval_ns: int,
        read: Callable[[], Awaitable[bytes | None]],
        parse: Callable[[bytes], Value],
    ) -> None:
        self._name, self._interval_ns = name, interval_ns
        self._door = Door(name, "correct it or what writes it; what it said last stays in use")
        self._read, self._parse = read, parse
        self._due_ns = 0
        self._seen = b""
        self.value: Value | None = None
        self.rejection: Rejection | None = None
        self.is_ended = False
        self._gone_since_ns: int | None = None

    async def refresh(self, now: int, *, is_urgent: bool) -> None:
        """Ask, if it is time."""
        if now < self._due_ns and not is_urgent:
            return
        self._due_ns = now + self._interval_ns
        is_gone = False
        try:
            with self._door:
                await self._take(await self._read())
        except DecodeError as error:
            self._seen = b""
            self._reject(error.source, error.reason)
        except KernelError as error:
            is_gone = error.errno in ABSENT or error.errno == errno.EPERM
            if error.errno in ABSENT and self.value is None:
                self.rejection = None
            else:
                self._reject(self._name, f"{error.text}{'' if self.value is None else '; what it last said is kept'}")
        if not is_gone:
            self._gone_since_ns = None
        elif self._gone_since_ns is None:
            self._gone_since_ns = now
        self.is_ended = self._gone_since_ns is not None and now - self._gone_since_ns >= ENDED_NS

    async def _take(self, data: bytes | None) -> None:
        if data is None:
            self.value, self.rejection, self._seen = None, None, b""
            return
        # A digest, because some files hold private keys.
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest != self._seen:
            self.value = self._parse(data) if len(data) <= LARGE_BYTES else await asyncio.to_thread(self._parse, data)
            self._seen = digest
        self.rejection = None

    def _reject(self, source: str, reason: str) -> None:
        self.rejection = Rejection(source=source, reason=reason)
