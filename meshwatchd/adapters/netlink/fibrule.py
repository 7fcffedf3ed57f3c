"""Policy routing rules as netlink messages, packed and parsed by hand.

Layout of a rule, host byte order (linux/fib_rules.h):

    offset  bytes  field
    0       1      family (AF_INET)
    1       1      length of the destination prefix, always 0 here
    2       1      length of the source prefix, always 0 here
    3       1      TOS, always 0 here
    4       1      table, when it fits
    5       2      reserved
    7       1      action (FR_ACT_TO_TBL or FR_ACT_GOTO)
    8       4      flags
    12      n      attributes, each padded to 4 bytes
"""

from __future__ import annotations

import functools
import socket
import struct
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink.message import attributes, encode_attribute
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Rule

FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_GOTO, FRA_PRIORITY, FRA_FWMARK = 1, 2, 3, 4, 6, 10
FRA_TABLE, FRA_OIFNAME, FRA_PROTOCOL, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE = 15, 17, 21, 22, 23, 24

_FR_ACT_TO_TBL, _FR_ACT_GOTO = 1, 2
_FIB_RULE_UNRESOLVED: Final = 4
"""Set by the kernel on a jump whose target does not exist yet."""
_RT_TABLE_UNSPEC: Final = 0
_SMALL_TABLES: Final = 256

RULE: Final = struct.Struct("=BBBBB2xBI")
"""struct fib_rule_hdr, as above."""
_U8: Final = struct.Struct("=B")
U32: Final = struct.Struct("=I")
PORT_RANGE: Final = struct.Struct("=HH")
"""struct fib_rule_port_range: first and last port; unlike ports in packets they are in host order."""


class KernelRule(NamedTuple):
    """A rule as the kernel shows it: what our vocabulary can say of it, and whose it is."""

    rule: Rule
    protocol: int


@functools.lru_cache(maxsize=512)
def encode_rule(rule: Rule, protocol: int) -> bytes:
    """The body of RTM_NEWRULE or RTM_DELRULE: everything behind the netlink header.

    Cached: failovers and failbacks of a node use the same few rules over and over.
    """
    table = rule.table if rule.table < _SMALL_TABLES else _RT_TABLE_UNSPEC
    action = _FR_ACT_TO_TBL if rule.goto is None else _FR_ACT_GOTO
    parts = [
        RULE.pack(socket.AF_INET, 0, 0, 0, table, action, 0),
        encode_attribute(FRA_PRIORITY, U32.pack(rule.priority)),
        encode_attribute(FRA_TABLE, U32.pack(rule.table)),
        encode_attribute(FRA_PROTOCOL, _U8.pack(protocol)),
    ]
    if rule.goto is not None:
        parts.append(encode_attribute(FRA_GOTO, U32.pack(rule.goto)))
    if rule.iif is not None:
        parts.append(encode_attribute(FRA_IIFNAME, rule.iif.encode() + b"\0"))
    if rule.sport is not None or rule.dport is not None:
        parts.append(encode_attribute(FRA_IP_PROTO, _U8.pack(socket.IPPROTO_UDP)))
    if rule.sport is not None:
        parts.append(encode_attribute(FRA_SPORT_RANGE, PORT_RANGE.pack(*rule.sport)))
    if rule.dport is not None:
        parts.append(encode_attribute(FRA_DPORT_RANGE, PORT_RANGE.pack(*rule.dport)))
    return b"".join(parts)


@Door("netlink rule")
def decode_rule(body: bytes) -> KernelRule | None:
    """Read one rule of a dump.

    Returns:
        None for a rule that says something `Rule` cannot say (another family or action, a prefix, a TOS,
        flags, a mark): it is none of ours and equal to none of ours.

    Raises:
        DecodeError: the bytes are cut short, or a value has the wrong length.
    Source: fib_nl_fill_rule() in net/core/fib_rules.c.
    """
    if len(body) < RULE.size:
        raise DecodeError("netlink rule", f"{len(body)} bytes")
    family, dst_len, src_len, tos, table, action, flags = RULE.unpack_from(body)
    found = attributes(body, RULE.size)
    flags &= ~_FIB_RULE_IIF_DETACHED
    if (family, dst_len, src_len, tos, flags & ~_FIB_RULE_UNRESOLVED) != (socket.AF_INET, 0, 0, 0, 0):
        return None
    if action != (_FR_ACT_GOTO if FRA_GOTO in found else _FR_ACT_TO_TBL):
        return None
    for type_, nothing in NEUTRAL.items():
        if found.pop(type_, nothing) != nothing:
            return None
    if not found.keys() <= _KNOWN or not _is_udp_or_any(found):
        return None
    return _build(found, table)


def _build(found: dict[int, bytes], table: int) -> KernelRule:
    iif = found.get(FRA_IIFNAME)
    (protocol,) = _U8.unpack(found.get(FRA_PROTOCOL, b"\0"))
    rule = Rule(
        priority=_number(found.get(FRA_PRIORITY), 0),
        table=_number(found.get(FRA_TABLE), table),
        goto=_number(found[FRA_GOTO], 0) if FRA_GOTO in found else None,
        iif=iif.rstrip(b"\0").decode() if iif is not None else None,
        sport=_ports(found.get(FRA_SPORT_RANGE)),
        dport=_ports(found.get(FRA_DPORT_RANGE)),
    )
    return KernelRule(rule, protocol)


_FRA_SUPPRESS_PREFIXLEN: Final = 14
_FRA_SPORT_MASK: Final = 28
_FRA_DPORT_MASK: Final = 29
NEUTRAL: Final = {
    _FRA_SUPPRESS_PREFIXLEN: b"\xff\xff\xff\xff",
    _FRA_SPORT_MASK: b"\xff\xff",
    _FRA_DPORT_MASK: b"\xff\xff",
}
"""What a dump adds to our rules, and its value when it says nothing; the masks come with Linux 6.15."""

_FIB_RULE_IIF_DETACHED: Final = 0x8
"""Set by the kernel while the device of FRA_IIFNAME does not exist."""
_KNOWN: Final = frozenset(
    (
        FRA_IIFNAME,
        FRA_GOTO,
        FRA_PRIORITY,
        FRA_TABLE,
        FRA_PROTOCOL,
        FRA_IP_PROTO,
        FRA_SPORT_RANGE,
        FRA_DPORT_RANGE,
    )
)


def _is_udp_or_any(found: dict[int, bytes]) -> bool:
    has_ports = FRA_SPORT_RANGE in found or FRA_DPORT_RANGE in found
    protocol = found.get(FRA_IP_PROTO)
    expected = _U8.pack(socket.IPPROTO_UDP) if has_ports else None
    return protocol == expected


def _number(value: bytes | None, default: int) -> int:
    return default if value is None else int(U32.unpack(value)[0])


def number_or(value: bytes | None, default: int = 0) -> int:
    """A 32-bit attribute of anybody's rule; the default where it is missing or has another length."""
    return int(U32.unpack(value)[0]) if value is not None and len(value) == U32.size else default


def _ports(value: bytes | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, last = PORT_RANGE.unpack(value)
    return int(first), int(last)
