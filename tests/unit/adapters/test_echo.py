"""ICMP echoes over sockets of the test's own."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from meshwatchd.adapters.echo import Echo, Echoes
from meshwatchd.model.errors import KernelError

DGRAM, RAW = socket.SOCK_DGRAM, socket.SOCK_RAW


class FakeSocket:
    """One that a kernel would give; `answer` makes packets of a request."""

    def __init__(self, kind, answer):
        self.type, self._answer = kind, answer
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.options: list[tuple[int, int, int]] = []
        self.requests: list[bytes] = []

    def fileno(self):
        """For select."""
        return self._ours.fileno()

    def connect(self, address):
        """Everybody can be reached."""

    def setsockopt(self, *option):
        """Remembered."""
        self.options.append(option)

    def send(self, request):
        """Answered at once."""
        self.requests.append(request)
        for packet in self._answer(request):
            self._theirs.send(packet)

    def recv(self, size):
        """The next answer."""
        return self._ours.recv(size)

    def close(self):
        """Both ends."""
        self._ours.close()
        self._theirs.close()


class Kernel:
    """Gives sockets; those of forbidden kinds are refused."""

    def __init__(self, answer, *, forbidden=()):
        self._answer, self._forbidden = answer, forbidden
        self.made: list[FakeSocket] = []

    def __call__(self, _family, kind, _protocol):
        """As socket.socket."""
        plain = RAW if kind & RAW == RAW else DGRAM
        if plain in self._forbidden:
            raise PermissionError(errno.EACCES, "Permission denied")
        self.made.append(FakeSocket(plain, self._answer))
        return self.made[-1]


def _reply(request, *, kind=0, shift=0):
    identifier, sequence = struct.unpack_from(">HH", request, 4)
    return struct.pack(">BBHHH", kind, 0, 0, identifier, sequence + shift) + request[8:]


@pytest.fixture
def echoes():
    """Makes echoes, and closes them."""
    made: list[Echoes] = []

    def make(kernel, address="10.2.0.11", **more):
        made.append(Echoes(address, make=kernel, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_an_answer_has_its_round_trip(echoes):
    """What belongs to another request, or is none, is passed over."""
    kernel = Kernel(lambda request: [b"", _reply(request, shift=1), _reply(request, kind=3), _reply(request)])
    found = echoes(kernel).ask(5)
    assert found.rtt_ns is not None
    assert 28 - 20 + 16 == len(kernel.made[0].requests[0])


def test_a_raw_socket_takes_the_place_of_one_that_is_forbidden(echoes):
    """It has the IP header as well, and hears the answers to everybody."""
    strange = struct.pack(">BBHHH", 0, 0, 0, 0, 1)
    kernel = Kernel(
        lambda request: [bytes([0x46]) + bytes(23) + each for each in (strange, _reply(request))], forbidden=(DGRAM,)
    )
    assert echoes(kernel).ask(5).rtt_ns is not None
    assert RAW == kernel.made[0].type


def test_without_any_socket_there_is_a_remedy(echoes):
    """For whoever is not root."""
    with pytest.raises(KernelError, match="ping_group_range"):
        echoes(Kernel(lambda _: [], forbidden=(DGRAM, RAW)))


def test_silence_is_no_answer(echoes):
    """Without a word why."""
    assert Echo(None) == echoes(Kernel(lambda _: [])).ask(0.01)


def test_the_kernels_refusal_is_told(echoes):
    """A packet that is longer than its own device's MTU."""

    def refuse(_request):
        raise OSError(errno.EMSGSIZE, "Message too long")

    assert Echo(None, "Message too long") == echoes(Kernel(refuse), size=9000).ask(1)


@pytest.mark.parametrize(("address", "data"), [("10.2.0.11", 1372), ("fd00::1", 1352)])
def test_the_size_is_that_of_the_whole_packet_and_not_to_be_fragmented(echoes, address, data):
    """Headers of IP and ICMP included."""
    kernel = Kernel(lambda request: [_reply(request, kind=129 if ":" in address else 0)])
    assert echoes(kernel, address, size=1400).ask(5).rtt_ns is not None
    (made,) = kernel.made
    assert 8 + data == len(made.requests[0])
    assert 3 == made.options[0][2]


def test_a_fresh_request_has_an_identifier_that_nobody_has_seen(echoes):
    """And so a socket of its own; else one is kept."""
    for is_fresh, sockets in ((True, 3), (False, 1)):
        kernel = Kernel(lambda request: [_reply(request)])
        asked = echoes(kernel, is_fresh=is_fresh)
        assert all(asked.ask(5).rtt_ns is not None for _ in range(3))
        assert sockets == len(kernel.made)


def test_the_checksum_is_right(echoes):
    """The sum over a request with its checksum is all ones (RFC 1071)."""
    kernel = Kernel(lambda request: [_reply(request)])
    echoes(kernel, size=101).ask(5)
    request = kernel.made[0].requests[0]
    total = sum(struct.unpack(f">{len(request + bytes(len(request) % 2)) // 2}H", request + bytes(len(request) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert 0xFFFF == total
