"""Sockets have exactly the port that was asked for, or none is left open."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from meshwatchd.adapters.packet.sockets import filtered_packets, open_listener, open_probe
from tests.support.packet_node import free_port, request, udp


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_probe_socket_is_bound_connected_and_non_blocking():
    """The one port on this side, the one peer on the other."""
    port = free_port()
    with udp() as peer, open_probe("127.0.0.1", port, peer.getsockname()) as probe:
        assert ("127.0.0.1", port) == probe.getsockname()
        assert peer.getsockname() == probe.getpeername()
        assert not probe.getblocking()


@pytest.mark.parametrize(("source", "expected"), [("127.0.0.1", errno.EADDRINUSE), ("192.0.2.1", errno.EADDRNOTAVAIL)])
def test_failed_probe_socket_leaves_nothing_open(source, expected):
    """A busy port and a foreign address are told apart, and cost no descriptor."""
    with udp() as other:
        before = _open_files()
        with pytest.raises(OSError, match=rf"\[Errno {expected}\]"):
            open_probe(source, other.getsockname()[1], ("127.0.0.1", 9))

        assert before == _open_files()


def test_busy_listener_port_leaves_nothing_open():
    """Two reflectors on one port are a mistake that must show."""
    with udp(address="0.0.0.0") as other:
        before = _open_files()
        with pytest.raises(OSError, match=rf"\[Errno {errno.EADDRINUSE}\]"):
            open_listener(other.getsockname()[1])

        assert before == _open_files()


def test_listener_filter_takes_probes_only():
    """One changed byte in the frame of the mesh TLV is enough to be dropped in the kernel."""
    port, good = free_port(), request()
    with open_listener(port) as listener, udp() as plain:
        for offset in (113, 115, 116, 119, 120):
            bad = bytearray(good)
            bad[offset] ^= 0xFF
            plain.sendto(bad, ("127.0.0.1", port))
        plain.sendto(good, ("127.0.0.1", port))

        assert good == listener.recv(2048)
        with pytest.raises(BlockingIOError):
            listener.recv(2048)
        assert 5 == filtered_packets(listener)


def test_listener_tells_address_interface_ttl_and_time():
    """Each request comes with what its answer needs."""
    port = free_port()
    with open_listener(port) as listener, udp() as plain:
        plain.sendto(request(), ("127.0.0.7", port))
        _data, ancillary, _flags, _address = listener.recvmsg(2048, 256)

    kinds = {(level, kind) for level, kind, _value in ancillary}
    assert {(socket.SOL_SOCKET, 35), (socket.IPPROTO_IP, 8), (socket.IPPROTO_IP, socket.IP_TTL)} == kinds
