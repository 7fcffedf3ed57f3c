"""Full segments over real connections on loopback: what is proven by acknowledgements, and what is not."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from meshwatchd.adapters import bulk
from tests.support.deaf_listener import deaf_listener

DEADLINE_S = 5.0


@contextmanager
def _connected(listening: AbstractContextManager[socket.socket]) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A prepared client, and the other end of its connection, which reads what its owner reads."""
    with listening as listener, socket.socket() as client:
        bulk.prepare(client)
        client.connect(listener.getsockname())
        client.setblocking(False)
        served, _ = listener.accept()
        with served:
            served.settimeout(DEADLINE_S)
            yield client, served


def _wait_readable(client):
    client.settimeout(DEADLINE_S)
    client.recv(1, socket.MSG_PEEK)
    client.setblocking(False)


def test_what_the_other_kernel_acknowledges_is_enough():
    """The service has read nothing; its kernel has everything, and the end comes in good order."""
    with _connected(socket.create_server(("127.0.0.1", 0))) as (client, served):
        assert bulk.carry_on(client)
        client.close()
        received = b"".join(iter(lambda: served.recv(65_536), b""))

        assert bulk.ENOUGH_BYTES <= len(received)
        assert {0} == set(received)


def test_full_segments_that_are_lost_on_the_way_are_no_proof():
    """The handshake has passed, and the socket takes the bytes; it does not keep them when it is closed.

    Else the kernel repeats them for a quarter of an hour, question by question.
    """
    with _connected(deaf_listener()) as (client, served):
        assert not bulk.carry_on(client)
        assert not bulk.carry_on(client)
        assert struct.pack("ii", 1, 0) == client.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
        client.close()

        with pytest.raises(ConnectionResetError):
            served.recv(1)


def test_a_service_that_has_closed_before_is_no_proof():
    """Nobody has acknowledged anything: the end of its stream must not keep the caller busy either."""
    with _connected(deaf_listener()) as (client, served):
        assert not bulk.carry_on(client)
        served.shutdown(socket.SHUT_WR)
        _wait_readable(client)

        with pytest.raises(ConnectionResetError):
            bulk.carry_on(client)


def test_what_a_service_says_first_is_read_and_no_proof():
    """A banner is a small segment, and comes the other way."""
    with _connected(deaf_listener()) as (client, served):
        served.send(b"220 welcome\r\n")
        _wait_readable(client)

        assert not bulk.carry_on(client)
        with pytest.raises(BlockingIOError):
            client.recv(1)
