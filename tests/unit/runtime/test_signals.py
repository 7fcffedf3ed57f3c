"""A signal is something to read."""

from __future__ import annotations

import os
import select
import signal

from meshwatchd.runtime.signals import SignalPipe


def test_signals_are_read_in_order_and_handlers_restored():
    """Nothing is interrupted, and closing leaves no trace."""
    before = signal.getsignal(signal.SIGHUP)
    pipe = SignalPipe((signal.SIGHUP, signal.SIGUSR1))
    assert [] == pipe.take()

    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGUSR1)
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLIN)

    assert poll.poll(2000)
    assert [signal.SIGHUP, signal.SIGUSR1] == pipe.take()
    pipe.close()
    assert before == signal.getsignal(signal.SIGHUP)
    assert -1 == signal.set_wakeup_fd(-1)
