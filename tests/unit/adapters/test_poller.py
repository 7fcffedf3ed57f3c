"""Every ready descriptor reaches its reader."""

from __future__ import annotations

import os

import pytest

from meshwatchd.adapters.poller import Poller


@pytest.fixture
def pipes():
    """Two pipes: ((read, write), (read, write))."""
    made = (os.pipe(), os.pipe())
    yield made
    for pair in made:
        for fd in pair:
            os.close(fd)


def test_readers_of_ready_descriptors_are_called(pipes):
    """And only those."""
    (first, first_in), (second, _second_in) = pipes
    poller, called = Poller(), list[int]()
    poller.add(first, called.append)
    poller.add(second, called.append)
    os.write(first_in, b"x")

    poller.dispatch(poller.wait())
    poller.close()

    assert [first] == called


def test_reader_that_was_forgotten_meanwhile_is_skipped(pipes):
    """One reader may close another's descriptor in the same turn."""
    (first, first_in), (second, second_in) = pipes
    poller, called = Poller(), list[int]()

    def close_both(fd: int) -> None:
        called.append(fd)
        poller.forget(first)
        poller.forget(second)

    poller.add(first, close_both)
    poller.add(second, close_both)
    os.write(first_in, b"x")
    os.write(second_in, b"x")

    poller.dispatch(poller.wait())
    poller.close()

    assert 1 == len(called)


def test_writability_is_watched_when_wanted(pipes):
    """A queue that waits for room is told when there is some."""
    _first, (_second, second_in) = pipes
    poller, called = Poller(), list[int]()
    poller.add(second_in, called.append)
    poller.set_writing(second_in, is_wanted=True)

    poller.dispatch(poller.wait())
    poller.close()

    assert [second_in] == called
