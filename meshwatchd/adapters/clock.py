"""The engine's clock: a timer that is on time.

epoll's own timeout counts in milliseconds and is late by half of one; a timerfd set to an absolute instant
is late by 30 us (reference measurements in DESIGN.md). Python offers timerfd from 3.13 on, so libc is
called directly.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Final

_TFD_NONBLOCK: Final = os.O_NONBLOCK
_TFD_CLOEXEC: Final = os.O_CLOEXEC
_TFD_TIMER_ABSTIME: Final = 1
_SECOND_NS: Final = 1_000_000_000

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    """struct timespec of 64-bit Linux."""

    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))


class _Itimerspec(ctypes.Structure):
    """struct itimerspec: repetition, first expiry."""

    _fields_ = (("interval", _Timespec), ("value", _Timespec))


monotonic_ns: Final = time.monotonic_ns
"""CLOCK_MONOTONIC in nanoseconds: the `now` of every event. The function itself: it is asked five times a probe."""


class Timer:
    """One absolute timer as a file descriptor that becomes readable when it is due.

    It stays readable until it is armed again, so a loop that was woken by it and is not done yet comes
    round at once; arming also clears it, which saves reading it.
    """

    def __init__(self) -> None:
        self._fd: int = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Itimerspec()
        self._instant = self._spec.value
        self._pointer = ctypes.byref(self._spec)
        self._settime = _LIBC.timerfd_settime
        self._due_ns: int | None = None

    def fileno(self) -> int:
        """The descriptor, for epoll."""
        return self._fd

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._fd)

    def arm(self, due_ns: int | None) -> None:
        """Become readable at this instant (CLOCK_MONOTONIC, nanoseconds); None means never."""
        if due_ns == self._due_ns:
            return
        self._due_ns = due_ns
        # All zero would disarm the timer: an instant at or before the start of the clock is due at once.
        instant_ns = 0 if due_ns is None else max(1, due_ns)
        self._instant.seconds, self._instant.nanoseconds = divmod(instant_ns, _SECOND_NS)
        if self._settime(self._fd, _TFD_TIMER_ABSTIME, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def is_due_by(self, instant_ns: int) -> bool:
        """Whether it becomes readable no later than that."""
        return self._due_ns is not None and self._due_ns <= instant_ns

    def lateness_ns(self, now_ns: int) -> int:
        """How long ago it was due; 0 while it is not."""
        return 0 if self._due_ns is None else max(0, now_ns - self._due_ns)
