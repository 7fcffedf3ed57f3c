"""Questions and answers over loopback: whose address an answer comes from, and what counts as one."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import closing

import pytest

from meshwatchd.adapters import way_socket
from meshwatchd.model.errors import KernelError


def _port(opened: socket.socket) -> int:
    return int(opened.getsockname()[1])


def _ask(port, **changes):
    words = {"source": "127.0.0.1", "to": ("127.0.0.2", port), "timeout_s": 0.5, "is_answer": lambda _: True}
    return way_socket.ask(b"question", **{**words, **changes})


def test_an_answer_comes_from_the_address_that_was_asked():
    """Of several that a host has: who asks one of them believes no other."""

    async def scenario():
        loop, senders = asyncio.get_running_loop(), []
        with closing(way_socket.listen(0)) as opened:

            def reply():
                asked = way_socket.receive(opened)
                assert asked is not None
                senders.append(asked.sender[0])
                way_socket.answer(opened, asked, asked.datagram[::-1])

            loop.add_reader(opened, reply)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asker:
                asker.bind(("127.0.0.3", 0))
                asker.connect(("127.0.0.2", _port(opened)))  # drops what comes from any other address
                asker.send(b"abc")
                assert b"cba" == await loop.sock_recv(asker, 100)
            assert b"noitseuq" == await _ask(_port(opened))
            loop.remove_reader(opened)
        assert ["127.0.0.3", "127.0.0.1"] == senders

    asyncio.run(scenario())


def test_silence_and_foreign_answers_are_none():
    """After the time is over, without an exception."""

    async def scenario():
        loop = asyncio.get_running_loop()
        with closing(way_socket.listen(0)) as opened:
            assert await _ask(_port(opened), timeout_s=0.05) is None

            def reply():
                asked = way_socket.receive(opened)
                if asked is not None:
                    way_socket.answer(opened, asked, b"noise")

            loop.add_reader(opened, reply)
            assert await _ask(_port(opened), timeout_s=0.05, is_answer=lambda each: each == b"answer") is None
            loop.remove_reader(opened)

    asyncio.run(scenario())


def test_where_nothing_can_leave_there_is_no_answer():
    """An address of this node's that is gone, a network that is unreachable."""
    assert asyncio.run(_ask(9, source="192.0.2.7")) is None


def test_an_answer_that_a_busy_process_reads_late_counts():
    """The time is over and the datagram is there."""
    with closing(way_socket.listen(0)) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"noise", ("127.0.0.1", _port(one)))
        other.sendto(b"answer", ("127.0.0.1", _port(one)))
        assert b"answer" == way_socket._waiting(one, lambda each: each == b"answer")
        assert way_socket._waiting(one, lambda _: True) is None


def test_somebody_who_sends_without_end_stops_nothing_else():
    """Each datagram that is no answer gives others their turn, and after the time is over so many are looked at."""
    turns, looked_at = [0], list[int]()

    def is_answer(_: bytes) -> bool:
        looked_at.append(turns[0])
        return False

    async def count():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def scenario():
        loop = asyncio.get_running_loop()
        with closing(way_socket.listen(0)) as opened:

            def flood():
                asked = way_socket.receive(opened)
                assert asked is not None
                for _ in range(50):
                    way_socket.answer(opened, asked, b"noise")

            loop.add_reader(opened, flood)
            async with asyncio.TaskGroup() as group:
                counting = group.create_task(count())
                await _ask(_port(opened), timeout_s=0.1, is_answer=is_answer)
                counting.cancel()
            loop.remove_reader(opened)

    asyncio.run(scenario())
    assert len(looked_at) > 20
    assert len(looked_at) == len(set(looked_at))

    looked_at.clear()
    with closing(way_socket.listen(0)) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(2 * way_socket.MOST_WAITING):
            other.sendto(b"noise", ("127.0.0.1", _port(one)))
        assert way_socket._waiting(one, is_answer) is None
    assert way_socket.MOST_WAITING == len(looked_at)


def test_a_port_that_is_taken_is_told():
    """Another daemon has it."""
    with closing(way_socket.listen(0)) as opened, pytest.raises(KernelError, match="listen on UDP port"):
        way_socket.listen(_port(opened))


def test_where_no_more_files_may_be_opened_nothing_is_asked_and_the_port_is_told():
    """A leak elsewhere: the agent goes on, and asks again in the next round."""

    async def scenario():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            assert await _ask(9) is None
            with pytest.raises(KernelError, match="Too many open files"):
                way_socket.listen(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    asyncio.run(scenario())


def test_fragments_are_allowed_as_of_outer_packets():
    """Linux sets DF on UDP by default."""
    with closing(way_socket.listen(0)) as opened:
        assert 0 == opened.getsockopt(socket.IPPROTO_IP, 10)
        assert way_socket.receive(opened) is None
