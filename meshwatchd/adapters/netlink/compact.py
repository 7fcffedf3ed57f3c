"""Routes, neighbours and FDB entries as a few dozen bytes each, straight from netlink.

A node has tens of thousands of them, of which a handful is ever looked at. So each is kept as a key and a value of
bytes, and becomes an object only when somebody asks. What the model does not use (metrics, cache information, flags
that change without notice) is left out, so that equal bytes mean an equal route.

    route      key    family, lengths, TOS, table, metric, destination, source prefix
               value  type, scope, protocol, preferred source, next hops; for IPv6 one value for each next hop
    neighbour  key    family, device, address              value  state, flags, link-layer address
    FDB entry  key    device, VLAN, source VNI, MAC        value  state, flags, remote address

An IPv6 route of several next hops is several routes to the kernel, added and deleted one by one; an IPv4 route is one.
Likewise a MAC of many (multicast, or zeros) has many remotes, and each is an entry of its own.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink.message import attributes
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError

ROUTE: Final = struct.Struct("=8BI")
"""struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags."""
NEIGHBOUR: Final = struct.Struct("=B3xiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""

AF_BRIDGE = 7
RTM_F_CLONED = 0x200
"""A cached copy of a route, not a route."""
RTNH_F_ONLINK = 0x4
NTF_PROXY = 0x8
NUD_NOARP = 0x40
"""Multicast and loopback: made by the kernel for itself, without notice."""

_DST, _SRC, _OIF, _GATEWAY, _PRIORITY, _PREFSRC, _MULTIPATH, _TABLE, _VIA = 1, 2, 4, 5, 6, 7, 9, 15, 18
_NDA_DST, _NDA_LLADDR, _NDA_VLAN, _NDA_SRC_VNI = 1, 2, 5, 11

_ROUTE_KEY: Final = struct.Struct("=BBBBII")
_ROUTE_VALUE: Final = struct.Struct("=BBBB")
_HOP: Final = struct.Struct("=IBBB")
_NEXT_HOP: Final = struct.Struct("=HBBi")
"""struct rtnexthop: length with attributes, flags, weight - 1, ifindex."""
_NEIGHBOUR_KEY: Final = struct.Struct("=BI")
_FDB_KEY: Final = struct.Struct("=IHI6s")
_STATE: Final = struct.Struct("=HB")
_U32: Final = struct.Struct("=I")
_U16: Final = struct.Struct("=H")
_ZERO32: Final = bytes(4)
_GROUP_BIT: Final = 0x01
_MAC_BYTES: Final = 6
_ADDRESS_BYTES: Final = {socket.AF_INET: 4, socket.AF_INET6: 16}


class Hop(NamedTuple):
    """One next hop.

    Attributes:
        gateway: 4 or 16 bytes; 18 for a gateway of another family (struct rtvia); empty without one.
        weight: as RTA_MULTIPATH has it, one less than what `ip` shows.
    """

    ifindex: int
    flags: int
    weight: int
    gateway: bytes


class RouteEntry(NamedTuple):
    """A route unpacked; addresses are bytes, empty where absent."""

    family: int
    dst_len: int
    tos: int
    table: int
    metric: int
    dst: bytes
    kind: int
    scope: int
    protocol: int
    prefsrc: bytes
    hops: tuple[Hop, ...]


class NeighbourEntry(NamedTuple):
    """A neighbour unpacked."""

    family: int
    ifindex: int
    address: bytes
    state: int
    lladdr: bytes


class FdbEntry(NamedTuple):
    """A forwarding entry of a VXLAN device unpacked; `dst` is the remote VTEP, 4 or 16 bytes."""

    ifindex: int
    mac: bytes
    state: int
    dst: bytes


Packed = tuple[bytes, tuple[bytes, ...]]
"""A key and its values."""


@Door("netlink route")
def pack_route(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWROUTE or RTM_DELROUTE into key and values; None for what is no route.

    Raises:
        DecodeError: the bytes are cut short.
    Source: linux/rtnetlink.h; fib_dump_info() in net/ipv4/fib_semantics.c, rt6_fill_node() in net/ipv6/route.c.
    """
    family, dst_len, src_len, tos, table, protocol, scope, kind, flags = ROUTE.unpack_from(body)
    if flags & RTM_F_CLONED or family not in _ADDRESS_BYTES:
        return None
    found = attributes(body, ROUTE.size)
    get = found.get
    if _TABLE in found:
        (table,) = _U32.unpack(found[_TABLE])
    (metric,) = _U32.unpack(get(_PRIORITY, _ZERO32))
    key = _ROUTE_KEY.pack(family, dst_len, src_len, tos, table, metric) + get(_DST, b"") + get(_SRC, b"")
    source = get(_PREFSRC, b"")
    head = _ROUTE_VALUE.pack(kind, scope, protocol, len(source)) + source
    hops = _pack_hops(found, flags)
    if family == socket.AF_INET6:
        return key, tuple(head + hop for hop in hops) or (head,)
    return key, (head + b"".join(hops),)


def unpack_route(key: bytes, value: bytes) -> RouteEntry:
    """The route of a key and one of its values."""
    family, dst_len, _src_len, tos, table, metric = _ROUTE_KEY.unpack_from(key)
    size = _ADDRESS_BYTES[family] if dst_len else 0
    kind, scope, protocol, source_size = _ROUTE_VALUE.unpack_from(value)
    offset = _ROUTE_VALUE.size + source_size
    source, hops = value[_ROUTE_VALUE.size : offset], []
    while offset < len(value):
        index, flags, weight, gateway_size = _HOP.unpack_from(value, offset)
        offset += _HOP.size + gateway_size
        hops.append(Hop(index, flags, weight, value[offset - gateway_size : offset]))
    dst = key[_ROUTE_KEY.size : _ROUTE_KEY.size + size]
    return RouteEntry(family, dst_len, tos, table, metric, dst, kind, scope, protocol, source, tuple(hops))


def table_of(key: bytes) -> int:
    """The routing table of a route's key."""
    return int(_U32.unpack_from(key, 4)[0])


def family_of(key: bytes) -> int:
    """The address family of a route's or neighbour's key."""
    return key[0]


def protocol_of(value: bytes) -> int:
    """The protocol of a route's value."""
    return value[2]


@Door("netlink neighbour")
def pack_neighbour(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWNEIGH or RTM_DELNEIGH of an IP family into key and value.

    Returns:
        None for proxy entries and for those the kernel makes of itself: multicast and broadcast, and on devices
        without addresses of their own. An entry without ARP and with somebody's MAC is a program's, for good.

    Raises:
        DecodeError: the bytes are cut short.
    Source: linux/neighbour.h, neigh_fill_info() in net/core/neighbour.c.
    """
    family, index, state, flags, _kind = NEIGHBOUR.unpack_from(body)
    found = attributes(body, NEIGHBOUR.size)
    mac = found.get(_NDA_LLADDR, b"")
    is_made = bool(state & NUD_NOARP) and (len(mac) != _MAC_BYTES or bool(mac[0] & _GROUP_BIT) or not any(mac))
    if flags & NTF_PROXY or is_made or family not in _ADDRESS_BYTES or _NDA_DST not in found:
        return None
    value = _STATE.pack(state, flags) + mac
    return _NEIGHBOUR_KEY.pack(family, index) + found[_NDA_DST], (value,)


def unpack_neighbour(key: bytes, value: bytes) -> NeighbourEntry:
    """The neighbour of a key and its value."""
    family, index = _NEIGHBOUR_KEY.unpack_from(key)
    state, _flags = _STATE.unpack_from(value)
    return NeighbourEntry(family, index, key[_NEIGHBOUR_KEY.size :], state, value[_STATE.size :])


@Door("netlink FDB entry")
def pack_fdb(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWNEIGH or RTM_DELNEIGH of family AF_BRIDGE into key and value.

    Returns:
        None for entries without a remote: a bridge's ports and a network card's own filters.

    Raises:
        DecodeError: the bytes are cut short.
    Source: vxlan_fdb_info() in drivers/net/vxlan/vxlan_core.c.
    """
    _family, index, state, flags, _kind = NEIGHBOUR.unpack_from(body)
    found = attributes(body, NEIGHBOUR.size)
    remote, mac = found.get(_NDA_DST), found.get(_NDA_LLADDR, b"")
    if remote is None or len(mac) != _MAC_BYTES:
        return None
    (vlan,) = _U16.unpack(found.get(_NDA_VLAN, b"\0\0"))
    (vni,) = _U32.unpack(found.get(_NDA_SRC_VNI, _ZERO32))
    key = _FDB_KEY.pack(index, vlan, vni, mac)
    if mac[0] & _GROUP_BIT or not any(mac):
        key += remote
    return key, (_STATE.pack(state, flags) + remote,)


def unpack_fdb(key: bytes, value: bytes) -> FdbEntry:
    """The FDB entry of a key and its value."""
    index, _vlan, _vni, mac = _FDB_KEY.unpack_from(key)
    state, _flags = _STATE.unpack_from(value)
    return FdbEntry(index, mac, state, value[_STATE.size :])


def index_of_neighbour(key: bytes) -> int:
    """The interface index in a neighbour's key."""
    return int(_U32.unpack_from(key, 1)[0])


def index_of_fdb(key: bytes) -> int:
    """The interface index in an FDB entry's key."""
    return int(_U32.unpack_from(key)[0])


def leads_into(value: bytes, indices: frozenset[int]) -> bool:
    """Whether a route's value has a next hop on one of the devices."""
    offset = _ROUTE_VALUE.size + value[3]
    while offset < len(value):
        index, _flags, _weight, size = _HOP.unpack_from(value, offset)
        if index in indices:
            return True
        offset += _HOP.size + size
    return False


def first_hop(value: bytes) -> tuple[int, bytes]:
    """Device and gateway of a route's first next hop; (0, empty) for a route without one."""
    offset = _ROUTE_VALUE.size + value[3]
    if offset >= len(value):
        return 0, b""
    index, _flags, _weight, size = _HOP.unpack_from(value, offset)
    return index, value[offset + _HOP.size : offset + _HOP.size + size]


def is_onlink(value: bytes) -> bool:
    """Whether a route's first next hop has a gateway that is reachable whatever the device's addresses say."""
    offset = _ROUTE_VALUE.size + value[3]
    return offset < len(value) and bool(_HOP.unpack_from(value, offset)[1] & RTNH_F_ONLINK)


def length_of(key: bytes) -> int:
    """The prefix length of a route's destination."""
    return key[1]


def is_multipath(value: bytes) -> bool:
    """Whether a route's value has several next hops."""
    offset = _ROUTE_VALUE.size + value[3]
    return len(value) > offset and offset + _HOP.size + value[offset + _HOP.size - 1] < len(value)


def _pack_hops(found: dict[int, bytes], flags: int) -> list[bytes]:
    several = found.get(_MULTIPATH)
    if several is None:
        if _OIF not in found and _GATEWAY not in found and _VIA not in found:
            return []
        (index,) = _U32.unpack(found.get(_OIF, _ZERO32))
        return [_pack_hop(index, flags, 0, found)]
    hops, offset = [], 0
    while offset + _NEXT_HOP.size <= len(several):
        length, hop_flags, weight, index = _NEXT_HOP.unpack_from(several, offset)
        if length < _NEXT_HOP.size or offset + length > len(several):
            raise DecodeError("netlink next hop", f"length {length} at byte {offset} of {len(several)}")
        inside = attributes(several[: offset + length], offset + _NEXT_HOP.size)
        hops.append(_pack_hop(index, hop_flags, weight, inside))
        offset += (length + 3) & ~3
    return hops


def _pack_hop(index: int, flags: int, weight: int, found: dict[int, bytes]) -> bytes:
    gateway = found.get(_GATEWAY) or found.get(_VIA) or b""
    return _HOP.pack(index, flags & RTNH_F_ONLINK, weight, len(gateway)) + gateway
