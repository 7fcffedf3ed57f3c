"""Many addresses are asked at once, and those that answer are told."""

from __future__ import annotations

import asyncio
import socket
from typing import ClassVar

import pytest

from meshwatchd.adapters.echo_round import who_answers
from meshwatchd.model.errors import KernelError

NEAR, FAR, GONE, LATE = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"


class Asked:
    """An Echoes of which only one end is real: what it hears is what the test says."""

    made: ClassVar[list[tuple[str, str]]] = []
    open = 0

    def __init__(self, address, *, source=""):
        Asked.made.append((address, source))
        Asked.open += 1
        self._address = address
        self.opened, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send(self):
        """Answered by some; of one the kernel says that there is no way."""
        if self._address == GONE:
            raise OSError(101, "Network is unreachable")
        if self._address == NEAR:
            self._far.send(b"another's")
            self._far.send(b"answer")

    def is_answer(self, packet):
        """By what is in it."""
        return packet == b"answer"

    def close(self):
        """Both ends."""
        Asked.open -= 1
        self.opened.close()
        self._far.close()


@pytest.fixture(autouse=True)
def nobody_asked():
    """A fresh count."""
    Asked.made, Asked.open = [], 0


def test_those_that_answer_in_time_are_told():
    """What is no answer is passed over; what does not leave is no answer; each socket is closed."""
    asked = ((NEAR, ""), (FAR, "10.9.9.9"), (GONE, ""))

    assert {NEAR} == asyncio.run(who_answers(asked, timeout_s=0.05, make=Asked))
    assert list(asked) == Asked.made
    assert 0 == Asked.open
    assert frozenset() == asyncio.run(who_answers((), make=Asked))


def test_an_answer_that_waits_is_heard_however_late_this_process_is():
    """A busy processor is no silence."""

    class Late(Asked):
        """Answered, and looked at when the time is over."""

        def send(self):
            """Two packets wait."""
            self._far.send(b"another's")
            self._far.send(b"answer")

    assert {LATE} == asyncio.run(who_answers(((LATE, ""),), timeout_s=-1, make=Late))


def test_where_no_socket_may_be_opened_that_is_told():
    """Once, to whoever asks."""

    def refuse(_address, *, source):
        raise KernelError("send an ICMP echo", 1, f"not allowed {source}")

    with pytest.raises(KernelError):
        asyncio.run(who_answers(((NEAR, ""),), make=refuse))
