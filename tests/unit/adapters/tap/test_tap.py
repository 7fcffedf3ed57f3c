"""What a tap reads of a packet socket: packets, what the device has yet to finish, and what was lost before reading."""

from __future__ import annotations

import errno
import struct

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from meshwatchd.adapters.tap.filter import SNAP_BYTES
from meshwatchd.adapters.tap.tap import MAX_PACKETS, PACKET_OUTGOING, Tap

CHECKSUM_LEFT_TO_DEVICE, SEGMENTS_LEFT_TO_DEVICE, FINISHED = 0x8, 0x100, 0x80


class FakeSocket:
    """Packets and their auxiliary data, then nothing or an error."""

    def __init__(self, *packets: tuple[bytes, int, int], end: OSError | None = None, drops: int = 0) -> None:
        self.packets = list(packets)
        self.end = end or BlockingIOError()
        self.drops = drops

    def fileno(self) -> int:
        """None of the kernel's."""
        return -1

    def recvmsg(self, size: int, ancillary: int):
        """The next packet."""
        if not self.packets:
            raise self.end
        data, kind, status = self.packets.pop(0)
        auxiliary = struct.pack("@IIIHHHH", status, len(data), len(data), 0, 0, 0, 0)
        return data[:size], [(263, 8, auxiliary)], 0, ("eth0", 0x0800, kind, 1, b"")

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        """PACKET_STATISTICS, which begins anew when it was read."""
        drops, self.drops = self.drops, 0
        return struct.pack("@II", 0, drops)

    def close(self) -> None:
        """Nothing to be done."""


FRAME = bytes(
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    / IP(src="10.0.0.1", dst="10.0.0.2")
    / UDP(sport=1, dport=2)
    / b"payload"
)


def tap(opened: FakeSocket, *, is_ethernet: bool = True) -> Tap:
    """A tap on it."""
    return Tap("eth0", opened, is_ethernet=is_ethernet, vxlan_port=8472)


def test_direction_and_macs_are_told():
    """A frame out, a packet in; without link layer there are no MACs."""
    (out,) = tap(FakeSocket((FRAME, PACKET_OUTGOING, FINISHED))).read()
    (bare,) = tap(FakeSocket((FRAME[14:], 0, FINISHED)), is_ethernet=False).read()

    assert (True, "020000000001", "020000000002") == (
        out.is_outgoing,
        out.source_mac.hex(),
        out.destination_mac.hex(),
    )
    assert (False, b"", b"payload") == (bare.is_outgoing, bare.source_mac, bare.datagram.payload)


def test_what_the_device_has_yet_to_finish_is_counted_apart():
    """A checksum or a segmentation left to the device: such packets are sound, and say so."""
    opened = FakeSocket(
        (FRAME, PACKET_OUTGOING, CHECKSUM_LEFT_TO_DEVICE),
        (FRAME, PACKET_OUTGOING, SEGMENTS_LEFT_TO_DEVICE),
        (FRAME, 0, FINISHED),
    )
    watched = tap(opened)

    assert 3 == len(list(watched.read()))
    assert (3, 2) == (watched.report().packets, watched.report().unfinished)


def test_losses_add_up_over_readings():
    """The kernel begins anew each time it is asked, and packets beyond the bound are lost as well."""
    opened = FakeSocket(*([(FRAME, 0, FINISHED)] * (MAX_PACKETS + 5)), drops=3)
    watched = tap(opened)

    assert MAX_PACKETS == len(list(watched.read()))
    assert 8 == watched.report().dropped
    opened.drops = 2
    assert 10 == watched.report().dropped


def test_a_device_that_goes_down_ends_the_reading():
    """What was seen before still counts; other errors are errors."""
    assert 1 == len(list(tap(FakeSocket((FRAME, 0, 0), end=OSError(errno.ENETDOWN, "down"))).read()))
    assert [] == list(tap(FakeSocket((b"\0" * 60, 0, 0))).read())


def test_snap_holds_a_whole_probe_in_every_wrapping():
    """Two Ethernet and four IP headers are 200 bytes at most, a probe has 232."""
    assert SNAP_BYTES >= 200 + 232
