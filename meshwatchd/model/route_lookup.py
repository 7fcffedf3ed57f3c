"""A question to the kernel's routing, with the selectors of a real packet, and its answer."""

from __future__ import annotations

import msgspec


class RouteQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Where a packet would go (RTM_GETROUTE).

    Attributes:
        source, destination: IPv4 addresses.
        iif: the device it comes in by; empty for what this node sends itself.
        sport, dport: of a UDP packet; 0 for one without ports.
        protocol: IP protocol number of a packet without ports; 0 for one of none.
        is_for_entry: the answer names the prefix of the route that is taken.
    """

    source: str
    destination: str
    iif: str = ""
    sport: int = 0
    dport: int = 0
    protocol: int = 0
    is_for_entry: bool = False


class RouteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where it goes.

    Attributes:
        device: that it leaves by; empty where it goes nowhere.
        via: the IPv4 address of the router that it goes to; empty where its destination is on the link.
        errno: why it goes nowhere, 0 where it leaves.
        rule: the policy rule that decides, as `ip rule` would say it; empty where that is one of the mesh's own, or
            the kernel does not tell.
        prefix: of the route that is taken, where that was asked for.
        protocol: of the packet, where it is about one alone.
    """

    device: str = ""
    via: str = ""
    errno: int = 0
    rule: str = ""
    prefix: str = ""
    protocol: int = 0
