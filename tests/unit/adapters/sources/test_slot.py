"""A source is asked when it is due, and its last good word stays."""

import asyncio
import errno
import threading

import pytest

from meshwatchd.adapters.sources.slot import ENDED_NS, LARGE_BYTES, Slot
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.sources import Rejection


class Source:
    """Says what it is told to say; what is an exception is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.parsed = []
        self.slot = Slot("kilo graph", 10, self.read, self.parse)

    async def read(self):
        """The next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def parse(self, data):
        """Text, but for what is bad; notes where it runs."""
        self.parsed.append((data[:9], threading.current_thread() is threading.main_thread()))
        if data == b"bad":
            raise DecodeError("kilo graph", "it is bad")
        return data.decode()

    def refresh(self, now, *, is_urgent=False):
        """Ask at that time; the slot's value and rejection."""
        asyncio.run(self.slot.refresh(now, is_urgent=is_urgent))
        return self.slot.value, self.slot.rejection


def test_it_is_asked_when_it_is_due():
    """Or when something has changed."""
    source = Source(b"one", b"two", b"three")

    assert ["one", "one", "two", "three"] == [
        source.refresh(now, is_urgent=is_urgent)[0]
        for now, is_urgent in ((0, False), (9, False), (10, False), (11, True))
    ]


def test_what_is_malformed_is_rejected_and_the_last_good_value_stays():
    """Until a good one comes, even the same one."""
    source = Source(b"good", b"bad", b"good")
    rejection = Rejection(source="kilo graph", reason="it is bad")

    assert [("good", None), ("good", rejection), ("good", None)] == [source.refresh(now) for now in (0, 10, 20)]


def test_an_agent_that_falls_silent_is_told_and_its_last_word_stays():
    """One that never was there is no news."""
    refused = KernelError("ask kilo graph", errno.ECONNREFUSED, "Connection refused")
    source = Source(refused, b"good", refused)

    assert (None, None) == source.refresh(0)
    source.refresh(10)
    value, rejection = source.refresh(20)
    assert "good" == value
    assert Rejection(source="kilo graph", reason="Connection refused; what it last said is kept") == rejection


@pytest.mark.parametrize("code", [errno.ECONNREFUSED, errno.EPERM])
def test_a_source_that_is_gone_for_long_has_ended(code):
    """Nobody is there, or a user whose word does not count; one that comes back begins anew."""
    gone = KernelError("ask kilo graph", code, "Connection refused")
    source = Source(b"good", gone, gone, b"good", gone, gone)

    ended = []
    for now in (0, 10, 10 + ENDED_NS, 20 + ENDED_NS, 30 + ENDED_NS, 40 + ENDED_NS):
        source.refresh(now)
        ended.append(source.slot.is_ended)
    assert [False, False, True, False, False, False] == ended


def test_a_source_that_hangs_has_not_ended():
    """Its program is there."""
    hangs = KernelError("ask kilo graph", errno.ETIMEDOUT, "no answer within 2 s")
    source = Source(b"good", hangs, hangs)

    for now in (0, 10, 10 + ENDED_NS):
        source.refresh(now)
    assert not source.slot.is_ended


def test_who_is_there_and_does_not_answer_is_told_at_once():
    """A time-out is not the absence of a program."""
    source = Source(KernelError("ask kilo graph", errno.ETIMEDOUT, "no answer within 2 s"))

    assert (None, Rejection(source="kilo graph", reason="no answer within 2 s")) == source.refresh(0)


def test_a_file_that_is_gone_is_gone():
    """Its program has removed it."""
    source = Source(b"good", None)

    source.refresh(0)
    assert (None, None) == source.refresh(10)


def test_the_same_answer_is_not_parsed_again():
    """Most are."""
    source = Source(b"same", b"same", b"other")

    for now in (0, 10, 20):
        source.refresh(now)
    assert [b"same", b"other"] == [data for data, _ in source.parsed]


@pytest.mark.parametrize(("size", "is_here"), [(LARGE_BYTES, True), (LARGE_BYTES + 1, False)])
def test_long_answers_are_parsed_elsewhere(size, is_here):
    """The agent has to say each second that it lives."""
    source = Source(b"x" * size)

    source.refresh(0)
    assert [is_here] == [is_main for _, is_main in source.parsed]
