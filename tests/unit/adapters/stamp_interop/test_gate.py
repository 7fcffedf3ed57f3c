"""The filter in front of the reflector, run by the kernel."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from ipaddress import ip_network

import pytest

from meshwatchd.adapters import bpf
from meshwatchd.adapters.stamp_interop.gate import gate_program

LEAST = 4


def _passes(sender, prefixes, *, length=LEAST, family=socket.AF_INET, own_port=862):
    """Whether a packet gets through; a second one, from an unfiltered neighbour in time, shows that it did not."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        program = gate_program([ip_network(text) for text in prefixes], port=own_port, least_bytes=LEAST)
        bpf.attach(listener, bpf.assemble(program))
        listener.bind((host, 0))
        listener.setblocking(False)
        source = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        source.bind(sender)
        # Loopback delivers before sendto() returns.
        source.sendto(bytes(length), listener.getsockname())
        try:
            return length == len(listener.recv(100))
        except BlockingIOError:
            return False


@pytest.mark.parametrize(
    ("prefixes", "is_allowed"),
    [
        (["127.0.0.9/32"], True),
        (["127.0.0.8/31"], True),
        (["127.0.0.0/8"], True),
        (["10.0.0.0/8", "127.0.0.8/29"], True),
        (["127.0.0.8/32"], False),
        (["127.0.0.10/31", "10.0.0.0/8"], False),
        ([], False),
    ],
)
def test_prefixes_of_ipv4(prefixes, is_allowed):
    """Each is compared under its own mask, whatever the others are."""
    assert is_allowed is _passes(("127.0.0.9", 0), prefixes)


@pytest.mark.parametrize(
    ("prefixes", "is_allowed"),
    [
        (["::1/128"], True),
        (["::/64"], True),
        (["2001:db8::/32", "::/19"], True),
        (["::2/128"], False),
        (["::1:0:0:1/128"], False),
        (["2001:db8::/32", "::2/127"], False),
    ],
)
def test_prefixes_of_ipv6(prefixes, is_allowed):
    """Words that match in front do not make up for one that does not."""
    assert is_allowed is _passes(("::1", 0), prefixes, family=socket.AF_INET6)


def test_short_packets_do_not_pass():
    """The length is that of the payload."""
    assert [False, True, True] == [_passes(("127.0.0.1", 0), ["127.0.0.0/8"], length=length) for length in (3, 4, 5)]


def test_services_and_mirrors_do_not_pass():
    """A reflector that is sent the answer of another reflector would answer it, for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    assert not _passes(("127.0.0.1", port), ["127.0.0.0/8"], own_port=port)
    assert _passes(("127.0.0.1", port), ["127.0.0.0/8"], own_port=port - 1)
    low = [
        (code, yes, no, value) for code, yes, no, value in gate_program([], port=862, least_bytes=4) if value == 1024
    ]
    assert [(0x35, 1, 0, 1024)] == low


def test_as_many_prefixes_as_the_configuration_allows_fit():
    """The kernel takes 4 096 instructions."""
    prefixes = [f"2001:db8:0:{number:x}::1/128" for number in range(63)] + ["::1/128"]

    assert _passes(("::1", 0), prefixes, family=socket.AF_INET6)
