"""One connection's bounds, with a transport that a test controls."""

from __future__ import annotations

import asyncio

import pytest

from meshwatchd.adapters.control import connection as module
from meshwatchd.adapters.control.connection import MAX_WAITING_CALLS, Connection
from meshwatchd.adapters.control.varlink import VarlinkError, encode_call, encode_reply

CALL = encode_call("a.b.C")


class Wire(asyncio.Transport):
    """A transport that remembers what was done to it."""

    def __init__(self):
        super().__init__({"socket": None})
        self.written = []
        self.reads = True
        self.is_open = True
        self.aborted = asyncio.Event()

    def write(self, data):
        """Remember."""
        self.written.append(data)

    def set_write_buffer_limits(self, high=None, low=None):
        """Nothing is buffered."""

    def pause_reading(self):
        """Remember."""
        self.reads = False

    def resume_reading(self):
        """Remember."""
        self.reads = True

    def is_closing(self):
        """Whether it was closed or aborted."""
        return not self.is_open

    def close(self):
        """Remember."""
        self.is_open = False

    def abort(self):
        """Remember."""
        self.is_open = False
        self.aborted.set()


class Host:
    """A server of one connection."""

    def __init__(self, reply=None, refusal=None):
        self.reply = encode_reply({"x": 1}) if reply is None else reply
        self.refusal = refusal
        self.members = []
        self.tasks = []

    def admit(self, connection):
        """Admit, unless told otherwise."""
        self.members.append(connection)
        return self.refusal

    def dismiss(self, connection):
        """Forget."""
        self.members.remove(connection)

    def answer(self, call, uid):
        """The prepared reply, or one made for this call."""
        return self.reply() if callable(self.reply) else self.reply

    def start(self, work):
        """Run on the loop of the test."""
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]


def connect(host):
    """A connection and its wire."""
    wire, connection = Wire(), Connection(host, lambda _: (0, 0))
    connection.connection_made(wire)
    return wire, connection


def test_a_connection_that_is_not_admitted_is_told_why_and_closed():
    """Before it has asked for anything."""
    wire, _ = connect(Host(refusal=VarlinkError("a.b.Full")))
    assert ([b'{"parameters":{},"error":"a.b.Full"}\0'], True) == (wire.written, wire.is_closing())


def test_nothing_is_answered_while_the_client_does_not_read():
    """What it has asked waits, and it is read no further when that becomes a flood."""

    async def scenario():
        host = Host()
        wire, connection = connect(host)
        connection.pause_writing()
        connection.data_received(CALL * MAX_WAITING_CALLS)
        assert ([], True) == (wire.written, wire.reads)
        connection.data_received(CALL)
        assert not wire.reads
        connection.resume_writing()
        for _ in range(MAX_WAITING_CALLS):
            await asyncio.sleep(0)
        assert (MAX_WAITING_CALLS + 1, True) == (len(wire.written), wire.reads)

    asyncio.run(scenario())


def test_of_a_flood_of_calls_one_is_answered_in_a_turn():
    """One read brings thousands; other clients, and the engine that asks whether the agent lives, come between."""

    async def scenario():
        numbers = iter(range(1000))
        wire, connection = connect(Host(reply=lambda: encode_reply({"n": next(numbers)})))
        connection.data_received(CALL * 1000)
        for number in range(1, 1000):
            assert (number, False) == (len(wire.written), wire.reads)
            await asyncio.sleep(0)
        assert [encode_reply({"n": number}) for number in range(1000)] == wire.written
        assert wire.reads

    asyncio.run(scenario())


def test_a_flood_has_one_turn_whatever_happens_meanwhile():
    """Neither a client that reads again nor one that goes away gets more."""

    async def scenario():
        wire, connection = connect(Host())
        connection.data_received(CALL * 1000)
        connection.pause_writing()
        connection.resume_writing()
        assert 1 == len(wire.written)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert 1 == len(wire.written)

    asyncio.run(scenario())


def test_a_client_that_never_reads_is_cut_off(monkeypatch):
    """After the patience is over."""
    monkeypatch.setattr(module, "STALL_TIMEOUT_S", 0.0)

    async def scenario():
        wire, connection = connect(Host())
        connection.pause_writing()
        await wire.aborted.wait()

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_client_that_reads_again_is_not_cut_off(monkeypatch):
    """The timer ends with the stall."""
    monkeypatch.setattr(module, "STALL_TIMEOUT_S", 0.0)

    async def scenario():
        wire, connection = connect(Host())
        connection.pause_writing()
        connection.resume_writing()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not wire.aborted.is_set()

    asyncio.run(scenario())


def test_replies_come_no_faster_than_the_client_reads():
    """The next one is not even made."""

    async def scenario():
        made = []

        async def replies():
            for number in range(3):
                made.append(number)
                yield encode_reply({"n": number}, continues=True)

        wire, connection = connect(Host(reply=replies))
        connection.pause_writing()
        connection.resume_writing()
        connection.data_received(CALL)
        connection.pause_writing()
        for _ in range(5):
            await asyncio.sleep(0)
        assert ([0], 1) == (made, len(wire.written))
        connection.resume_writing()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [0, 1, 2] == made

    asyncio.run(scenario())


def test_an_error_in_the_middle_of_replies_is_the_last_one():
    """And the next call is answered."""

    async def scenario():
        async def replies():
            yield encode_reply({"n": 1}, continues=True)
            raise VarlinkError("a.b.Late")

        wire, connection = connect(Host(reply=replies))
        connection.data_received(CALL)
        for _ in range(5):
            await asyncio.sleep(0)
        assert b'{"parameters":{},"error":"a.b.Late"}\0' == wire.written[-1]

    asyncio.run(scenario())


def test_what_is_on_its_way_is_given_up_with_the_connection():
    """A follower that has gone waits for no event."""

    async def scenario():
        async def replies():
            await asyncio.Event().wait()
            yield b""

        host = Host(reply=replies)
        _, connection = connect(host)
        connection.data_received(CALL)
        connection.connection_lost(None)
        with pytest.raises(asyncio.CancelledError):
            await host.tasks[0]
        assert [] == host.members

    asyncio.run(scenario())
