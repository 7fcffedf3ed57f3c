"""Questions to the kernel: what it would do with a packet, and what it has counted. Nothing is ever changed.

One rtnetlink socket, asked and answered at once: the process has nothing else to do meanwhile.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.compact import (
    AF_BRIDGE,
    NEIGHBOUR,
    ROUTE,
    pack_fdb,
    pack_neighbour,
    unpack_fdb,
    unpack_neighbour,
)
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import KernelError

RTM_GETQDISC: Final = 38
ARPHRD_ETHER: Final = 1
NUD_INCOMPLETE, NUD_FAILED, NUD_PERMANENT = 0x01, 0x20, 0x80
_IFF_UP: Final = 0x1

_SOL_NETLINK: Final = 270
_STRICT: Final = 12
_IFINFO: Final = struct.Struct("=BxHiII")
_TC: Final = struct.Struct("=B3xiIII")
_NAME, _ADDRESS, _LINK, _LINKINFO, _STATS64, _CARRIER = 3, 1, 5, 18, 23, 33
_KIND, _DATA = 1, 2
_VNI, _VXLAN_LINK, _LOCAL, _PORT, _METADATA = 1, 3, 4, 15, 25
_RTA_DST, _RTA_SRC, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC = 1, 2, 4, 5, 7
_TCA_STATS2, _TCA_STATS_QUEUE = 7, 3
_NDA_IFINDEX: Final = 8
_TX_PACKETS, _TX_ERRORS, _TX_DROPPED, _TX_CARRIER = 1, 5, 7, 17
"""Places in struct rtnl_link_stats64 (linux/if_link.h)."""
_U32: Final = struct.Struct("=I")
_ERROR: Final = struct.Struct("=i")
_RECEIVE_BYTES: Final = 64 * 1024
_PATIENCE_S: Final = 1.0


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A network device.

    Attributes:
        kind: IFLA_INFO_KIND.
        lower: index of the device below, 0 for none.
        local: packed address of its tunnel's near end; empty where the routes choose it.
        port, vni: of a VXLAN device.
        collects_metadata: its packets' destination comes from elsewhere: a frame put into it is freed without a word.
    """

    name: str
    index: int
    kind: str
    is_up: bool
    has_carrier: bool
    is_ethernet: bool
    mac: bytes = b""
    lower: int = 0
    vni: int = 0
    port: int = 0
    local: bytes = b""
    collects_metadata: bool = False
    tx_packets: int = 0
    tx_dropped: int = 0
    tx_errors: int = 0
    tx_carrier_errors: int = 0


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """Where a packet goes next.

    Attributes:
        error: the kernel's refusal as an error name, "ENETUNREACH" where there is no route; empty if it has one.
        gateway, source: packed, empty where there is none.
    """

    index: int = 0
    gateway: bytes = b""
    source: bytes = b""
    error: str = ""


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """A neighbour entry; addresses packed, `state` of NUD_*."""

    address: bytes
    mac: bytes
    state: int

    @property
    def is_resolved(self) -> bool:
        """Whether packets for it can be sent."""
        return bool(self.mac) and not self.state & (NUD_INCOMPLETE | NUD_FAILED)


class Forwarding(msgspec.Struct, frozen=True, kw_only=True):
    """An FDB entry of a VXLAN device."""

    mac: bytes
    destination: bytes


class Kernel:
    """One socket to ask by; close it, or use it as a context."""

    def __init__(self) -> None:
        """Raises OSError when there is no rtnetlink."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.setsockopt(_SOL_NETLINK, _STRICT, 1)
        self._socket.settimeout(_PATIENCE_S)
        self._socket.bind((0, 0))
        self._sequence = 0

    def devices(self) -> dict[int, Device]:
        """All devices by index, with what they have counted."""
        bodies = self._ask(message.RTM_GETLINK, _IFINFO.pack(0, 0, 0, 0, 0), "devices", is_dump=True)
        return {device.index: device for device in map(read_device, bodies)}

    def hop(self, destination: bytes, source: bytes = b"") -> Hop:
        """What the routing policy says of a packet from here; nothing is sent."""
        header = ROUTE.pack(socket.AF_INET, 32, 32 if source else 0, 0, 0, 0, 0, 0, 0)
        attributes = message.encode_attribute(_RTA_DST, destination)
        if source:
            attributes += message.encode_attribute(_RTA_SRC, source)
        try:
            (body,) = self._ask(message.RTM_GETROUTE, header + attributes, "a route", is_dump=False)
        except KernelError as error:
            return Hop(error=errno.errorcode.get(error.errno, str(error.errno)))
        return read_hop(body)

    def neighbours(self, index: int) -> tuple[Neighbour, ...]:
        """The IPv4 neighbours of a device."""
        found = []
        for body in self._ask_neighbours(socket.AF_INET, index, "neighbours"):
            packed = pack_neighbour(body)
            if packed is not None:
                entry = unpack_neighbour(packed[0], packed[1][0])
                if entry.ifindex == index:
                    found.append(Neighbour(address=entry.address, mac=entry.lladdr, state=entry.state))
        return tuple(found)

    def forwarding(self, index: int) -> tuple[Forwarding, ...]:
        """The FDB entries of a VXLAN device that have a remote."""
        found = []
        for body in self._ask_neighbours(AF_BRIDGE, index, "FDB entries"):
            packed = pack_fdb(body)
            if packed is not None:
                entry = unpack_fdb(packed[0], packed[1][0])
                if entry.ifindex == index:
                    found.append(Forwarding(mac=entry.mac, destination=entry.dst))
        return tuple(found)

    def queue_drops(self, index: int) -> int:
        """Packets that the queues of a device have dropped; a device without a queue drops none."""
        bodies = self._ask(RTM_GETQDISC, _TC.pack(0, index, 0, 0, 0), "queues", is_dump=True)
        return sum(drops for at, drops in map(read_queue, bodies) if at == index)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _ask_neighbours(self, family: int, index: int, what: str) -> list[bytes]:
        header = NEIGHBOUR.pack(family, 0, 0, 0, 0) + message.encode_attribute(_NDA_IFINDEX, _U32.pack(index))
        return self._ask(message.RTM_GETNEIGH, header, what, is_dump=True)

    def _ask(self, kind: int, body: bytes, what: str, *, is_dump: bool) -> list[bytes]:
        """The bodies of the answers.

        Raises:
            KernelError: it was refused, or not answered within a second.
        """
        self._sequence += 1
        flags = message.NLM_F_REQUEST | (message.NLM_F_DUMP if is_dump else 0)
        try:
            self._socket.send(message.encode(kind, flags, self._sequence, body))
            return list(self._answers(what, is_dump=is_dump))
        except OSError as error:
            raise KernelError(f"ask for {what}", error.errno or errno.ETIMEDOUT, str(error)) from error

    def _answers(self, what: str, *, is_dump: bool) -> Iterator[bytes]:
        while True:
            for each in message.split(self._socket.recv(_RECEIVE_BYTES)):
                if each.sequence != self._sequence:
                    continue
                if each.kind == message.NLMSG_ERROR:
                    code = message.error_of(each.body)
                    raise KernelError(f"ask for {what}", -code, os.strerror(-code))
                if each.kind == message.NLMSG_DONE:
                    return
                yield each.body
                if not is_dump:
                    return


@Door("netlink link")
def read_device(body: bytes) -> Device:
    """Turn the body of RTM_NEWLINK into a Device.

    Raises:
        DecodeError: the bytes are cut short, or a name is no UTF-8.
    Source: rtnl_fill_ifinfo() in net/core/rtnetlink.c, vxlan_fill_info() in drivers/net/vxlan/vxlan_core.c.
    """
    _family, hardware, index, flags, _change = _IFINFO.unpack_from(body)
    found = message.attributes(body, _IFINFO.size)
    info = message.attributes(found.get(_LINKINFO, b""), 0)
    kind = info.get(_KIND, b"").rstrip(b"\0").decode()
    data = message.attributes(info.get(_DATA, b""), 0) if kind == "vxlan" else {}
    statistics = found.get(_STATS64, b"")
    counts = struct.unpack(f"={len(statistics) // 8}Q", statistics[: len(statistics) // 8 * 8])
    counts += (0,) * (_TX_CARRIER + 1 - len(counts))
    zero = bytes(4)
    return Device(
        name=found.get(_NAME, b"").rstrip(b"\0").decode(),
        index=index,
        kind=kind,
        is_up=bool(flags & _IFF_UP),
        has_carrier=found.get(_CARRIER, b"\1") != b"\0",
        is_ethernet=hardware == ARPHRD_ETHER,
        mac=found.get(_ADDRESS, b""),
        lower=_U32.unpack(data.get(_VXLAN_LINK, found.get(_LINK, zero)))[0],
        vni=_U32.unpack(data.get(_VNI, zero))[0],
        port=int.from_bytes(data.get(_PORT, b""), "big"),
        local=data.get(_LOCAL, b""),
        collects_metadata=data.get(_METADATA, b"\0") != b"\0",
        tx_packets=counts[_TX_PACKETS],
        tx_dropped=counts[_TX_DROPPED],
        tx_errors=counts[_TX_ERRORS],
        tx_carrier_errors=counts[_TX_CARRIER],
    )


@Door("netlink route")
def read_hop(body: bytes) -> Hop:
    """Turn the answer to RTM_GETROUTE into a Hop; raises DecodeError."""
    found = message.attributes(body, ROUTE.size)
    return Hop(
        index=_U32.unpack(found.get(_RTA_OIF, bytes(4)))[0],
        gateway=found.get(_RTA_GATEWAY, b""),
        source=found.get(_RTA_PREFSRC, b""),
    )


@Door("netlink queue")
def read_queue(body: bytes) -> tuple[int, int]:
    """Device index and drops of a queue, from the body of RTM_NEWQDISC (struct gnet_stats_queue).

    Raises:
        DecodeError: the bytes are cut short.
    """
    _family, index, _handle, _parent, _info = _TC.unpack_from(body)
    found = message.attributes(body, _TC.size)
    queue = message.attributes(found.get(_TCA_STATS2, b""), 0).get(_TCA_STATS_QUEUE, b"")
    return index, _U32.unpack_from(queue, 8)[0] if len(queue) >= 12 else 0
