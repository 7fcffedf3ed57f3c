"""Opening the UDP sockets of probes.

Sockets of ordinary probes ask for no path MTU mode: the kernel's default sets DF, as TCP's packets have it, and a probe
of some 300 bytes is below the smallest path MTU the kernel will believe in (net.ipv4.route.min_pmtu, 552),
so that neither fragments nor EMSGSIZE can occur; IPv6 forbids fragments on the way and promises 1 280 bytes.
Sockets of size probes and of the reflector set DF whatever the kernel believes of the path (IP_PMTUDISC_PROBE): what
they send is as long as was asked for, in one piece, or EMSGSIZE where the device itself takes no more.
The DSCP is left at 0: probes take the queues that ordinary traffic takes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from meshwatchd.adapters import bpf
from meshwatchd.adapters.packet.address import family_of
from meshwatchd.adapters.packet.delivery import LISTENER_OPTIONS
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS
from meshwatchd.adapters.socket_options import grow_buffer
from meshwatchd.wire.mesh_tlv import BRIEF_MESH_BYTES, ENTERPRISE, MESH_VERSION
from meshwatchd.wire.seal import MESH_OFFSET, MESH_VALUE_OFFSET, MIN_PACKET_BYTES
from meshwatchd.wire.tlv import TlvType

PACKET_BYTES: Final = 2048
"""Longer than any ordinary probe of this version; a longer packet is cut off and does not verify."""

LONGEST_BYTES: Final = 9216
"""Of a size probe (model.mtu.MAX_BYTES), with its headers."""

IP_HEADERS_BYTES: Final = MappingProxyType({socket.AF_INET: 28, socket.AF_INET6: 48})
"""IP and UDP, without options."""

_PATH_MTU_OPTION: Final = MappingProxyType(
    {socket.AF_INET: (socket.IPPROTO_IP, 10), socket.AF_INET6: (socket.IPPROTO_IPV6, 23)}
)
"""IP_MTU_DISCOVER and IPV6_MTU_DISCOVER (linux/in.h, linux/in6.h); Python 3.11 has names for neither."""
_DONT_FRAGMENT_NEVER: Final = 0
_PROBE: Final = 3

_SO_MEMINFO: Final = 55
_MEMINFO: Final = struct.Struct("@9I")
_MEMINFO_DROPS: Final = 8
_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""About 2 700 packets of 300 bytes, as the kernel accounts them: 0.1 s of the permitted maximum.

The sockets of probes need as much: all sessions of a node share one, and the answers to a round come together."""

_SEND_BUFFER_BYTES: Final = 16 * 1024 * 1024
"""Packets to a neighbour that does not answer ARP wait in the kernel for three seconds, on their socket's account.

Where an overlay device has lost its neighbours, all answers into it wait so, up to neigh/default/unres_qlen_bytes for
each, 212 992 by default, and no more packets leave a socket whose account is full, whoever they are for: one neighbour
was enough for the default of as much, and the node did not hear its own reflector. The kernel doubles what is asked
for: 157 neighbours."""

_TYPE: Final = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


def open_probe(source: str, port: int, *, is_guarded: bool = True) -> socket.socket:
    """A socket with exactly this source address (a literal) and port, for the probes of all sessions.

    Not connected, since the sessions differ in their destinations: whoever reads it compares the sender. That also
    keeps ICMP errors out, which anybody can forge (UDP reports them to connected sockets only, udp_err() in
    net/ipv4/udp.c). Address reuse stays off: a port that anybody else uses must show as EADDRINUSE, not as lost
    answers.

    Args:
        source: an address literal.
        port: of this node.
        is_guarded: what cannot be a probe of ours is dropped in the kernel; else `guard` makes it so.

    Raises:
        OSError: EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT and the like; nothing stays open.
    """
    return _open(family_of(source), source, port, (), is_guarded=is_guarded)


def guard(opened: socket.socket) -> None:
    """Drop in the kernel what cannot be a probe of ours, before it wakes us.

    The kernel translates the program for each socket anew (net/core/filter.c, bpf_prepare_filter): 16 us of the 25 that
    opening and closing one takes (Linux 6.18).
    """
    bpf.attach(opened, _PROGRAM)


def open_listener(port: int, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    """A socket that hears requests to any address of this node and knows which one they were sent to.

    One for each family, and not one for both: then IPv4 costs what it did before there was IPv6, its addresses stay
    four bytes long, and a kernel without IPv6 lacks nothing else.

    Raises:
        OSError: mostly EADDRINUSE; EAFNOSUPPORT when the kernel does not have the family.
    """
    opened = _open(family, "", port, LISTENER_OPTIONS[family])
    set_fragmenting(opened, may_fragment=False)
    return opened


def open_sizer(source: str, port: int, *, may_fragment: bool) -> socket.socket:
    """A socket for size probes from this address and port, with DF set or clear.

    Raises:
        OSError: as of `open_probe`.
    """
    opened = open_probe(source, port)
    set_fragmenting(opened, may_fragment=may_fragment)
    return opened


def set_fragmenting(opened: socket.socket, *, may_fragment: bool) -> None:
    """Clear DF, or set it whatever the kernel believes of the path, for all that is sent from here on."""
    level, option = _PATH_MTU_OPTION[opened.family]
    opened.setsockopt(level, option, _DONT_FRAGMENT_NEVER if may_fragment else _PROBE)


def _open(
    family: socket.AddressFamily,
    address: str,
    port: int,
    options: Iterable[tuple[int, int]],
    *,
    is_guarded: bool = True,
) -> socket.socket:
    opened = socket.socket(family, _TYPE, socket.IPPROTO_UDP)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for level, option in options:
            opened.setsockopt(level, option, 1)
        # Arrival stamps are a switch in the whole kernel's receive path, thrown when the first socket asks for them:
        # listeners keep it on, so that the sockets of probes do not throw it back and forth.
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        _grow_buffers(opened)
        if is_guarded:
            guard(opened)
        opened.bind((address, port))
    except OSError:
        opened.close()
        raise
    return opened


def filtered_packets(listener: socket.socket) -> int:
    """Packets the kernel dropped at this socket: by the filter, or for want of room."""
    return int(_MEMINFO.unpack(listener.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_MEMINFO_DROPS])


def _grow_buffers(opened: socket.socket) -> None:
    """Both, as far as allowed: without CAP_NET_ADMIN to net.core.rmem_max and wmem_max."""
    grow_buffer(opened, socket.SO_RCVBUF, _BUFFER_BYTES)
    grow_buffer(opened, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


_CHECKS: Final = (
    (bpf.LOAD_LENGTH, 0, bpf.AT_LEAST, bpf.UDP_HEADER_BYTES + MIN_PACKET_BYTES),
    (bpf.LOAD_BYTE, MESH_OFFSET + 1, bpf.EQUAL, int(TlvType.MESH)),
    (bpf.LOAD_HALF, MESH_OFFSET + 2, bpf.AT_LEAST, BRIEF_MESH_BYTES),
    (bpf.LOAD_WORD, MESH_VALUE_OFFSET, bpf.EQUAL, ENTERPRISE),
    (bpf.LOAD_BYTE, MESH_VALUE_OFFSET + 4, bpf.EQUAL, MESH_VERSION),
)
"""Load what and from where, compare how and with what: long enough, and our TLV where it always is."""


def _filter_program() -> bytes:
    program: list[bpf.Instruction] = []
    for position, (load, offset, compare, operand) in enumerate(_CHECKS):
        program.append((load, 0, 0, 0 if load == bpf.LOAD_LENGTH else bpf.UDP_HEADER_BYTES + offset))
        # False jumps over the remaining checks and the accepting return, to the refusing one.
        program.append((compare, 0, 2 * (len(_CHECKS) - 1 - position) + 1, operand))
    return bpf.assemble([*program, bpf.ACCEPT, bpf.REFUSE])


_PROGRAM: Final = _filter_program()
