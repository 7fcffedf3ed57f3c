"""pyroute2's messages as our types: the one place where netlink is untyped.

A message is a mapping of header fields with `attrs`, a list of (name, value) pairs; pyroute2 has no type hints, so
whatever comes from it is `Any` here and nowhere behind.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Geneve, Link, Vxlan

IFF_UP = 0x1
"""linux/if.h."""

RTN_UNICAST = 1
IPPROTO_UDP = 17

MAC_COLONS = 5
"""In an Ethernet address as text; tunl0 has its outer IPv4 address in the same attribute."""

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
    data = info.get_attr("IFLA_INFO_DATA") if kind in {"vxlan", "geneve"} else None
    lladdr = str(message.get_attr("IFLA_ADDRESS") or "")
    return Link(
        name=str(message.get_attr("IFLA_IFNAME") or f"#{message['index']}"),
        index=int(message["index"]),
        kind=str(kind or ""),
        is_up=bool(message["flags"] & IFF_UP),
        mtu_bytes=int(message.get_attr("IFLA_MTU") or 0),
        lladdr=lladdr if lladdr.count(":") == MAC_COLONS else "",
        vxlan=None if kind != "vxlan" else _decode_vxlan(data),
        geneve=None if kind != "geneve" else _decode_geneve(data),
    )


def _decode_vxlan(data: Any) -> Vxlan:
    found = {} if data is None else _attributes(data)
    return Vxlan(
        vni=int(found.get("IFLA_VXLAN_ID", 0)),
        port=int(found.get("IFLA_VXLAN_PORT", 0)),
        local=str(found.get("IFLA_VXLAN_LOCAL") or found.get("IFLA_VXLAN_LOCAL6") or ""),
        lower=int(found.get("IFLA_VXLAN_LINK", 0)),
        is_external=bool(found.get("IFLA_VXLAN_COLLECT_METADATA", 0)),
        remote=_known(found.get("IFLA_VXLAN_GROUP") or found.get("IFLA_VXLAN_GROUP6")),
    )


def _decode_geneve(data: Any) -> Geneve:
    found = {} if data is None else _attributes(data)
    return Geneve(
        vni=int(found.get("IFLA_GENEVE_ID", 0)),
        port=int(found.get("IFLA_GENEVE_PORT", 0)),
        remote=_known(found.get("IFLA_GENEVE_REMOTE") or found.get("IFLA_GENEVE_REMOTE6")),
    )


def _known(address: Any) -> str:
    """Of a tunnel's end; empty for none, and for that of all zeros."""
    return "" if address is None or ipaddress.ip_address(address).is_unspecified else str(address)


def protocol_name(protocol: int) -> str:
    """The name iproute2 has for a route protocol (rt_protos), or its number."""
    return _PROTOCOLS.get(protocol, str(protocol))


def normalise_prefix(text: str) -> str:
    """An IPv4 prefix as the kernel reports it: host bits zero, length always written."""
    return str(ipaddress.IPv4Network(text, strict=False))


def _attributes(message: Any) -> dict[str, Any]:
    """The attributes by name, without those pyroute2 has no name for."""
    return {name: value for name, value in message["attrs"] if name != "UNKNOWN"}
