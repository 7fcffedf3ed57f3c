"""Full segments over one TCP connection: whether the kernel at the other end acknowledges them.

A broken offload (a segmentation or checksum that a NIC, a hypervisor or a driver gets wrong) spoils the packets that
are left to it: big ones of TCP. Handshakes and datagrams have their checksums computed in software and pass.

What the service behind the connection makes of the bytes is not looked at. Acknowledgements are cumulative, so that
two full segments' worth of them prove that the very first full segment was received, and with a good checksum.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from typing import Final

BUFFER_BYTES: Final = 16_384
"""SO_SNDBUF, which the kernel doubles and fills with its own accounting too: some ten full segments fit, the initial
window of RFC 6928. A full buffer is what makes the next acknowledgement an event."""

SEGMENTS: Final = 2
"""RFC 1122 section 4.2.3.2: at least every second full segment is acknowledged, a lone one may have to wait."""

ENOUGH_BYTES: Final = 8_192
"""Where segments are huge (loopback): more than any Ethernet without jumbo frames carries in one."""

_ZEROS: Final = bytes(BUFFER_BYTES)
_READ_BYTES: Final = 65_536
_ABORT, _GRACEFUL = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)

_SND_MSS: Final = struct.Struct("=16xI")
_BYTES_ACKED: Final = struct.Struct("=120xQ")
"""linux/tcp.h, struct tcp_info: tcpi_snd_mss; tcpi_bytes_acked since Linux 4.1, which counts the SYN as well
(RFC 4898 tcpEStatsAppHCThruOctetsAcked)."""


def prepare(opened: socket.socket) -> None:
    """Before connecting: a small buffer, and whatever is not acknowledged in time is forgotten with the socket."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)


def carry_on(connected: socket.socket) -> bool:
    """Send what fits; call it again when the socket is writable or readable.

    Returns:
        whether enough was acknowledged; then closing the socket ends the connection in good order.

    Raises:
        OSError: the connection is over, by the other end's will or by an error.
    """
    _drain(connected)
    while not _is_acknowledged(connected):
        try:
            connected.send(_ZEROS)
        except BlockingIOError:
            return False
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GRACEFUL)
    return True


def _is_acknowledged(connected: socket.socket) -> bool:
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED.size)
    (mss_bytes,), (acknowledged_bytes,) = _SND_MSS.unpack_from(info), _BYTES_ACKED.unpack_from(info)
    return bool(acknowledged_bytes > min(SEGMENTS * mss_bytes, ENOUGH_BYTES))


def _drain(connected: socket.socket) -> None:
    """Whatever the service says; that it has nothing more to say must not be an event for ever."""
    with contextlib.suppress(BlockingIOError):
        while connected.recv(_READ_BYTES):
            pass
        if not _is_acknowledged(connected):
            raise ConnectionResetError(errno.ECONNRESET, "closed by the other end")
