"""What the other parts want of the kernel, each no more than it uses; `Kernel` is all of them, tests have their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.adapters.netlink.monitor import Overrun
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Link


class RuleReader(Protocol):
    """Dumps of rules and of our routes."""

    async def rules(self) -> list[RuleRecord]:
        """All IPv4 rules."""

    async def marked_routes(self, devices: Mapping[int, str]) -> list[RouteRecord]:
        """All IPv4 routes with our protocol."""


class LinkReader(Protocol):
    """The devices."""

    async def links(self) -> list[Link]:
        """All devices, without their addresses."""

    async def find_link(self, device: str) -> Link | None:
        """The device of that name, without its addresses."""


class DumpSource(Protocol):
    """Where the mirror's dumps come from."""

    async def dump(self, kind: int, header: bytes, what: str, pack: Callable[[bytes], Packed | None]) -> list[Packed]:
        """Everything of one kind, as `pack` makes it of a message's body."""


class NotificationSource(Protocol):
    """Where the mirror hears of changes."""

    def fileno(self) -> int:
        """The descriptor, readable when read() has something."""

    def read(self, take: Callable[[Message | Overrun], None]) -> bool:
        """Hand over what has come in; says whether there may be more."""

    def close(self) -> None:
        """End the subscription."""


class RoutingKernel(RuleReader, Protocol):
    """Rules and routes, read and changed."""

    async def add_rule(self, rule: Rule) -> None:
        """Add a rule; one that exists already is fine."""

    async def delete_rule(self, rule: Rule) -> None:
        """Delete a rule; one that is gone already is fine."""

    async def add_route(self, route: Route, index: int) -> None:
        """Add a route where none of that prefix is."""

    async def replace_route(self, route: Route, index: int) -> None:
        """Put a route in the place of another one of ours, without a gap."""

    async def delete_route(self, record: RouteRecord) -> None:
        """Delete a route; one that is gone already is fine."""


class StandingKernel(RoutingKernel, LinkReader, Protocol):
    """What keeping standing objects takes."""


class DeviceKernel(LinkReader, Protocol):
    """Devices, made and removed."""

    async def add_wireguard(self, device: str) -> None:
        """Add a device of the kernel's WireGuard."""

    async def delete_link(self, link: Link) -> None:
        """Delete a device; one that is gone already is fine."""

    async def keep_without_addresses(self, link: Link) -> None:
        """Stop the kernel from giving the device an IPv6 address."""

    async def bring_up(self, link: Link, mtu_bytes: int) -> None:
        """Set a device's MTU and administrative state."""
