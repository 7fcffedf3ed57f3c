"""Entries of overlay devices, put and deleted as their owners do it.

The requests are those of `ip address add`, `ip neigh replace`, `bridge fdb replace` and
`ip route add` (iproute2), and of flannel's pkg/backend/vxlan/device.go; an address is announced as by `arping -U`.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pyroute2.iproute.linux import AsyncIPRoute

from meshwatchd.adapters.arp import announce
from meshwatchd.adapters.netlink.compact import AF_BRIDGE
from meshwatchd.adapters.netlink.kernel import asking, tolerating
from meshwatchd.model.audit import DeviceAddress, RepairPlan
from meshwatchd.model.errors import KernelError
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Neighbour

NTF_SELF: Final = 0x2
NUD_PERMANENT: Final = 0x80
NUD_STALE: Final = 0x04
"""linux/neighbour.h."""

Announce = Callable[[str, str, str], Awaitable[None]]
"""Tells a device's LAN that a MAC has an address: device, MAC, address. May raise OSError."""


class RepairKernel(Protocol):
    """What carries out repairs."""

    async def carry_out(self, plan: RepairPlan) -> None:
        """Put and delete entries."""


class OverlayKernel:
    """One rtnetlink socket for repairs; opened by the first request."""

    def __init__(self, announce: Announce = announce) -> None:
        self._socket = AsyncIPRoute(ext_ack=True, strict_check=True)
        self._announce = announce

    def close(self) -> None:
        """Close the socket; nothing in the kernel changes."""
        self._socket.close()

    async def carry_out(self, plan: RepairPlan) -> None:
        """Carry out a plan: device, addresses, neighbours and FDB, routes, then what is to go, routes first.

        Raises:
            KernelError: a request was refused; what was done before stays done.
        """
        index, mac = await self._look_up(plan.device)
        if plan.is_bounce:
            await self._bounce(plan.device, index)
        for address in plan.put.addresses:
            await self._add_address(address, index, mac)
        for neighbour in plan.put.neighbours:
            await self._put_neighbour(neighbour, index)
        for forwarding in plan.put.forwarding:
            await self._put_forwarding(forwarding, index)
        for route in plan.drop_first():
            await self._delete_route(route, index)
        for route in plan.put.routes:
            await self._add_route(route, index)
        for route in plan.drop_last():
            await self._delete_route(route, index)
        for forwarding in plan.drop.forwarding:
            with tolerating(errno.ENOENT), asking(f"delete FDB entry {forwarding.lladdr} of {forwarding.dev}"):
                await self._socket.neigh("del", **_forwarding_request(forwarding, index))
        for neighbour in plan.drop.neighbours:
            with tolerating(errno.ENOENT), asking(f"delete neighbour {neighbour.address} of {neighbour.dev}"):
                await self._socket.neigh("del", family=socket.AF_INET, ifindex=index, dst=neighbour.address)

    async def _look_up(self, device: str) -> tuple[int, str]:
        """Index and MAC of the device of that name now: it may have been made anew since the plan."""
        with asking(f"look for device {device}"):
            messages = list(await self._socket.link("get", ifname=device))
        if not messages:
            raise KernelError(f"look for device {device}", errno.ENODEV, "there is none")
        return int(messages[0]["index"]), str(messages[0].get("address") or "")

    async def _bounce(self, device: str, index: int) -> None:
        with asking(f"take device {device} down and up"):
            await self._socket.link("set", index=index, state="down")
            await self._socket.link("set", index=index, state="up")

    async def _add_address(self, address: DeviceAddress, index: int, mac: str) -> None:
        """Add an address and announce it; its owner may have been first.

        A device that was made anew has another MAC. Who knows the address by the one before would go on sending there
        for half a minute, until the kernel doubts it.
        """
        with tolerating(errno.EEXIST), asking(f"add address {address.address} to {address.dev}"):
            await self._socket.addr("add", index=index, address=address.address, prefixlen=address.length)
        # Without the announcement it is right as well, only later.
        with contextlib.suppress(OSError):
            await self._announce(address.dev, mac, address.address)

    async def _put_neighbour(self, neighbour: Neighbour, index: int) -> None:
        with asking(f"put neighbour {neighbour.address} of {neighbour.dev}"):
            await self._socket.neigh(
                "replace",
                family=socket.AF_INET,
                ifindex=index,
                dst=neighbour.address,
                lladdr=neighbour.lladdr,
                state=NUD_PERMANENT if neighbour.is_permanent else NUD_STALE,
            )

    async def _put_forwarding(self, forwarding: Forwarding, index: int) -> None:
        with asking(f"put FDB entry {forwarding.lladdr} of {forwarding.dev}"):
            await self._socket.neigh("replace", **_forwarding_request(forwarding, index))

    async def _add_route(self, route: DeviceRoute, index: int) -> None:
        """Add, never replace: a route that has come meanwhile is somebody's. EEXIST is left to the verification."""
        with tolerating(errno.EEXIST), asking(f"add route {route.dst} {route.kind or f'dev {route.dev}'}"):
            await self._socket.route("add", **_route_request(route, index))

    async def _delete_route(self, route: DeviceRoute, index: int) -> None:
        with tolerating(errno.ESRCH), asking(f"delete route {route.dst} {route.kind or f'dev {route.dev}'}"):
            await self._socket.route("del", **_route_request(route, index))


def _forwarding_request(forwarding: Forwarding, index: int) -> dict[str, object]:
    return {
        "family": AF_BRIDGE,
        "ifindex": index,
        "flags": NTF_SELF,
        "state": NUD_PERMANENT,
        "lladdr": forwarding.lladdr,
        "dst": forwarding.dst,
    }


def _route_request(route: DeviceRoute, index: int) -> dict[str, object]:
    """A route with its exact attributes, or flannel would not find it again when it deletes the peer."""
    request: dict[str, object] = {
        "dst": route.dst,
        "table": route.table,
        "proto": route.protocol,
        "scope": route.scope,
        **({"type": route.kind} if route.kind else {"oif": index}),
    }
    if route.via:
        request["gateway"] = route.via
    if route.src:
        request["prefsrc"] = route.src
    if route.metric:
        request["priority"] = route.metric
    if route.is_onlink:
        request["flags"] = ["onlink"]
    return request
