"""Where this node sends packets to an address, with everything that decides it: one question to the kernel, no daemon.

    RTM_GETROUTE, RTM_F_LOOKUP_TABLE --> RTA_TABLE, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC, or an errno
    RTM_GETRULE                      --> the first rule that takes such a packet and looks up that table

The question is about a packet that this node sends itself, without a mark.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.fibrule import number_or
from meshwatchd.adapters.netlink.route_lookup import RTM_F_LOOKUP_TABLE, selects
from meshwatchd.adapters.netlink.route_socket import Answer, RouteSocket, request_for
from meshwatchd.adapters.netlink.rule_text import RuleText, dump_rules
from meshwatchd.model.errors import KernelError
from meshwatchd.model.route_lookup import RouteQuestion

_OIF, _GATEWAY, _PREFSRC, _TABLE, _VIA = 4, 5, 7, 15, 18
_VIA_FAMILY_BYTES: Final = 2
"""struct rtvia: the family, then the address."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel does with a packet.

    Attributes:
        rule: that decides, as `ip rule` has it; empty for IPv6 and where none is found.
        rule_protocol: whose rule it is.
        table: of the route, 0 where there is none.
        via: the gateway; empty where the address is on the link.
        problem: why it goes nowhere; empty where it leaves.
    """

    address: str
    rule: str = ""
    rule_protocol: int = 0
    table: int = 0
    device: str = ""
    via: str = ""
    source: str = ""
    problem: str = ""


def find_way(address: str) -> Way:
    """Ask the kernel.

    Raises:
        KernelError: it gives no answer.
        DecodeError: what it answers is cut short.
    """
    destination = ip_address(address)
    asked = RouteSocket()
    try:
        answer = asked.ask(request_for(destination.packed, flags=RTM_F_LOOKUP_TABLE))
    finally:
        asked.close()
    if answer is None:
        raise KernelError(f"find the route to {address}", 5, "the kernel gives no answer")
    rules = dump_rules() if destination.version == 4 else ()
    return read_way(address, answer, rules, dict(socket.if_nameindex()))


def read_way(address: str, answer: Answer, rules: Iterable[RuleText], devices: Mapping[int, str]) -> Way:
    """Turn the kernel's answers into a Way."""
    found = answer.attributes
    source = _address(found.get(_PREFSRC, b""))
    question = RouteQuestion(source=source or "0.0.0.0", destination=address)  # noqa: S104 - any, as the kernel has it
    taking = [rule for rule in rules if selects(rule.body, question)]
    if answer.errno:
        rule = next((each for each in taking if not each.table), None)
        problem = os.strerror(answer.errno)
        return Way(address=address, problem=problem, rule=rule.text if rule else "")
    table = number_or(found.get(_TABLE))
    rule = next((each for each in taking if each.table == table), None)
    return Way(
        address=address,
        rule=rule.text if rule is not None else "",
        rule_protocol=rule.protocol if rule is not None else 0,
        table=table,
        device=devices.get(number_or(found.get(_OIF)), ""),
        via=_address(found.get(_GATEWAY, b"") or found.get(_VIA, b"")[_VIA_FAMILY_BYTES:]),
        source=source,
    )


def _address(packed: bytes) -> str:
    return str(ip_address(packed)) if len(packed) in {4, 16} else ""
