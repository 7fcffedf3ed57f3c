"""TCP connections that the kernel tracks between two sets of prefixes, and a mark on them that forgives gaps.

A relay that has seen a connection begin knows which sequence numbers are due. Traffic that was elsewhere for a while
comes back with later ones: connection tracking calls these packets INVALID for as long as the connection lasts, and
kube-proxy drops what is INVALID. A connection that a relay meets in the middle carries BE_LIBERAL and is never judged
by its numbers. This module sets that flag on connections that are tracked already; it removes and adds none.

    IPCTNL_MSG_CT_GET  dump    -> struct nfgenmsg, CTA_TUPLE_ORIG, CTA_PROTOINFO, ... of every connection
    IPCTNL_MSG_CT_NEW          <- struct nfgenmsg, CTA_TUPLE_ORIG as it came, CTA_PROTOINFO: state as it was, flags

Source: tcp_in_window() and nlattr_to_tcp() in net/netfilter/nf_conntrack_proto_tcp.c, ctnetlink_new_conntrack() in
net/netfilter/nf_conntrack_netlink.c; linux/netfilter/nfnetlink_conntrack.h, nf_conntrack_tcp.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    Message,
    attributes,
    encode,
    encode_attribute,
    error_of,
    split,
)
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.rule_window import Prefix

_NETLINK_NETFILTER: Final = 12
_CT_NEW, _CT_GET = 0x100, 0x101
_NESTED: Final = 0x8000
_HEADER: Final = struct.Struct("=BBH")
"""struct nfgenmsg: family, version 0, resource id 0."""

_TUPLE_ORIG, _PROTOINFO = 1, 4
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_IP_SRC, _IP_DST, _PROTO_NUM = 1, 2, 1
_PROTOINFO_TCP: Final = 1
_TCP_STATE, _TCP_FLAGS_ORIG, _TCP_FLAGS_REPLY = 1, 4, 5
_BE_LIBERAL: Final = 0x08
_TCP: Final = 6

_TIMEOUT_S: Final = 5.0
_DATAGRAM_BYTES: Final = 1 << 18

COUNT: Final = Path("/proc/sys/net/netfilter/nf_conntrack_count")
"""Not there where nothing is tracked."""


class Connection(NamedTuple):
    """One TCP connection.

    Attributes:
        source, destination: of its first packet, 4 bytes each, network byte order.
        identity: the value of CTA_TUPLE_ORIG.
        state: TCP_CONNTRACK_*.
        is_liberal: neither direction is judged by its sequence numbers.
    """

    source: bytes
    destination: bytes
    identity: bytes
    state: int
    is_liberal: bool


@Door("netlink conntrack")
def decode_connection(body: bytes) -> Connection | None:
    """The connection of one message of a dump; None for what is no TCP over IPv4, or is being torn down.

    Raises:
        DecodeError: an attribute is cut short.
    """
    found = attributes(body, _HEADER.size)
    identity = found.get(_TUPLE_ORIG, b"")
    parts = attributes(identity, 0)
    addresses, protocol = attributes(parts.get(_TUPLE_IP, b""), 0), attributes(parts.get(_TUPLE_PROTO, b""), 0)
    tcp = attributes(attributes(found.get(_PROTOINFO, b""), 0).get(_PROTOINFO_TCP, b""), 0)
    source, destination, state = addresses.get(_IP_SRC), addresses.get(_IP_DST), tcp.get(_TCP_STATE)
    if protocol.get(_PROTO_NUM) != bytes((_TCP,)) or source is None or destination is None or not state:
        return None
    flags = [tcp.get(each, b"\0")[:1] for each in (_TCP_FLAGS_ORIG, _TCP_FLAGS_REPLY)]
    is_liberal = all(each and each[0] & _BE_LIBERAL for each in flags)
    return Connection(source, destination, identity, state[0], is_liberal)


def encode_relaxation(connection: Connection) -> bytes:
    """The body that sets BE_LIBERAL on both directions of a connection, and leaves its state as it was."""
    flag = bytes((_BE_LIBERAL, _BE_LIBERAL))  # struct nf_ct_tcp_flags: flags, mask
    tcp = encode_attribute(_TCP_STATE, bytes((connection.state,)))
    tcp += encode_attribute(_TCP_FLAGS_ORIG, flag) + encode_attribute(_TCP_FLAGS_REPLY, flag)
    info = encode_attribute(_PROTOINFO | _NESTED, encode_attribute(_PROTOINFO_TCP | _NESTED, tcp))
    identity = encode_attribute(_TUPLE_ORIG | _NESTED, connection.identity)
    return _HEADER.pack(socket.AF_INET, 0, 0) + identity + info


def is_tracking() -> bool:
    """Whether this network namespace tracks connections."""
    return COUNT.exists()


def relax(near: Iterable[str], far: Iterable[str]) -> int:
    """Have the kernel forgive gaps in every TCP connection between two sets of IPv4 prefixes.

    Blocks for as long as the kernel lists its connections: some microseconds for each.

    Returns:
        how many connections were changed.

    Raises:
        KernelError: connections cannot be listed, or one cannot be changed.
        DecodeError: what the kernel says is cut short.
    """
    ends = _Ends(near), _Ends(far)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    try:
        with socket.socket(socket.AF_NETLINK, kind, _NETLINK_NETFILTER) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            wanted = [each for each in _listed(kernel) if not each.is_liberal and _is_between(each, *ends)]
            return sum(_ask(kernel, number, each) for number, each in enumerate(wanted, start=2))
    except OSError as error:
        number = error.errno or errno.ETIMEDOUT
        raise KernelError("conntrack", number, os.strerror(number)) from error


class _Ends:
    """Whether an address is in one of some prefixes."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        networks = [IPv4Network(each, strict=False) for each in prefixes]
        self._prefixes = {Prefix(int(each.network_address), each.prefixlen) for each in networks}
        self._lengths = sorted({each.length for each in self._prefixes})

    def holds(self, address: bytes) -> bool:
        alone = Prefix(int.from_bytes(address, "big"), 32)
        return any(alone.within(each) in self._prefixes for each in self._lengths)


def _is_between(connection: Connection, near: _Ends, far: _Ends) -> bool:
    source, destination = connection.source, connection.destination
    return (near.holds(source) and far.holds(destination)) or (far.holds(source) and near.holds(destination))


def _listed(kernel: socket.socket) -> Iterator[Connection]:
    kernel.send(encode(_CT_GET, NLM_F_REQUEST | NLM_F_DUMP, 1, _HEADER.pack(socket.AF_INET, 0, 0)))
    for message in _answers(kernel):
        try:
            connection = decode_connection(message.body)
        except DecodeError:
            continue
        if connection is not None:
            yield connection


def _answers(kernel: socket.socket) -> Iterator[Message]:
    """Messages until the kernel is done.

    Raises:
        OSError: it refuses.
    """
    while True:
        for message in split(kernel.recv(_DATAGRAM_BYTES)):
            if message.kind in (NLMSG_DONE, NLMSG_ERROR):
                number = -error_of(message.body) if message.body else 0
                if number:
                    raise OSError(number, os.strerror(number))
                return
            yield message


def _ask(kernel: socket.socket, number: int, connection: Connection) -> bool:
    """Change one connection; False if it has ended meanwhile."""
    kernel.send(encode(_CT_NEW, NLM_F_REQUEST | NLM_F_ACK, number, encode_relaxation(connection)))
    try:
        for _ in _answers(kernel):
            pass
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True
