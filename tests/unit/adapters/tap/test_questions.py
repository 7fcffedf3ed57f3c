"""Answers of rtnetlink, from bytes and from the kernel this runs on."""

from __future__ import annotations

import socket
import struct
from contextlib import closing

import pytest

from meshwatchd.adapters.netlink.message import encode_attribute as attribute
from meshwatchd.adapters.tap.questions import NUD_PERMANENT, Kernel, Neighbour, read_device, read_hop, read_queue


def test_a_vxlan_device_is_read_with_its_tunnel_and_counters():
    """Name, VNI, port in network order, lower device, and the four counters that tell of losses."""
    data = attribute(1, struct.pack("=I", 7)) + attribute(3, struct.pack("=I", 2))
    data += attribute(4, bytes([10, 0, 0, 1])) + attribute(15, struct.pack(">H", 8472)) + attribute(25, b"\0")
    info = attribute(1, b"vxlan\0") + attribute(2, data)
    counters = list(range(100, 124))
    body = struct.pack("=BxHiII", 0, 1, 6, 0x1043, 0) + attribute(3, b"flannel.1\0") + attribute(18, info)
    body += attribute(23, struct.pack("=24Q", *counters)) + attribute(33, b"\1") + attribute(1, bytes(6))
    device = read_device(body)

    assert ("flannel.1", 6, "vxlan", True, True) == (
        device.name,
        device.index,
        device.kind,
        device.is_up,
        device.has_carrier,
    )
    assert (7, 2, 8472, bytes([10, 0, 0, 1]), False) == (
        device.vni,
        device.lower,
        device.port,
        device.local,
        device.collects_metadata,
    )
    assert (101, 107, 105, 117) == (
        device.tx_packets,
        device.tx_dropped,
        device.tx_errors,
        device.tx_carrier_errors,
    )


def test_a_device_without_anything_is_read_as_well():
    """Old kernels and odd devices leave attributes out."""
    device = read_device(struct.pack("=BxHiII", 0, 65534, 3, 0, 0) + attribute(25 | 0x8000, b"\1"))

    assert (False, True, False, 0, "") == (
        device.is_up,
        device.has_carrier,
        device.is_ethernet,
        device.tx_dropped,
        device.kind,
    )


def test_a_queue_tells_its_drops():
    """Struct gnet_stats_queue: length, backlog, drops."""
    queue = attribute(7, attribute(3, struct.pack("=5I", 1, 2, 42, 4, 5)))

    assert (9, 42) == read_queue(struct.pack("=B3xiIII", 0, 9, 0, 0, 0) + queue)
    assert (9, 0) == read_queue(struct.pack("=B3xiIII", 0, 9, 0, 0, 0))


def test_a_hop_is_read():
    """Device, gateway, preferred source."""
    body = bytes(12) + attribute(4, struct.pack("=I", 5)) + attribute(5, b"\x0a\0\0\1") + attribute(7, b"\x0a\0\0\2")
    hop = read_hop(body)

    assert (5, b"\x0a\0\0\1", b"\x0a\0\0\2", "") == (hop.index, hop.gateway, hop.source, hop.error)


@pytest.mark.parametrize(
    ("mac", "state", "is_resolved"), [(b"\2" * 6, NUD_PERMANENT, True), (b"\2" * 6, 0x20, False), (b"", 4, False)]
)
def test_failed_neighbours_are_unresolved(mac, state, is_resolved):
    """An entry that failed keeps its old address."""
    assert is_resolved is Neighbour(address=b"", mac=mac, state=state).is_resolved


def test_the_running_kernel_answers_every_question():
    """Loopback is everywhere: its device, the route to itself, no neighbours of note, no queue that drops."""
    with closing(Kernel()) as kernel:
        devices = kernel.devices()
        hop = kernel.hop(socket.inet_aton("127.0.0.1"))
        lo = devices[hop.index]

        assert ("lo", "") == (lo.name, hop.error)
        assert all(neighbour.address for neighbour in kernel.neighbours(lo.index))
        assert () == kernel.forwarding(lo.index)
        assert kernel.queue_drops(lo.index) >= 0


def test_a_refused_question_names_its_error():
    """There is no route from a loopback address to anywhere else."""
    with closing(Kernel()) as kernel:
        assert kernel.hop(socket.inet_aton("192.0.2.1"), socket.inet_aton("127.0.0.1")).error
