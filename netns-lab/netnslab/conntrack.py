"""Connection tracking of one namespace by netlink: flush it, fill it, and take the filling out again.

Debian's conntrack(8) would do the first two for its own package; filling a table of 262 144 by starting it so often
would take minutes. The limit cannot be lowered instead: nf_conntrack_max belongs to the machine.

Messages: linux/netfilter/nfnetlink_conntrack.h. Every attribute that carries a number is big-endian.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant

NETLINK_NETFILTER = 12
NFNL_SUBSYS_CTNETLINK = 1
IPCTNL_MSG_CT_NEW = 0
IPCTNL_MSG_CT_DELETE = 2
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLA_F_NESTED = 0x8000

CTA_TUPLE_ORIG = 1
CTA_TUPLE_REPLY = 2
CTA_STATUS = 3
CTA_TIMEOUT = 7
CTA_TUPLE_IP = 1
CTA_TUPLE_PROTO = 2
CTA_IP_V4_SRC = 1
CTA_IP_V4_DST = 2
CTA_PROTO_NUM = 1
CTA_PROTO_SRC_PORT = 2
CTA_PROTO_DST_PORT = 3

# An assured entry is not dropped early to make room for another.
IPS_SEEN_REPLY = 0x2
IPS_ASSURED = 0x4
IPS_CONFIRMED = 0x8

TIMEOUT_S = 3600
# Filling goes by addresses that TEST-NET-2 and its like keep free, 60 000 ports each.
PORTS = range(1024, 61024)
BATCH = 200
COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")
LIMIT = Path("/proc/sys/net/netfilter/nf_conntrack_max")


def flush(place: Inhabitant) -> None:
    """Forget every connection of a namespace, as a NAT does that was restarted."""
    place.space.call(partial(_talk, [_message(IPCTNL_MSG_CT_DELETE, 0, b"")]))


def fill(place: Inhabitant) -> int:
    """Fill the table with assured connections of nobody's, to the limit.

    Returns:
        how many entries the namespace has afterwards.

    Raises:
        LabError: the kernel refused, or tracks no connections here.
    """
    return place.space.call(_fill)


def count(place: Inhabitant) -> int:
    """How many connections a namespace tracks."""
    return place.space.call(lambda: int(COUNT.read_text(encoding="ascii")))


def new_entry(number: int) -> bytes:
    """The request that makes one assured connection of nobody's; the number tells it from others."""
    source = f"198.18.{number // len(PORTS)}.1"
    entry = _entry(source, "198.18.255.1", PORTS[number % len(PORTS)])
    return _message(IPCTNL_MSG_CT_NEW, NLM_F_CREATE | NLM_F_EXCL, entry)


def _fill() -> int:
    wanted = int(LIMIT.read_text(encoding="ascii")) - int(COUNT.read_text(encoding="ascii"))
    _talk(map(new_entry, range(wanted)))
    return int(COUNT.read_text(encoding="ascii"))


def _entry(source: str, destination: str, port: int) -> bytes:
    there = _tuple(CTA_TUPLE_ORIG, source, destination, (port, 9))
    back = _tuple(CTA_TUPLE_REPLY, destination, source, (9, port))
    status = _attribute(CTA_STATUS, struct.pack(">I", IPS_SEEN_REPLY | IPS_ASSURED | IPS_CONFIRMED))
    return there + back + status + _attribute(CTA_TIMEOUT, struct.pack(">I", TIMEOUT_S))


def _tuple(kind: int, source: str, destination: str, ports: tuple[int, int]) -> bytes:
    addresses = _attribute(CTA_IP_V4_SRC, socket.inet_aton(source)) + _attribute(
        CTA_IP_V4_DST, socket.inet_aton(destination)
    )
    protocol = (
        _attribute(CTA_PROTO_NUM, bytes((socket.IPPROTO_UDP,)))
        + _attribute(CTA_PROTO_SRC_PORT, struct.pack(">H", ports[0]))
        + _attribute(CTA_PROTO_DST_PORT, struct.pack(">H", ports[1]))
    )
    nested = _attribute(CTA_TUPLE_IP | NLA_F_NESTED, addresses) + _attribute(CTA_TUPLE_PROTO | NLA_F_NESTED, protocol)
    return _attribute(kind | NLA_F_NESTED, nested)


def _attribute(kind: int, payload: bytes) -> bytes:
    """One nlattr: length and type in the machine's order, padded to four bytes."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def _message(kind: int, flags: int, attributes: bytes) -> bytes:
    """One nfnetlink request for IPv4: nlmsghdr, nfgenmsg (family, version, resource id), attributes."""
    body = struct.pack("=BBH", socket.AF_INET, 0, 0) + attributes
    header = struct.pack("=IHHII", 16 + len(body), NFNL_SUBSYS_CTNETLINK << 8 | kind, NLM_F_REQUEST | flags, 0, 0)
    return header + body


def _talk(messages: Iterable[bytes]) -> None:
    """Send requests in batches; the last of each asks for an acknowledgement, which says that all were done."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as channel:
        channel.bind((0, 0))
        channel.settimeout(5.0)
        batch: list[bytes] = []
        for message in messages:
            batch.append(message)
            if len(batch) == BATCH:
                _send(channel, batch)
                batch.clear()
        if batch:
            _send(channel, batch)


def _send(channel: socket.socket, batch: list[bytes]) -> None:
    *first, last = batch
    flags = struct.unpack_from("=H", last, 6)[0] | NLM_F_ACK
    channel.send(b"".join(first) + last[:6] + struct.pack("=H", flags) + last[8:])
    try:
        answer = channel.recv(65536)
    except OSError as lost:
        if lost.errno != errno.ENOBUFS:
            raise
        return  # each of a batch is refused by itself once the table is full: more refusals than the socket holds
    error = struct.unpack_from("=i", answer, 16)[0]
    if error and -error != errno.ENOMEM:  # a full table: a connection of somebody else took the last place
        raise LabError(f"connection tracking refused with errno {-error}; is nf_conntrack_netlink there?")
