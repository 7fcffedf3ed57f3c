"""Typed requests over one rtnetlink socket.

Every error that leaves this file is a KernelError with the kernel's own words. Errors that mean "it is already so" are
tolerated here, beside the request they belong to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyroute2.iproute.linux import AsyncIPRoute
from pyroute2.netlink.exceptions import NetlinkError

from meshwatchd.adapters.netlink import compact, decode, message, objects
from meshwatchd.adapters.netlink.decode import IPPROTO_UDP, RouteRecord, RuleRecord
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.kinds import ALL_LINKS, RULES_V4
from meshwatchd.adapters.netlink.rules import describe_rule
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Link

RT_SCOPE_UNIVERSE = 0
RT_SCOPE_LINK = 253
RT_SCOPE_NOWHERE = 255
"""linux/rtnetlink.h; in a deletion, nowhere matches any scope."""

IN6_ADDR_GEN_MODE_NONE = 1
"""linux/if_link.h: the device gets no link-local address of its own accord."""


class Kernel:
    """The kernel's links, addresses, rules and routes.

    Args:
        protocol: our route and rule protocol number, on everything that is added and demanded of whatever is deleted.
    """

    def __init__(self, protocol: int) -> None:
        self._protocol = protocol
        # Strict checking makes the kernel itself filter dumps: reading our routes costs the same beside 100 000 others.
        self._socket = AsyncIPRoute(ext_ack=True, strict_check=True)
        self._dumper: Dumper | None = None

    def close(self) -> None:
        """Close the sockets; nothing in the kernel changes."""
        self._socket.close()
        if self._dumper is not None:
            self._dumper.close()

    async def links(self) -> list[Link]:
        """All devices, without their addresses."""
        found = await self._dump(message.RTM_GETLINK, ALL_LINKS, "devices", objects.pack_link)
        return [objects.unpack_link(key, values[0]) for key, values in found]

    async def rules(self) -> list[RuleRecord]:
        """All IPv4 rules."""
        found = await self._dump(message.RTM_GETRULE, RULES_V4, "rules", lambda body: (body, ()))
        return [describe_rule(body) for body, _ in found]

    async def marked_routes(self, devices: Mapping[int, str]) -> list[RouteRecord]:
        """All IPv4 routes with our protocol, in whatever table."""
        request = compact.ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, self._protocol, 0, 0, 0)
        what = f"routes of protocol {self._protocol}"
        found = await self._dump(message.RTM_GETROUTE, request, what, compact.pack_route)
        return [objects.describe_route(key, value, devices) for key, values in found for value in values]

    async def _dump(
        self, kind: int, request: bytes, what: str, pack: Callable[[bytes], compact.Packed | None]
    ) -> list[compact.Packed]:
        """Read without pyroute2, which takes ten times as long: the next removal waits meanwhile to be told."""
        if self._dumper is None:
            self._dumper = Dumper()
        return await self._dumper.dump(kind, request, what, pack)

    async def add_rule(self, rule: Rule) -> None:
        """Add a rule; EEXIST means that an equal one is there."""
        with tolerating(errno.EEXIST), asking(f"add rule {rule.render()}"):
            await self._socket.rule("add", **_rule_request(rule), protocol=self._protocol)

    async def delete_rule(self, rule: Rule) -> None:
        """Delete a rule; ENOENT means that it is gone."""
        with tolerating(errno.ENOENT), asking(f"delete rule {rule.render()}"):
            await self._socket.rule("del", **_rule_request(rule), protocol=self._protocol)

    async def delete_marked_rule(self, record: RuleRecord) -> None:
        """Delete a rule of ours whatever it selects: the first of its priority, its action and our protocol."""
        if record.rule is not None:
            await self.delete_rule(record.rule)
            return
        action = {"table": record.table} if record.table else {"action": 0}
        with tolerating(errno.ENOENT), asking(f"delete {record.text}"):
            await self._socket.rule(
                "del", priority=record.priority, protocol=self._protocol, family=socket.AF_INET, **action
            )

    async def add_route(self, route: Route, index: int) -> None:
        """Add a route into the device of that index.

        Raises:
            KernelError: also EEXIST, for what is there may be somebody else's.
        """
        with asking(f"add route {route.render()}"):
            await self._socket.route("add", **_route_request(route, index), proto=self._protocol)

    async def replace_route(self, route: Route, index: int) -> None:
        """Replace the route of that prefix and table; the caller knows that it is ours."""
        with asking(f"replace route {route.render()}"):
            await self._socket.route("replace", **_route_request(route, index), proto=self._protocol)

    async def delete_route(self, record: RouteRecord) -> None:
        """Delete a route of ours; ESRCH means that it is gone."""
        with tolerating(errno.ESRCH), asking(f"delete {record.text}"):
            metric = {"priority": record.metric} if record.metric else {}
            await self._socket.route(
                "del",
                dst=record.dst,
                table=record.table,
                proto=self._protocol,
                type=record.kind,
                scope=RT_SCOPE_NOWHERE,
                **metric,
            )

    async def add_wireguard(self, device: str) -> None:
        """Add a device of the kernel's WireGuard; EOPNOTSUPP when the kernel has none."""
        with asking(f"add device {device}"):
            await self._socket.link("add", ifname=device, kind="wireguard")

    async def delete_link(self, link: Link) -> None:
        """Delete a device by index and name; one that is gone is fine."""
        with tolerating(errno.ENODEV), asking(f"delete device {link.name}"):
            await self._socket.link("del", index=link.index)

    async def find_link(self, device: str) -> Link | None:
        """The device of that name, without its addresses."""
        found = []
        with tolerating(errno.ENODEV), asking(f"look for device {device}"):
            found = list(await self._socket.link("get", ifname=device))
        return decode.decode_link(found[0]) if found else None

    async def keep_without_addresses(self, link: Link) -> None:
        """Stop the kernel from giving the device an IPv6 link-local address when it goes up.

        EAFNOSUPPORT and EOPNOTSUPP stand for a kernel, or a device, without IPv6.
        """
        mode = {"attrs": [["IFLA_INET6_ADDR_GEN_MODE", IN6_ADDR_GEN_MODE_NONE]]}
        unsupported = tolerating(errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL)
        with unsupported, asking(f"set device {link.name} addrgenmode none"):
            await self._socket.link("set", index=link.index, IFLA_AF_SPEC={"attrs": [["AF_INET6", mode]]})

    async def bring_up(self, link: Link, mtu_bytes: int) -> None:
        """Set a device's MTU and administrative state."""
        with asking(f"set device {link.name} mtu {mtu_bytes} up"):
            await self._socket.link("set", index=link.index, mtu=mtu_bytes, state="up")


def _rule_request(rule: Rule) -> dict[str, object]:
    """What pyroute2 takes for a rule; port ranges are strings "first:last"."""
    request: dict[str, object] = {"priority": rule.priority, "family": socket.AF_INET}
    request |= {"table": rule.table} if rule.goto is None else {"action": "goto", "goto": rule.goto}
    if rule.iif is not None:
        request["iifname"] = rule.iif
    if rule.sport is not None or rule.dport is not None:
        request["FRA_IP_PROTO"] = IPPROTO_UDP
    if rule.sport is not None:
        request["FRA_SPORT_RANGE"] = f"{rule.sport[0]}:{rule.sport[1]}"
    if rule.dport is not None:
        request["FRA_DPORT_RANGE"] = f"{rule.dport[0]}:{rule.dport[1]}"
    return request


def _route_request(route: Route, index: int) -> dict[str, object]:
    """What pyroute2 takes for a route; a gateway is on-link, and without one the scope is the link."""
    request: dict[str, object] = {"dst": route.dst, "table": route.table, "oif": index}
    if route.src is not None:
        request["prefsrc"] = route.src
    if route.via is None:
        return request | {"scope": RT_SCOPE_LINK}
    return request | {"gateway": route.via, "flags": ["onlink"], "scope": RT_SCOPE_UNIVERSE}


@contextmanager
def asking(operation: str) -> Iterator[None]:
    """Turn what pyroute2 raises inside the block into KernelError."""
    try:
        yield
    except NetlinkError as error:
        text = str(error.args[1]) if len(error.args) > 1 else os.strerror(error.code)
        raise KernelError(operation, error.code, text) from error
    except OSError as error:
        number = error.errno or errno.EIO
        raise KernelError(operation, number, os.strerror(number)) from error
    # What pyroute2 raises for a value that no message holds: a MAC that is none, a number of too many bits.
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise KernelError(operation, errno.EINVAL, f"no request can hold it: {error}") from error


@contextmanager
def tolerating(*numbers: int) -> Iterator[None]:
    """End the block quietly at a KernelError of these numbers."""
    try:
        yield
    except KernelError as error:
        if error.errno not in numbers:
            raise
