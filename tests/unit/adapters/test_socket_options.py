"""Buffers beyond the limit where that is allowed, up to it elsewhere; who is at the other end by the kernel's word."""

from __future__ import annotations

import os
import socket

import pytest

from meshwatchd.adapters import socket_options
from meshwatchd.adapters.socket_options import grow_buffer, read_peer


@pytest.mark.parametrize("option", [socket.SO_RCVBUF, socket.SO_SNDBUF])
def test_a_buffer_that_may_not_be_made_larger_than_the_limit_is_made_as_large_as_it(monkeypatch, option):
    """Root of a user namespace may not: what is beyond the limit is refused, and no reason to do without the socket."""
    monkeypatch.setattr(socket_options, "_BEYOND_THE_LIMIT", {option: 4711})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        grow_buffer(opened, option, 65_536)
        assert opened.getsockopt(socket.SOL_SOCKET, option) >= 65_536


@pytest.mark.parametrize("option", [socket.SO_RCVBUF, socket.SO_SNDBUF])
def test_whoever_may_gets_more_than_the_limit(option):
    """The number is that of the kernel: nothing but the capability is missing where it is refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket_options._BEYOND_THE_LIMIT[option], 32 << 20)
        except PermissionError:
            return
        assert opened.getsockopt(socket.SOL_SOCKET, option) >= 32 << 20


def test_the_kernel_tells_who_is_at_the_other_end():
    """Not the client."""
    one, other = socket.socketpair()
    with one, other:
        assert (os.getpid(), os.geteuid()) == read_peer(one)
