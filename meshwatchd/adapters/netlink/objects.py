"""Links, addresses and routes as our types, straight from netlink.

`decode` has the same for what pyroute2 has decoded; tests hold the two against each other.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.compact import Packed, RouteEntry
from meshwatchd.adapters.netlink.decode import IFF_UP, RTN_UNICAST, RouteRecord
from meshwatchd.adapters.netlink.message import attributes, text_of
from meshwatchd.model.decoding import Door
from meshwatchd.model.plan import Route
from meshwatchd.model.snapshot import Geneve, Link, Vxlan

LINK: Final = struct.Struct("=B3xiII")
"""struct ifinfomsg: family, index, flags, change."""
ADDRESS: Final = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, index."""

_LLADDR, _IFNAME, _MTU, _LINKINFO, _KIND, _DATA = 1, 3, 4, 18, 1, 2
_VNI, _GROUP, _VXLAN_LINK, _LOCAL, _PORT, _GROUP6, _LOCAL6, _COLLECT_METADATA = 1, 2, 3, 4, 15, 16, 17, 25
_GENEVE_ID, _GENEVE_REMOTE, _GENEVE_PORT, _GENEVE_REMOTE6 = 1, 2, 5, 7
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_SECONDARY: Final = 0x01
"""linux/if_addr.h; IFA_F_TEMPORARY, of IPv6, is the same bit."""
_ADDRESS_BYTES: Final = (4, 16)
_MAC_BYTES: Final = 6
_U32: Final = struct.Struct("=I")
_LINK_VALUE: Final = struct.Struct("=?IB")
"""is_up, MTU, length of the link-layer address; that, kind, NUL, name, NUL and the kind's own follow."""
_VXLAN: Final = struct.Struct("=IIH?B")
"""VNI, lower device, port, collect metadata, length of the local address; that and the remote one follow."""
_GENEVE: Final = struct.Struct("=IH")
"""VNI, port; the remote address follows."""
_PORT_ON_WIRE: Final = struct.Struct("!H")
_ADDRESS_KEY: Final = struct.Struct("=IB")


class Address(NamedTuple):
    """An address on a device; family AF_INET or AF_INET6, scope as in linux/rtnetlink.h (0 is global).

    Attributes:
        is_secondary: of IPv4, that its network had another one before; of IPv6, that it lasts for days (RFC 8981).
    """

    ifindex: int
    family: int
    scope: int
    address: bytes
    length: int
    is_secondary: bool = False


@Door("netlink link")
def pack_link(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWLINK or RTM_DELLINK into key (the index) and value; None for a bridge port's attributes.

    Raises:
        DecodeError: the bytes are cut short, or a name is no UTF-8.
    Source: linux/if_link.h, rtnl_fill_ifinfo() in net/core/rtnetlink.c.
    """
    family, index, flags, _change = LINK.unpack_from(body)
    if family != socket.AF_UNSPEC:
        return None
    found = attributes(body, LINK.size)
    info = attributes(found.get(_LINKINFO, b""), 0)
    kind = text_of(info.get(_KIND))
    packing = _PACKING.get(kind)
    own = packing(info.get(_DATA, b"")) if packing is not None else b""
    name = text_of(found.get(_IFNAME))
    (mtu,) = _U32.unpack(found.get(_MTU, bytes(4)))
    lladdr = found.get(_LLADDR, b"")
    if len(lladdr) != _MAC_BYTES:
        lladdr = b""  # tunl0 has its outer address in there
    head = _LINK_VALUE.pack(bool(flags & IFF_UP), mtu, len(lladdr)) + lladdr
    return index_key(index), (b"\0".join((head + kind, name, own)),)


def _pack_vxlan(data: bytes) -> bytes:
    """VXLAN's own attributes, those that decide where packets go."""
    found = attributes(data, 0)
    (vni,), (lower,) = _U32.unpack(found.get(_VNI, bytes(4))), _U32.unpack(found.get(_VXLAN_LINK, bytes(4)))
    (port,) = _PORT_ON_WIRE.unpack(found.get(_PORT, bytes(2)))
    is_external = found.get(_COLLECT_METADATA, b"\0") != b"\0"
    local, remote = (found.get(v4) or found.get(v6) or b"" for v4, v6 in ((_LOCAL, _LOCAL6), (_GROUP, _GROUP6)))
    return _VXLAN.pack(vni, lower, port, is_external, len(local)) + local + remote


def _pack_geneve(data: bytes) -> bytes:
    """Geneve's own attributes, likewise."""
    found = attributes(data, 0)
    (vni,) = _U32.unpack(found.get(_GENEVE_ID, bytes(4)))
    (port,) = _PORT_ON_WIRE.unpack(found.get(_GENEVE_PORT, bytes(2)))
    return _GENEVE.pack(vni, port) + (found.get(_GENEVE_REMOTE) or found.get(_GENEVE_REMOTE6) or b"")


_PACKING: Final = {b"vxlan": _pack_vxlan, b"geneve": _pack_geneve}


def index_key(index: int) -> bytes:
    """The key of a link."""
    return _U32.pack(index)


def unpack_link(key: bytes, value: bytes) -> Link:
    """The Link of a key and its value, without addresses."""
    (index,) = _U32.unpack(key)
    is_up, mtu_bytes, size = _LINK_VALUE.unpack_from(value)
    offset = _LINK_VALUE.size + size
    kind, name, own = value[offset:].split(b"\0", 2)
    return Link(
        name=name.decode(errors="replace") or f"#{index}",
        index=index,
        kind=kind.decode(errors="replace"),
        is_up=is_up,
        mtu_bytes=mtu_bytes,
        lladdr=value[_LINK_VALUE.size : offset].hex(":"),
        vxlan=_unpack_vxlan(own) if kind == b"vxlan" else None,
        geneve=_unpack_geneve(own) if kind == b"geneve" else None,
    )


def _unpack_vxlan(packed: bytes) -> Vxlan:
    vni, lower, port, is_external, size = _VXLAN.unpack_from(packed)
    local, remote = packed[_VXLAN.size : _VXLAN.size + size], packed[_VXLAN.size + size :]
    return Vxlan(
        vni=vni,
        port=port,
        local=_render_known(local),
        lower=lower,
        is_external=is_external,
        remote=_render_known(remote),
    )


def _unpack_geneve(packed: bytes) -> Geneve:
    vni, port = _GENEVE.unpack_from(packed)
    return Geneve(vni=vni, port=port, remote=_render_known(packed[_GENEVE.size :]))


def _render_known(address: bytes) -> str:
    """Of a tunnel's end; empty for none, and for that of all zeros."""
    return render_address(address) if any(address) else ""


@Door("netlink address")
def pack_address(body: bytes) -> Packed | None:
    """Turn the body of RTM_NEWADDR or RTM_DELADDR into key and value; None for other families.

    Raises:
        DecodeError: the bytes are cut short.
    Source: inet_fill_ifaddr(): IFA_LOCAL is this end's address; IPv6 has it on point-to-point links only.
    """
    family, length, flags, scope, index = ADDRESS.unpack_from(body)
    found = attributes(body, ADDRESS.size)
    address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS) or b""
    if family not in {socket.AF_INET, socket.AF_INET6} or len(address) not in _ADDRESS_BYTES:
        return None
    is_secondary = bool(flags & _IFA_F_SECONDARY)
    return _ADDRESS_KEY.pack(index, family) + address, (bytes((scope, length, is_secondary)),)


def unpack_address(key: bytes, value: bytes) -> Address:
    """The Address of a key and its value."""
    index, family = _ADDRESS_KEY.unpack_from(key)
    return Address(index, family, value[0], key[_ADDRESS_KEY.size :], value[1], bool(value[2]))


def in_order(held: Iterable[Address], family: int) -> list[Address]:
    """The addresses of a device, what the node is known by first.

    It goes by the first one where nobody names its address. Last come those that stay for a while: temporary ones of
    IPv6, and those of virtual routers and API servers (keepalived, kube-vip), which go from node to node.
    """

    def rank(each: Address) -> tuple[int, bool, bool, str]:
        is_alone = (each.family, each.length) == (socket.AF_INET, 32)
        return each.scope, each.is_secondary, is_alone, render_address(each.address)

    return sorted((each for each in held if each.family == family), key=rank)


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
    """An IPv4 route kept in compact form; a route into an unknown device gets "#INDEX" as its device."""
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
