"""Ending in good order: SIGTERM unwinds like an exception, and cleaning up is not interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn, Self

ENDINGS = frozenset({signal.SIGINT, signal.SIGTERM})


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, as SIGINT already is KeyboardInterrupt, so that `with` blocks clean up.

    Only where the signal has its default meaning: a program with a handler of its own keeps it. Signal
    handlers can be set in the main thread only; elsewhere this does nothing.
    """
    is_ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if is_ours:
        signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        if is_ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def signals_held() -> Iterator[None]:
    """Keep SIGINT and SIGTERM pending; they are delivered when the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interruption:
    """Remembers SIGINT: a KeyboardInterrupt that happens to be raised inside a finalizer is printed and lost.

    Where finalizers run often (each ended subprocess has one) the program asks now and then. In the main thread only.
    """

    def __init__(self) -> None:
        self._is_asked_for = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Say it again.

        Raises:
            KeyboardInterrupt: there was a SIGINT.
        """
        if self._is_asked_for:
            raise KeyboardInterrupt

    def _interrupted(self, number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        self._is_asked_for = True
        raise KeyboardInterrupt


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(128 + number)
