"""The port of hellos over real sockets: both families, nothing that is no hello, and no more than can be looked at."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import pytest

from meshwatchd.adapters.hello.port import MOST_A_SECOND, HelloPort
from meshwatchd.model.errors import KernelError
from meshwatchd.wire import short_hello
from meshwatchd.wire.hello import MAGIC
from tests.support.packet_node import free_port


async def _until(predicate):
    async with asyncio.timeout(5):
        while not predicate():  # noqa: ASYNC110  # what is waited for is a list that grows
            await asyncio.sleep(0.005)


def _opened(receive, counters=None):
    return HelloPort(free_port("127.0.0.1"), receive, counters if counters is not None else Counter())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_hello_arrives_with_its_source(address):
    """The answer goes back to where it came from, port and all."""
    heard = []

    async def greet():
        port = _opened(lambda data, source: heard.append((data, source)))
        await port.open()
        port.send(MAGIC + b"1", address)
        await _until(lambda: heard)
        port.close()
        return port

    port = asyncio.run(greet())
    assert [(MAGIC + b"1", (address, port._port))] == heard


def test_a_hello_may_leave_from_another_address_than_the_routes():
    """The kernel would take 127.0.0.1; a mesh whose NAT hides that choice wants its own."""
    heard = []

    async def greet():
        port = _opened(lambda _data, source: heard.append(source))
        port.send_from("127.0.0.9", MAGIC, "127.0.0.1")
        await port.open()
        port.send_from("127.0.0.9", MAGIC, "127.0.0.1")
        await _until(lambda: heard)
        port.close()
        return port

    port = asyncio.run(greet())
    assert [("127.0.0.9", port._port)] == heard
    assert 1 == port._counters["hello-unsent"], "the one before it was open"


def test_what_does_not_begin_like_a_hello_stays_in_the_kernel():
    """A scan of ports wakes nobody."""
    heard = []

    async def scan():
        port = _opened(lambda data, _: heard.append(data))
        await port.open()
        for datagram in (b"", b"MWH", b"GET / HTTP/1.1", b"MWHX1", short_hello.MAGIC + b"1", MAGIC + b"2"):
            port.send(datagram, "127.0.0.1")
        await _until(lambda: len(heard) > 1)
        port.close()

    asyncio.run(scan())
    assert [short_hello.MAGIC + b"1", MAGIC + b"2"] == heard


def test_more_than_can_be_looked_at_in_a_second_is_counted():
    """Whoever floods the port costs a counter, no hashing."""
    heard: list[bytes] = []
    counters: Counter[str] = Counter()

    async def flood():
        port = _opened(lambda data, _: heard.append(data), counters)
        for _ in range(2 * MOST_A_SECOND):
            port._take(MAGIC, ("127.0.0.1", 1))

    asyncio.run(flood())
    # The flood may cross from one second into the next.
    assert 2 * MOST_A_SECOND == len(heard) + counters["hello-over-rate"]
    assert MOST_A_SECOND <= len(heard)
    assert counters["hello-over-rate"]


def test_a_taken_port_is_an_error_with_its_number():
    """Somebody else has it; the message says which."""

    async def collide():
        port = _opened(lambda *_: None)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("", port._port))
            await port.open()

    with pytest.raises(KernelError, match=r"listen on UDP port \d+"):
        asyncio.run(collide())


def test_sending_before_opening_is_counted():
    """Nothing is there to send by."""
    counters: Counter[str] = Counter()
    _opened(lambda *_: None, counters).send(b"x", "127.0.0.1")

    assert 1 == counters["hello-unsent"]
