"""Signals as something readable: the interpreter's handler writes their numbers to a pipe."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Final

_READ_BYTES: Final = 64


class SignalPipe:
    """Turns the given signals into bytes on a descriptor, until closed."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous = {number: signal.signal(number, _ignore) for number in numbers}
        self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Readable when a signal came."""
        return self._read_fd

    def take(self) -> list[signal.Signals]:
        """The signals that came since the last call."""
        try:
            data = os.read(self._read_fd, _READ_BYTES)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in data]

    def close(self) -> None:
        """Restore the earlier handlers."""
        signal.set_wakeup_fd(self._previous_fd)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_fd)
        os.close(self._write_fd)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler must exist for the wake-up descriptor to be written to."""
