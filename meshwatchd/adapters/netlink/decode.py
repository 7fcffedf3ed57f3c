"""pyroute2's messages as our types: the one place where netlink is untyped.

A message is a mapping of header fields with `attrs`, a list of (name, value) pairs; pyroute2 has no type hints, so
whatever comes from it is `Any` here and nowhere behind.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Link, Vxlan

IFF_UP = 0x1
"""linux/if.h."""

FR_ACT_TO_TBL, FR_ACT_GOTO = 1, 2
FR_ACT_GOTO = 2
FIB_RULE_INVERT = 0x2
"""linux/fib_rules.h."""

RTN_UNICAST = 1
IPPROTO_UDP = 17

MAC_COLONS = 5
"""In an Ethernet address as text; tunl0 has its outer IPv4 address in the same attribute."""

ACCEPT_ALL = 0xFFFFFFFF
"""FRA_SUPPRESS_PREFIXLEN of a rule that suppresses nothing."""

_PROTOCOLS = {0: "unspec", 1: "redirect", 2: "kernel", 3: "boot", 4: "static", 16: "dhcp", 186: "bgp", 188: "ospf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRecord:
    """A policy rule of the kernel.

    Attributes:
        rule: the rule in our vocabulary, or None when it selects or does something we never ask for.
        text: for people.
    """

    priority: int
    table: int
    protocol: int
    rule: Rule | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRecord:
    """An IPv4 route of the kernel.

    Attributes:
        route: the route in our vocabulary, or None when it has a shape we never ask for.
        metric: RTA_PRIORITY, 0 when absent.
        kind: RTN_*, 1 for unicast.
    """

    dst: str
    table: int
    protocol: int
    metric: int
    kind: int
    route: Route | None
    text: str


def decode_link(message: Any) -> Link:
    """Turn one RTM_NEWLINK or RTM_DELLINK message into a Link without addresses.

    Source: linux/if_link.h (IFLA_IFNAME, IFLA_MTU, IFLA_ADDRESS, IFLA_LINKINFO with IFLA_INFO_KIND),
    rtnl_fill_ifinfo().
    """
    info = message.get_attr("IFLA_LINKINFO")
    kind = info.get_attr("IFLA_INFO_KIND") if info is not None else None
    data = info.get_attr("IFLA_INFO_DATA") if kind == "vxlan" else None
    lladdr = str(message.get_attr("IFLA_ADDRESS") or "")
    return Link(
        name=str(message.get_attr("IFLA_IFNAME") or f"#{message['index']}"),
        index=int(message["index"]),
        kind=str(kind or ""),
        is_up=bool(message["flags"] & IFF_UP),
        mtu_bytes=int(message.get_attr("IFLA_MTU") or 0),
        lladdr=lladdr if lladdr.count(":") == MAC_COLONS else "",
        vxlan=None if kind != "vxlan" else _decode_vxlan(data),
    )


def _decode_vxlan(data: Any) -> Vxlan:
    found = {} if data is None else _attributes(data)
    return Vxlan(
        vni=int(found.get("IFLA_VXLAN_ID", 0)),
        port=int(found.get("IFLA_VXLAN_PORT", 0)),
        local=str(found.get("IFLA_VXLAN_LOCAL") or found.get("IFLA_VXLAN_LOCAL6") or ""),
        lower=int(found.get("IFLA_VXLAN_LINK", 0)),
        is_external=bool(found.get("IFLA_VXLAN_COLLECT_METADATA", 0)),
    )


def decode_rule(message: Any) -> RuleRecord:
    """Turn one RTM_NEWRULE or RTM_DELRULE message of family AF_INET into a RuleRecord.

    Returns:
        priority 0 when FRA_PRIORITY is absent, as on the rule for the local table.
    Source: linux/fib_rules.h (FRA_*), fib_nl_fill_rule() in net/core/fib_rules.c.
    """
    attributes = _attributes(message)
    priority = int(attributes.get("FRA_PRIORITY", 0))
    table = int(attributes.get("FRA_TABLE", message["table"]))
    protocol = int(attributes.get("FRA_PROTOCOL", 0))
    rule = _plain_rule(message, attributes, priority=priority, table=table)
    text = rule.render() if rule is not None else _render_foreign_rule(attributes, priority, table)
    return RuleRecord(priority=priority, table=table, protocol=protocol, rule=rule, text=f"rule {text}")


def protocol_name(protocol: int) -> str:
    """The name iproute2 has for a route protocol (rt_protos), or its number."""
    return _PROTOCOLS.get(protocol, str(protocol))


def normalise_prefix(text: str) -> str:
    """An IPv4 prefix as the kernel reports it: host bits zero, length always written."""
    return str(ipaddress.IPv4Network(text, strict=False))


def _attributes(message: Any) -> dict[str, Any]:
    """The attributes by name, without those pyroute2 has no name for (FRA_SPORT_MASK and later come with any port)."""
    return {name: value for name, value in message["attrs"] if name != "UNKNOWN"}


_OUR_SELECTORS = {
    "FRA_TABLE",
    "FRA_SUPPRESS_PREFIXLEN",
    "FRA_PROTOCOL",
    "FRA_PRIORITY",
    "FRA_GOTO",
    "FRA_IIFNAME",
    "FRA_IP_PROTO",
    "FRA_SPORT_RANGE",
    "FRA_DPORT_RANGE",
    "FRA_PAD",
}


def _plain_rule(message: Any, attributes: Mapping[str, Any], *, priority: int, table: int) -> Rule | None:
    """The rule if it is of the shapes model.plan.Rule can say."""
    goto = attributes.get("FRA_GOTO")
    has_ports = "FRA_SPORT_RANGE" in attributes or "FRA_DPORT_RANGE" in attributes
    is_plain = (
        set(attributes) <= _OUR_SELECTORS
        and message["action"] == (FR_ACT_TO_TBL if goto is None else FR_ACT_GOTO)
        and not message["flags"] & FIB_RULE_INVERT
        and (message["dst_len"], message["src_len"], message["tos"]) == (0, 0, 0)
        and attributes.get("FRA_SUPPRESS_PREFIXLEN", ACCEPT_ALL) == ACCEPT_ALL
        and attributes.get("FRA_IP_PROTO", 0) == (IPPROTO_UDP if has_ports else 0)
    )
    if not is_plain:
        return None
    return Rule(
        priority=priority,
        table=table if goto is None else 0,
        goto=goto,
        iif=attributes.get("FRA_IIFNAME"),
        sport=_ports(attributes.get("FRA_SPORT_RANGE")),
        dport=_ports(attributes.get("FRA_DPORT_RANGE")),
    )


def _ports(text: str | None) -> tuple[int, int] | None:
    """First and last port of "first:last"."""
    if text is None:
        return None
    first, _, last = text.partition(":")
    return int(first), int(last)


def _render_foreign_rule(attributes: Mapping[str, Any], priority: int, table: int) -> str:
    words = [f"pref {priority}"]
    words += [f"{key} {attributes[name]}" for key, name in _WORDS if name in attributes]
    action = f"goto {attributes['FRA_GOTO']}" if "FRA_GOTO" in attributes else f"lookup {table}"
    return " ".join([*words, action])


_WORDS = (
    ("from", "FRA_SRC"),
    ("to", "FRA_DST"),
    ("iif", "FRA_IIFNAME"),
    ("oif", "FRA_OIFNAME"),
    ("fwmark", "FRA_FWMARK"),
    ("ipproto", "FRA_IP_PROTO"),
    ("sport", "FRA_SPORT_RANGE"),
    ("dport", "FRA_DPORT_RANGE"),
)
