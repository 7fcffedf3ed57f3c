"""Addresses as the kernel has them: struct sockaddr_in and struct sockaddr_in6.

Batches name the other side by these bytes, and two names are the same address exactly when the bytes are equal: the
kernel zeroes the padding of the one (linux/in.h), and flow label and scope of the other are zero for every address
that is not link-local (linux/in6.h).
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from meshwatchd.model.errors import DecodeError

_PORT: Final = struct.Struct(">H")
_IPV4: Final = struct.Struct("@H 2s 4s 8x")
"""sin_family, sin_port (network byte order), sin_addr, padding: 16 bytes."""
_IPV6: Final = struct.Struct("@H 2s I 16s I")
"""sin6_family, sin6_port (network byte order), sin6_flowinfo, sin6_addr, sin6_scope_id: 28 bytes."""
_IPV6_BYTES: Final = 16
_LINK_LOCAL: Final = 0xFE80
_LINK_LOCAL_MASK: Final = 0xFFC0


def family_of(address: str) -> socket.AddressFamily:
    """The family of an address literal, by its look."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def pack_address(address: str) -> bytes:
    """The 4 or 16 bytes of an address literal, in network byte order.

    Raises:
        DecodeError: it is no literal, or a link-local one: those mean something only with an interface, which the
            plan of a session does not have.
    """
    try:
        packed = socket.inet_pton(family_of(address), address)
    except OSError as error:
        raise DecodeError("address", f"{address} is neither an IPv4 nor an IPv6 address") from error
    if len(packed) == _IPV6_BYTES and _PORT.unpack_from(packed)[0] & _LINK_LOCAL_MASK == _LINK_LOCAL:
        raise DecodeError("address", f"{address} is link-local; use a global or a unique local address")
    return packed


def pack_name(address: str, port: int) -> bytes:
    """The sockaddr of an address literal and a port.

    Raises:
        DecodeError: see `pack_address`.
    """
    packed = pack_address(address)
    if family_of(address) == socket.AF_INET:
        return _IPV4.pack(socket.AF_INET, _PORT.pack(port), packed)
    return _IPV6.pack(socket.AF_INET6, _PORT.pack(port), 0, packed, 0)


def unpack_name(name: bytes) -> tuple[bytes, int]:
    """Packed address and port of a sockaddr; an empty address when it is none of the two families."""
    if len(name) == _IPV4.size:
        _family, port, packed = _IPV4.unpack(name)
    elif len(name) == _IPV6.size:
        _family, port, _flow, packed, _scope = _IPV6.unpack(name)
    else:
        return b"", 0
    return packed, _PORT.unpack(port)[0]
