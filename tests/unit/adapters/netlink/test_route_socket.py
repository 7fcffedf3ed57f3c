"""Questions about one route, asked of this machine's kernel: loopback is always there."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.route_socket import RouteSocket, request_for

RTA_IIF, RTA_OIF = 3, 4


@pytest.fixture
def asking():
    """A socket, closed at the end."""
    made = RouteSocket()
    yield made
    made.close()


@pytest.mark.parametrize("_turn", range(2))
def test_the_kernel_names_the_device(asking, _turn):
    """127.0.0.1 is reached over lo, whose index is 1 in every network namespace."""
    answer = asking.ask(request_for(socket.inet_aton("127.0.0.1")))

    assert answer is not None
    assert (0, struct.pack("=I", 1)) == (answer.errno, answer.attributes[RTA_OIF])


def test_an_error_is_an_answer(asking):
    """A device that does not exist."""
    nowhere = encode_attribute(RTA_IIF, struct.pack("=I", 2**31 - 1))
    answer = asking.ask(request_for(socket.inet_aton("127.0.0.1")) + nowhere)

    assert answer is not None
    assert errno.ENODEV == answer.errno


def test_what_cannot_be_asked_has_no_answer(asking):
    """A socket that is closed, as at the end of a process."""
    asking.close()

    assert asking.ask(request_for(socket.inet_aton("127.0.0.1"))) is None
