"""Kernel objects of our own, and the changes made with them.

Everything here carries our route and rule protocol number; that number, the tables, the priorities and the device
prefix are the whole of our ownership. Nothing else in the kernel is ever changed.
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.rule_window import RuleWindow

FIRST_TABLES = 100
"""Tables from kernel.table_base on that a mesh of a few locations needs."""

TABLES = 1000
"""And a mesh of as many as there may be: all of these are ours where they carry our protocol."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One policy routing rule for IPv4 with our protocol number.

    Attributes:
        table: the table to look up; 0 for a rule that jumps.
        goto: the priority to go on at, or None for a rule that looks up a table.
        iif: incoming device the rule is for, or None.
        sport: first and last UDP source port it selects, or None.
        dport: first and last UDP destination port it selects, or None; ports imply `ipproto udp`.
    Source: linux/fib_rules.h.
    """

    priority: int
    table: int = 0
    goto: int | None = None
    iif: str | None = None
    sport: tuple[int, int] | None = None
    dport: tuple[int, int] | None = None

    def render(self) -> str:
        """The rule as `ip rule` would take it."""
        words = [f"pref {self.priority}", "from all"]
        if self.iif is not None:
            words.append(f"iif {self.iif}")
        if self.sport is not None or self.dport is not None:
            words.append("ipproto udp")
        if self.sport is not None:
            words.append(f"sport {_render_ports(self.sport)}")
        if self.dport is not None:
            words.append(f"dport {_render_ports(self.dport)}")
        return " ".join([*words, f"lookup {self.table}" if self.goto is None else f"goto {self.goto}"])


def _render_ports(ports: tuple[int, int]) -> str:
    first, last = ports
    return str(first) if first == last else f"{first}-{last}"


class Route(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One IPv4 unicast route in a table of ours, with our protocol number.

    Attributes:
        via: gateway, taken as on-link whatever the device's addresses say; None for a route straight into a device.
        src: preferred source address.
    """

    dst: str
    table: int
    dev: str
    via: str | None = None
    src: str | None = None

    def render(self) -> str:
        """The route as `ip route` would take it."""
        gateway = f" via {self.via}" if self.via else ""
        source = f" src {self.src}" if self.src else ""
        onlink = " onlink" if self.via else ""
        return f"{self.dst}{gateway} dev {self.dev}{source}{onlink} table {self.table}"


class StandbyLink(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A WireGuard device of our own with one peer and no address.

    Attributes:
        listen_port: UDP port, the same on both ends.
        endpoint: "host:port" of the peer, or None when the peer is the one who initiates.
        allowed_ips: every prefix of the peer's location: inner destinations to it, inner sources from it.
        keepalive_s: persistent keepalive, which also keeps the session and any NAT mapping warm.
    """

    device: str
    peer: str
    listen_port: int
    mtu_bytes: int
    peer_public_key: str
    endpoint: str | None
    allowed_ips: tuple[str, ...]
    keepalive_s: int


class Provision(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of ours that stands in the kernel while all is well; overrides come on top.

    Attributes:
        kept_devices: standby devices of an earlier mesh that still carry traffic: they are left as they are.
        kept_tables: the same of tables: their routes are neither changed nor removed.
        windows: where rules of ours stand, and behind that where they have stood: what is left there is ours to remove.
    """

    links: tuple[StandbyLink, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    kept_devices: tuple[str, ...] = ()
    kept_tables: tuple[int, ...] = ()
    windows: tuple[RuleWindow, ...] = ()

    def joined(self, beside: Provision) -> Provision:
        """The same with further routes and rules."""
        return msgspec.structs.replace(self, routes=self.routes + beside.routes, rules=self.rules + beside.rules)

    def without(self, other: Provision) -> Provision:
        """The same without another one's routes and rules."""
        routes = tuple(each for each in self.routes if each not in other.routes)
        return msgspec.structs.replace(
            self, routes=routes, rules=tuple(each for each in self.rules if each not in other.rules)
        )


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of override: rules added first, then rules deleted, so that there is no gap."""

    add: tuple[Rule, ...] = ()
    delete: tuple[Rule, ...] = ()

    @classmethod
    def between(cls, had: tuple[Rule, ...], wanted: tuple[Rule, ...]) -> Switch:
        """The change from some rules to others; those in both stay as they are."""
        return cls(
            add=tuple(rule for rule in wanted if rule not in had),
            delete=tuple(rule for rule in had if rule not in wanted),
        )

    def inverse(self) -> Switch:
        """The change that undoes this one."""
        return Switch(add=self.delete, delete=self.add)

    def render(self, protocol: int) -> tuple[str, ...]:
        """The change as `ip` commands, with our protocol number."""
        added = tuple(f"ip rule add {rule.render()} protocol {protocol}" for rule in self.add)
        return added + tuple(f"ip rule del {rule.render()} protocol {protocol}" for rule in self.delete)
