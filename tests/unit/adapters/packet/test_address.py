"""Names are what the kernel would write, byte for byte."""

from __future__ import annotations

import socket

import pytest

from meshwatchd.adapters.packet.address import family_of, pack_address, pack_name, unpack_name
from meshwatchd.adapters.packet.mmsg import ReceiveBatch
from meshwatchd.model.errors import DecodeError
from tests.support.packet_node import udp


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_name_is_the_one_the_kernel_gives(address):
    """Answers are recognised by comparing these bytes."""
    batch = ReceiveBatch(1, 64, 0)
    with udp(address) as plain, udp(address) as other:
        port = other.getsockname()[1]
        other.sendto(b"?", plain.getsockname())
        [(_data, name, _control)] = batch.receive(plain.fileno())

    assert pack_name(address, port) == name
    assert (socket.inet_pton(family_of(address), address), port) == unpack_name(name)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("node-1", "neither an IPv4 nor an IPv6 address"),
        ("10.0.0.300", "neither an IPv4 nor an IPv6 address"),
        ("fe80::1%eth0", "neither an IPv4 nor an IPv6 address"),
        ("fe80::1", "link-local"),
        ("febf::1", "link-local"),
    ],
)
def test_what_cannot_be_sent_to_is_refused_with_a_reason(address, problem):
    """A link-local address means something only with an interface."""
    with pytest.raises(DecodeError, match=problem):
        pack_name(address, 1)


def test_neighbours_of_the_link_local_range_are_addresses():
    """fec0::/10 and below fe80 are none of it; nor is an IPv4 address that begins with the same bytes."""
    assert [16, 16, 4] == [len(pack_address(address)) for address in ("fec0::1", "fe7f::1", "254.128.0.1")]


def test_name_of_another_family_has_no_address():
    """A unix socket, or nothing at all."""
    assert (b"", 0) == unpack_name(b"")
    assert (b"", 0) == unpack_name(bytes(20))
