"""The timer is due when it says, until it is armed again."""

from __future__ import annotations

import select

import pytest

from meshwatchd.adapters.clock import Timer, monotonic_ns


@pytest.fixture
def timer():
    """A timer that is closed afterwards."""
    made = Timer()
    yield made
    made.close()


def _is_readable(timer: Timer, wait_ms: int = 0) -> bool:
    poll = select.poll()
    poll.register(timer.fileno(), select.POLLIN)
    return bool(poll.poll(wait_ms))


def test_timer_is_due_at_its_instant_and_not_before(timer):
    """Readable within the wait, and by then the instant has passed."""
    due_ns = monotonic_ns() + 20_000_000
    timer.arm(due_ns)

    assert not _is_readable(timer)
    assert _is_readable(timer, 2000)
    assert monotonic_ns() >= due_ns
    assert timer.lateness_ns(due_ns + 5) == 5


def test_past_instant_is_due_at_once(timer):
    """Even the instant 0, which the system call would take for "never"."""
    timer.arm(0)

    assert _is_readable(timer, 2000)


def test_timer_stays_due_until_it_is_armed_again(timer):
    """A loop that is not done comes round; one that armed it anew sleeps."""
    timer.arm(1)
    assert _is_readable(timer, 2000)
    assert _is_readable(timer)

    timer.arm(monotonic_ns() + 3_600_000_000_000)
    assert not _is_readable(timer)


def test_disarmed_timer_is_never_due_and_never_late(timer):
    """None takes back what was armed."""
    timer.arm(1)
    timer.arm(None)

    assert not _is_readable(timer, 20)
    assert timer.lateness_ns(monotonic_ns()) == 0
