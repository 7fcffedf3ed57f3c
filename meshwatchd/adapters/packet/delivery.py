"""How the kernel delivered a request, and what makes an answer go back the same way.

The kernel tells both in ancillary data: interface, local address, TTL and traffic class. All packets that came the same
way come with the same bytes but for their stamp, so each way is read once.
"""

from __future__ import annotations

import functools
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from meshwatchd.adapters.packet.address import unpack_name
from meshwatchd.adapters.packet.stamps import STAMP_BYTES
from meshwatchd.wire.answer import Arrival, Reflector

_IP_PKTINFO: Final = 8
_IP_RECVTTL: Final = 12
"""Python 3.11 has names for neither (linux/in.h)."""

_HEADER: Final = struct.Struct("@Q i i")
"""struct cmsghdr: length with this header, level, type (linux/socket.h)."""
_ALIGNMENT: Final = 8
_IPV4_INFO: Final = struct.Struct("@i 4s 4s")
"""struct in_pktinfo: interface index, local address (source of an answer), address in the packet's header."""
_IPV6_INFO: Final = struct.Struct("@16s i")
"""struct in6_pktinfo: address in the packet's header, interface index (linux/ipv6.h)."""
_INT: Final = struct.Struct("@i")
_NO_ADDRESS: Final = bytes(4)
_DSCP_SHIFT: Final = 2
_ECN_MASK: Final = 0x3

_SMALL: Final = socket.CMSG_SPACE(_INT.size)
REQUEST_CONTROL_BYTES: Final = STAMP_BYTES + socket.CMSG_SPACE(_IPV6_INFO.size) + 2 * _SMALL
ANSWER_CONTROL_BYTES: Final = socket.CMSG_SPACE(_IPV6_INFO.size) + _SMALL

LISTENER_OPTIONS: Final = MappingProxyType(
    {
        socket.AF_INET: (
            (socket.IPPROTO_IP, _IP_PKTINFO),
            (socket.IPPROTO_IP, _IP_RECVTTL),
            (socket.IPPROTO_IP, socket.IP_RECVTOS),
        ),
        socket.AF_INET6: (
            (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO),
            (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT),
            (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS),
        ),
    }
)
"""Level and name of the socket options by which a listener asks for all this: 0.1 us of a request's 25."""

_IPV4_PKTINFO: Final = (socket.IPPROTO_IP, _IP_PKTINFO)
_IPV4_TTL: Final = (socket.IPPROTO_IP, socket.IP_TTL)
_IPV4_TOS: Final = (socket.IPPROTO_IP, socket.IP_TOS)
_IPV6_PKTINFO: Final = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
_IPV6_HOP_LIMIT: Final = (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)
_IPV6_CLASS: Final = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
"""Level and type of the messages that come of it."""
_BYTES: Final = MappingProxyType({_IPV4_PKTINFO: _IPV4_INFO.size, _IPV6_PKTINFO: _IPV6_INFO.size})
"""Their lengths, where they are more than a number; one of another length says nothing."""

Ancillary = tuple[tuple[int, int, bytes], ...]
"""Level, type and value of each message, as sendmsg() of Python's sockets takes them."""


class Delivery(msgspec.Struct, frozen=True):
    """One way by which requests come.

    Attributes:
        interface: index of the one they come in by; 0 when unknown.
        ttl: with which they arrive; 0 when unknown.
        traffic_class: DSCP and ECN with which they arrive; None when unknown.
        destination: the address in their IP header, packed: one of this node's, since the kernel delivered them.
        answer: ancillary data of an answer that leaves from that address, by the interface the request came in by and
            with its DSCP.
        routed_answer: the same, but leaving by whatever interface the routing table says.
        reflector: what answers to such requests draw on, as long as they ask nothing else.
    """

    interface: int
    ttl: int
    traffic_class: int | None
    destination: bytes
    answer: bytes
    routed_answer: bytes
    reflector: Reflector

    def asked(self, name: bytes, *, port: int, count: int) -> Reflector:
        """What the answer to a request with questions of the RFCs draws on; `count` is of the session's requests that
        were answered, this one included.
        """
        source, source_port = unpack_name(name)
        arrival = Arrival(
            source=source,
            source_port=source_port,
            destination=self.destination,
            destination_port=port,
            dscp=None if self.traffic_class is None else self.traffic_class >> _DSCP_SHIFT,
            ecn=(self.traffic_class or 0) & _ECN_MASK,
            rx_count=count,
            tx_count=count,
        )
        return Reflector(addresses=self.reflector.addresses, arrival=arrival)


@functools.lru_cache(maxsize=1024)
def read_delivery(control: bytes) -> Delivery:
    """Read the ancillary data of a request, without its stamp."""
    told = {kind: value for kind, value in _messages(control) if _BYTES.get(kind, len(value)) == len(value)}
    interface, local, destination = 0, _NO_ADDRESS, _NO_ADDRESS
    if (info := told.get(_IPV4_PKTINFO)) is not None:
        interface, local, destination = _IPV4_INFO.unpack(info)
    elif (info := told.get(_IPV6_PKTINFO)) is not None:
        destination, interface = _IPV6_INFO.unpack(info)
        local = destination
    ttl = _number(told, _IPV4_TTL, _IPV6_HOP_LIMIT)
    traffic_class = _number(told, _IPV4_TOS, _IPV6_CLASS)
    return Delivery(
        interface=interface,
        ttl=ttl or 0,
        traffic_class=traffic_class,
        destination=destination,
        answer=_answer(interface, local, traffic_class or 0),
        routed_answer=_answer(0, local, traffic_class or 0),
        reflector=Reflector(addresses=frozenset((destination,))),
    )


def leave_by(interface: int, source: bytes) -> Ancillary:
    """Ancillary data of an IPv4 probe that leaves by an interface, whatever the routes say.

    The source is said again: in_pktinfo without one takes it from the routes, even where the socket is bound.

    Source: ip_cmsg_send() and ip_route_output_key_hash_rcu() in net/ipv4: without a route out of that interface the
    destination is taken to be on its link.
    """
    return ((*_IPV4_PKTINFO, _IPV4_INFO.pack(interface, source, _NO_ADDRESS)),)


def _messages(control: bytes) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Level and type of each message, and its value (CMSG_NXTHDR() in linux/socket.h)."""
    offset = 0
    while offset + _HEADER.size <= len(control):
        length, level, kind = _HEADER.unpack_from(control, offset)
        if not _HEADER.size <= length <= len(control) - offset:
            return
        yield (level, kind), control[offset + _HEADER.size : offset + length]
        offset += -(-length // _ALIGNMENT) * _ALIGNMENT


def _number(told: Mapping[tuple[int, int], bytes], *kinds: tuple[int, int]) -> int | None:
    """The value of the first message of these kinds, a byte, in a byte (IP_TOS) or an int."""
    value = next((told[kind] for kind in kinds if kind in told), None)
    return None if value is None else int.from_bytes(value, sys.byteorder) & 0xFF


def _answer(interface: int, local: bytes, traffic_class: int) -> bytes:
    """Ancillary data of an answer. Its DSCP is the request's, so that it takes the same queues."""
    is_ipv4 = len(local) == len(_NO_ADDRESS)
    info = _IPV4_INFO.pack(interface, local, _NO_ADDRESS) if is_ipv4 else _IPV6_INFO.pack(local, interface)
    messages = _message(_IPV4_PKTINFO if is_ipv4 else _IPV6_PKTINFO, info)
    marked = traffic_class & ~_ECN_MASK
    if marked:
        messages += _message(_IPV4_TOS if is_ipv4 else _IPV6_CLASS, _INT.pack(marked))
    return messages


def _message(kind: tuple[int, int], value: bytes) -> bytes:
    length = _HEADER.size + len(value)
    return (_HEADER.pack(length, *kind) + value).ljust(socket.CMSG_SPACE(len(value)), b"\0")
