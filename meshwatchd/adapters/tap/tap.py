"""A tap: what passes one device, in both directions, as far as the filter lets it through.

What leaves is seen behind netfilter, traffic control and queue, right before the driver: seen means handed to the
driver. It may still be one large packet that the device is to cut up, or lack a checksum that the device is to fill in;
the kernel says so for each packet, and such packets are not judged by what the device has yet to do.

Source: packet(7); dev_queue_xmit_nit() in net/core/dev.c, packet_rcv() in net/packet/af_packet.c.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from meshwatchd.adapters import bpf
from meshwatchd.adapters.socket_options import grow_buffer
from meshwatchd.adapters.tap.decode import ETHERNET_BYTES, Datagram, read_datagram
from meshwatchd.adapters.tap.filter import SNAP_BYTES, Wanted, tap_program
from meshwatchd.model.bisection import TapReport

ETH_P_ALL: Final = 0x0003
PACKET_OUTGOING: Final = 4
ARPHRD_ETHER: Final = 1
MAX_PACKETS: Final = 4096
"""Kept of one run; a few hundred are expected."""
RECEIVE_BUFFER_BYTES: Final = 2 << 20

_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_PACKET_AUXDATA: Final = 8
_PACKET_IGNORE_OUTGOING: Final = 23
_STATISTICS: Final = struct.Struct("@II")
_AUXDATA: Final = struct.Struct("@IIIHHHH")
"""struct tpacket_auxdata: status, length, captured length, offsets, VLAN (linux/if_packet.h)."""
_UNFINISHED: Final = 0x8 | 0x100
"""TP_STATUS_CSUMNOTREADY and TP_STATUS_GSO_TCP."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One packet at one tap.

    Attributes:
        at_ns: CLOCK_MONOTONIC when it was read.
        destination_mac: of the frame as this device has it; empty on devices without link layer addresses.
    """

    at_ns: int
    is_outgoing: bool
    datagram: Datagram
    source_mac: bytes = b""
    destination_mac: bytes = b""


class PacketSocket(Protocol):
    """What of a packet socket is used."""

    def fileno(self) -> int:
        """Its descriptor."""

    def recvmsg(self, size: int, ancillary: int, /) -> tuple[bytes, list[tuple[int, int, bytes]], int, Any]:
        """One packet with its auxiliary data, and where it passed."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes:
        """An option's value."""

    def close(self) -> None:
        """Close it."""


def open_tap(device: str, *, is_ethernet: bool, wanted: Wanted) -> Tap:
    """A tap on a device; nothing else on the machine notices.

    Args:
        device: its name.
        is_ethernet: whether frames have a link-layer header there (ARPHRD_ETHER).
        wanted: what passes; `is_ethernet` in it is set here.

    Raises:
        OSError: no CAP_NET_RAW, or no such device.
    """
    kind = socket.SOCK_RAW if is_ethernet else socket.SOCK_DGRAM
    # Protocol 0 at first: nothing is received, from whatever device, before filter and bind are in place.
    opened = socket.socket(socket.AF_PACKET, kind | socket.SOCK_NONBLOCK, 0)
    try:
        bpf.attach(opened, bpf.assemble(tap_program(wanted._replace(is_ethernet=is_ethernet))))
        _prepare(opened)
        opened.bind((device, ETH_P_ALL))
    except OSError:
        opened.close()
        raise
    return Tap(device, opened, is_ethernet=is_ethernet, vxlan_port=wanted.vxlan_port)


def _prepare(opened: socket.socket) -> None:
    opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 0)
    grow_buffer(opened, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


class Tap:
    """What an open tap sees and counts.

    Args:
        is_ethernet: packets begin with their Ethernet header, and with their IP header otherwise.
    """

    def __init__(self, device: str, opened: PacketSocket, *, is_ethernet: bool, vxlan_port: int) -> None:
        self.device = device
        self._socket = opened
        self._is_ethernet = is_ethernet
        self._vxlan_port = vxlan_port
        self._packets = self._dropped = self._unfinished = 0

    def fileno(self) -> int:
        """For poll."""
        return self._socket.fileno()

    def read(self) -> Iterator[Seen]:
        """What has passed since the last call; beyond MAX_PACKETS it is counted and not kept."""
        while True:
            try:
                data, ancillary, _flags, address = self._socket.recvmsg(SNAP_BYTES, socket.CMSG_SPACE(_AUXDATA.size))
            except BlockingIOError:
                return
            except OSError as error:
                # The device went down or away: what was seen before still counts.
                if error.errno in {errno.ENETDOWN, errno.ENODEV}:
                    return
                raise
            self._packets += 1
            self._unfinished += _is_unfinished(ancillary)
            seen = self._take(data, address[2])
            if seen is not None and self._packets <= MAX_PACKETS:
                yield seen

    def report(self) -> TapReport:
        """What it has counted so far."""
        raw = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._dropped += _STATISTICS.unpack(raw)[1]  # the kernel begins anew with each reading
        dropped = self._dropped + max(0, self._packets - MAX_PACKETS)
        return TapReport(device=self.device, packets=self._packets, dropped=dropped, unfinished=self._unfinished)

    def close(self) -> None:
        """See nothing more."""
        self._socket.close()

    def _take(self, data: bytes, packet_type: int) -> Seen | None:
        datagram = read_datagram(data[ETHERNET_BYTES:] if self._is_ethernet else data, self._vxlan_port)
        if datagram is None:
            return None
        return Seen(
            at_ns=time.monotonic_ns(),
            is_outgoing=packet_type == PACKET_OUTGOING,
            datagram=datagram,
            source_mac=data[6:12] if self._is_ethernet else b"",
            destination_mac=data[:6] if self._is_ethernet else b"",
        )


def _is_unfinished(ancillary: list[tuple[int, int, bytes]]) -> bool:
    for level, kind, value in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA) and len(value) >= _AUXDATA.size:
            return bool(_AUXDATA.unpack_from(value)[0] & _UNFINISHED)
    return False
