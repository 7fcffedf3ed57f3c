"""Links, rules and routes in memory, with the kernel's manners: what exists is EEXIST, what is gone is fine."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import msgspec

from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Link

OURS = 117
STATIC = 4


def rule_record(rule: Rule, protocol: int = OURS) -> RuleRecord:
    """A rule as a dump shows it."""
    return RuleRecord(
        priority=rule.priority, table=rule.table, protocol=protocol, rule=rule, text=f"rule {rule.render()}"
    )


def route_record(route: Route, protocol: int = OURS) -> RouteRecord:
    """A route as a dump shows it."""
    return RouteRecord(
        dst=route.dst,
        table=route.table,
        protocol=protocol,
        metric=0,
        kind=1,
        route=route,
        text=f"route {route.render()}",
    )


class FakeKernel:
    """Everything the ports ask for.

    Attributes:
        operations: what was changed, in order.
        refused: texts of objects whose addition fails with EPERM.
    """

    def __init__(self, *devices: str) -> None:
        self.present = {
            index: Link(name=name, index=index, kind="veth", is_up=True, mtu_bytes=1500)
            for index, name in enumerate(devices, 2)
        }
        self.held_rules: list[RuleRecord] = []
        self.held_routes: list[RouteRecord] = []
        self.operations: list[str] = []
        self.refused: set[str] = set()

    async def links(self) -> list[Link]:
        """All devices."""
        return list(self.present.values())

    async def find_link(self, device: str) -> Link | None:
        """The device of that name."""
        return next((link for link in self.present.values() if link.name == device), None)

    async def rules(self) -> list[RuleRecord]:
        """All rules."""
        return list(self.held_rules)

    async def marked_routes(self, devices: Mapping[int, str]) -> list[RouteRecord]:
        """Routes with our protocol."""
        return [record for record in self.held_routes if record.protocol == OURS]

    async def add_rule(self, rule: Rule) -> None:
        """Add a rule."""
        self._admit(rule.render())
        if not any(record.rule == rule for record in self.held_rules):
            self.held_rules.append(rule_record(rule))
        self.operations.append(f"add rule {rule.render()}")

    async def delete_rule(self, rule: Rule) -> None:
        """Delete a rule."""
        self.held_rules = [each for each in self.held_rules if each.rule != rule or each.protocol != OURS]
        self.operations.append(f"delete rule {rule.render()}")

    async def add_route(self, route: Route, index: int) -> None:
        """Add a route."""
        self._admit(route.render())
        if any((each.dst, each.table) == (route.dst, route.table) for each in self.held_routes):
            raise KernelError(f"add route {route.render()}", errno.EEXIST, "File exists")
        self.held_routes.append(route_record(route))
        self.operations.append(f"add route {route.render()}")

    async def replace_route(self, route: Route, index: int) -> None:
        """Replace a route."""
        self.held_routes = [each for each in self.held_routes if (each.dst, each.table) != (route.dst, route.table)]
        self.held_routes.append(route_record(route))
        self.operations.append(f"replace route {route.render()}")

    async def delete_route(self, record: RouteRecord) -> None:
        """Delete a route."""
        self.held_routes.remove(record)
        self.operations.append(f"delete {record.text}")

    async def add_wireguard(self, device: str) -> None:
        """Add a device."""
        index = max(self.present, default=1) + 1
        self.present[index] = Link(name=device, index=index, kind="wireguard", is_up=False, mtu_bytes=1420)
        self.operations.append(f"add device {device}")

    async def delete_link(self, link: Link) -> None:
        """Delete a device."""
        self.present.pop(link.index, None)
        self.operations.append(f"delete device {link.name}")

    async def keep_without_addresses(self, link: Link) -> None:
        """Nothing to see."""

    async def bring_up(self, link: Link, mtu_bytes: int) -> None:
        """Set a device up."""
        self.present[link.index] = msgspec.structs.replace(link, is_up=True, mtu_bytes=mtu_bytes)

    def _admit(self, text: str) -> None:
        if text in self.refused:
            raise KernelError(f"add {text}", errno.EPERM, "Operation not permitted")
