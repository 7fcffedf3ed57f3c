"""Sockets have exactly the port that was asked for, or none is left open."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from meshwatchd.adapters.packet.sockets import filtered_packets, guard, open_listener, open_probe
from tests.support.packet_node import free_port, request, udp


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_probe_socket_has_the_port_and_hears_everybody(address):
    """The one port on this side, any peer on the other."""
    port = free_port(address)
    with open_probe(address, port) as probe:
        assert (address, port) == probe.getsockname()[:2]
        assert not probe.getblocking()
        with pytest.raises(OSError, match="not connected"):
            probe.getpeername()


@pytest.mark.parametrize(("source", "expected"), [("127.0.0.1", errno.EADDRINUSE), ("192.0.2.1", errno.EADDRNOTAVAIL)])
def test_failed_probe_socket_leaves_nothing_open(source, expected):
    """A busy port and a foreign address are told apart, and cost no descriptor."""
    with udp() as other:
        before = _open_files()
        with pytest.raises(OSError, match=rf"\[Errno {expected}\]"):
            open_probe(source, other.getsockname()[1])

        assert before == _open_files()


def test_probe_sockets_are_filtered_too():
    """A shared socket lives for a second and more: noise sent to it dies in the kernel."""
    port, good = free_port(), request()
    with open_probe("127.0.0.1", port) as probe, udp() as plain:
        plain.sendto(b"noise" * 60, ("127.0.0.1", port))
        plain.sendto(good, ("127.0.0.1", port))

        assert good == probe.recv(2048)
        assert 1 == filtered_packets(probe)


def test_a_socket_may_be_guarded_later():
    """Until then whoever reads it has to look."""
    port = free_port()
    with open_probe("127.0.0.1", port, is_guarded=False) as probe, udp() as plain:
        for _ in range(2):
            plain.sendto(b"noise", ("127.0.0.1", port))
            guard(probe)

        assert b"noise" == probe.recv(2048)
        assert 1 == filtered_packets(probe)


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
        for offset, byte in ((113, 0), (115, 53), (116, 1), (119, 0), (120, 0)):
            bad = bytearray(good)
            bad[offset] = byte
            plain.sendto(bad, ("127.0.0.1", port))
        plain.sendto(good, ("127.0.0.1", port))

        assert good == listener.recv(2048)
        with pytest.raises(BlockingIOError):
            listener.recv(2048)
        assert 5 == filtered_packets(listener)


@pytest.mark.parametrize(
    ("family", "here", "expected"),
    [
        (socket.AF_INET, "127.0.0.7", {(socket.IPPROTO_IP, kind) for kind in (8, socket.IP_TTL, socket.IP_TOS)}),
        (
            socket.AF_INET6,
            "::1",
            {(socket.IPPROTO_IPV6, kind) for kind in (socket.IPV6_PKTINFO, socket.IPV6_HOPLIMIT, socket.IPV6_TCLASS)},
        ),
    ],
    ids=["IPv4", "IPv6"],
)
def test_listener_tells_address_interface_ttl_class_and_time(family, here, expected):
    """Each request comes with what its answer needs."""
    port = free_port()
    with open_listener(port, family) as listener, udp(here) as plain:
        plain.sendto(request(), (here, port))
        _data, ancillary, _flags, _address = listener.recvmsg(2048, 256)

    kinds = {(level, kind) for level, kind, _value in ancillary}
    assert {(socket.SOL_SOCKET, 35), *expected} == kinds


def test_both_families_listen_on_one_port():
    """Neither takes the other's."""
    port = free_port()
    with open_listener(port, socket.AF_INET), open_listener(port, socket.AF_INET6) as listener, udp() as plain:
        plain.sendto(request(), ("127.0.0.1", port))

        with pytest.raises(BlockingIOError):
            listener.recv(2048)
