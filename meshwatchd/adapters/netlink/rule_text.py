"""A policy rule as text, with what `ip rule` shows of it, straight from netlink.

Source: fib_nl_fill_rule() in net/core/fib_rules.c, linux/fib_rules.h.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import fibrule
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.message import RTM_GETRULE, attributes
from meshwatchd.model.decoding import Door

_TABLES: Final = {253: "default", 254: "main", 255: "local"}
_ACTIONS: Final = {2: "goto", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_INVERT: Final = 0x2
_LOOKUP: Final = 1


class RuleText(NamedTuple):
    """One rule.

    Attributes:
        table: looked up; 0 for other actions.
        protocol: whose it is (FRA_PROTOCOL).
        body: of the message, for `route_lookup`.
    """

    priority: int
    table: int
    protocol: int
    text: str
    body: bytes


@Door("netlink rule")
def read_rule(body: bytes) -> RuleText:
    """Turn the body of RTM_NEWRULE into text.

    Raises:
        DecodeError: the bytes are cut short.
    """
    *_, table, action, _ = fibrule.RULE.unpack_from(body)
    found = attributes(body, fibrule.RULE.size)
    table = fibrule.number_or(found.get(fibrule.FRA_TABLE)) or table
    return RuleText(
        priority=fibrule.number_or(found.get(fibrule.FRA_PRIORITY)),
        table=table if action == _LOOKUP else 0,
        protocol=found.get(fibrule.FRA_PROTOCOL, b"\0")[0],
        text=" ".join(_words(body, found, table)),
        body=body,
    )


def dump_rules() -> tuple[RuleText, ...]:
    """All IPv4 policy rules in the kernel's order.

    Raises:
        KernelError: the kernel does not tell.
        DecodeError: what it tells is cut short.
    """

    async def dump() -> list[tuple[bytes, tuple[bytes, ...]]]:
        dumper = Dumper()
        try:
            header = fibrule.RULE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0)
            return await dumper.dump(RTM_GETRULE, header, "rules", lambda body: (body, ()))
        finally:
            dumper.close()

    return tuple(read_rule(body) for body, _ in asyncio.run(dump()))


def _words(body: bytes, found: Mapping[int, bytes], table: int) -> Iterator[str]:
    _, dst_len, src_len, _, _, action, flags = fibrule.RULE.unpack_from(body)
    yield f"{fibrule.number_or(found.get(fibrule.FRA_PRIORITY))}:"
    if flags & _INVERT:
        yield "not"
    source = found.get(fibrule.FRA_SRC)
    yield f"from {IPv4Network((source, src_len), strict=False)}" if source is not None else "from all"
    if fibrule.FRA_DST in found:
        yield f"to {IPv4Network((found[fibrule.FRA_DST], dst_len), strict=False)}"
    if fibrule.number_or(found.get(fibrule.FRA_FWMARK)):
        yield f"fwmark {fibrule.number_or(found[fibrule.FRA_FWMARK]):#x}"
    for kind, word in ((fibrule.FRA_IIFNAME, "iif"), (fibrule.FRA_OIFNAME, "oif")):
        if kind in found:
            yield f"{word} {found[kind].rstrip(bytes(1)).decode(errors='replace')}"
    if fibrule.FRA_IP_PROTO in found:
        yield f"ipproto {found[fibrule.FRA_IP_PROTO][0]}"
    for kind, word in ((fibrule.FRA_SPORT_RANGE, "sport"), (fibrule.FRA_DPORT_RANGE, "dport")):
        if kind in found:
            first, last = fibrule.PORT_RANGE.unpack(found[kind])
            yield f"{word} {first}" if first == last else f"{word} {first}-{last}"
    if action == _LOOKUP:
        yield f"lookup {_TABLES.get(table, table)}"
    elif fibrule.FRA_GOTO in found:
        yield f"goto {fibrule.number_or(found[fibrule.FRA_GOTO])}"
    else:
        yield _ACTIONS.get(action, f"action {action}")
