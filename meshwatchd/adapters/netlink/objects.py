"""Links, addresses and routes as our types, straight from netlink.

`decode` has the same for what pyroute2 has decoded; tests hold the two against each other.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.compact import Packed, RouteEntry
from meshwatchd.adapters.netlink.decode import IFF_UP, RTN_UNICAST, RouteRecord
from meshwatchd.adapters.netlink.message import attributes
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Route
from meshwatchd.model.snapshot import Link

LINK: Final = struct.Struct("=B3xiII")
"""struct ifinfomsg: family, index, flags, change."""
ADDRESS: Final = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, index."""

_LLADDR, _IFNAME, _MTU, _LINKINFO, _KIND = 1, 3, 4, 18, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_ADDRESS_BYTES: Final = (4, 16)
_U32: Final = struct.Struct("=I")
_LINK_VALUE: Final = struct.Struct("=?IB6s")
_MAC_BYTES: Final = 6
_ADDRESS_KEY: Final = struct.Struct("=IB")


class Address(NamedTuple):
    """An address on a device; family AF_INET or AF_INET6, scope as in linux/rtnetlink.h (0 is global)."""

    ifindex: int
    family: int
    scope: int
    address: bytes


def pack_link(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWLINK or RTM_DELLINK into key (the index) and value; None for a bridge port's attributes.

    Raises:
        DecodeError: the bytes are cut short, or a name is no UTF-8.
    Source: linux/if_link.h, rtnl_fill_ifinfo() in net/core/rtnetlink.c.
    """
    try:
        family, index, flags, _change = LINK.unpack_from(body)
        if family != socket.AF_UNSPEC:
            return None
        found = attributes(body, LINK.size)
        kind = attributes(found.get(_LINKINFO, b""), 0).get(_KIND, b"").rstrip(b"\0")
        name = found.get(_IFNAME, b"").rstrip(b"\0")
        (mtu,) = _U32.unpack(found.get(_MTU, bytes(4)))
        mac = found.get(_LLADDR, b"")
    except struct.error as error:
        raise DecodeError("netlink link", str(error)) from error
    # Tunnels show their local IP address in this attribute: four bytes or sixteen are no MAC.
    has_mac = len(mac) == _MAC_BYTES
    head = _LINK_VALUE.pack(bool(flags & IFF_UP), mtu, has_mac, mac if has_mac else b"")
    return index_key(index), (head + kind + b"\0" + name,)


def index_key(index: int) -> bytes:
    """The key of a link."""
    return _U32.pack(index)


def unpack_link(key: bytes, value: bytes) -> Link:
    """The Link of a key and its value, without addresses."""
    (index,) = _U32.unpack(key)
    is_up, mtu_bytes, has_mac, mac = _LINK_VALUE.unpack_from(value)
    kind, _, name = value[_LINK_VALUE.size :].decode(errors="replace").partition("\0")
    return Link(
        name=name or f"#{index}",
        index=index,
        kind=kind,
        is_up=is_up,
        mtu_bytes=mtu_bytes,
        lladdr=mac.hex(":") if has_mac else "",
    )


def pack_address(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWADDR or RTM_DELADDR into key and value; None for other families.

    Raises:
        DecodeError: the bytes are cut short.
    Source: inet_fill_ifaddr(): IFA_LOCAL is this end's address; IPv6 has it on point-to-point links only.
    """
    try:
        family, _length, _flags, scope, index = ADDRESS.unpack_from(body)
    except struct.error as error:
        raise DecodeError("netlink address", str(error)) from error
    found = attributes(body, ADDRESS.size)
    address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS) or b""
    if family not in {socket.AF_INET, socket.AF_INET6} or len(address) not in _ADDRESS_BYTES:
        return None
    return _ADDRESS_KEY.pack(index, family) + address, (bytes((scope,)),)


def unpack_address(key: bytes, value: bytes) -> Address:
    """The Address of a key and its value."""
    index, family = _ADDRESS_KEY.unpack_from(key)
    return Address(index, family, value[0], key[_ADDRESS_KEY.size :])


def index_of(key: bytes) -> int:
    """The interface index in the key of a link or an address."""
    return int(_U32.unpack_from(key)[0])


def render_address(address: bytes) -> str:
    """An address of 4 or 16 bytes as text; of other lengths in hexadecimal."""
    if len(address) not in _ADDRESS_BYTES:
        return address.hex(":")
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def render_prefix(route: RouteEntry) -> str:
    """A route's destination; that of a default route is all zeros."""
    size = 4 if route.family == socket.AF_INET else 16
    return f"{render_address(route.dst.ljust(size, bytes(1)))}/{route.dst_len}"


def describe_route(key: bytes, value: bytes, devices: Mapping[int, str]) -> RouteRecord:
    """An IPv4 route kept in compact form as a RouteRecord.

    Args:
        key: of `compact.pack_route`.
        value: likewise.
        devices: names by interface index; a route into an unknown device gets "#INDEX" as its device.
    """
    entry = compact.unpack_route(key, value)
    dst = render_prefix(entry)
    hop = entry.hops[0] if len(entry.hops) == 1 else None
    route = None
    if hop is not None and hop.ifindex and len(hop.gateway) in {0, 4}:
        route = Route(
            dst=dst,
            table=entry.table,
            dev=devices.get(hop.ifindex, f"#{hop.ifindex}"),
            via=render_address(hop.gateway) if hop.gateway else None,
            src=render_address(entry.prefsrc) if entry.prefsrc else None,
        )
        is_plain = (entry.kind, entry.metric, entry.tos) == (RTN_UNICAST, 0, 0)
        if not is_plain or bool(hop.flags & compact.RTNH_F_ONLINK) != bool(hop.gateway):
            route = None
    return RouteRecord(
        dst=dst,
        table=entry.table,
        protocol=entry.protocol,
        metric=entry.metric,
        kind=entry.kind,
        route=route,
        text=f"route {route.render() if route is not None else f'{dst} table {entry.table}'}",
    )
