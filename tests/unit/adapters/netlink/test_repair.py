"""What is asked of the kernel for each entry; that the kernel does it is for the lab to show."""

from __future__ import annotations

import asyncio
import errno
import socket

import msgspec
import pytest

from meshwatchd.adapters.netlink.repair import OverlayKernel
from meshwatchd.model.audit import DeviceAddress, Entries, RepairPlan, RepairRung
from meshwatchd.model.errors import KernelError
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Neighbour
from tests.support.flannel_node import DEVICE, entries, mac

HELD = entries(2)


@pytest.mark.parametrize(
    "held",
    [
        Entries(neighbours=(Neighbour(dev="lo", address="10.42.1.0", lladdr="zz", is_permanent=True),)),
        Entries(neighbours=(Neighbour(dev="lo", address="zz", lladdr=mac(1), is_permanent=True),)),
        Entries(forwarding=(Forwarding(dev="lo", lladdr=mac(1), dst="zz"),)),
        Entries(routes=(DeviceRoute(dst="10.42.1.0/84", dev="lo", table=254, protocol=3),)),
        Entries(routes=(DeviceRoute(dst="10.42.1.0/24", dev="lo", table=254, protocol=300),)),
    ],
)
def test_what_no_request_can_hold_is_a_refusal(held):
    """A peer's word or a file has it; the agent tells that the repair failed, and lives."""

    async def carry_out() -> None:
        kernel = OverlayKernel()
        try:
            await kernel.carry_out(RepairPlan(rung=RepairRung.NEIGHBOUR, device="lo", put=held))
        finally:
            kernel.close()

    with pytest.raises(KernelError):
        asyncio.run(carry_out())


class Asked:
    """A socket that takes everything down."""

    def __init__(self, *, has_device=True):
        self.requests = []
        self._has_device = has_device

    async def link(self, command, **request):
        """A device request."""
        if command == "get":
            return [{"index": 6, "address": mac(9)}] if self._has_device else []
        self.requests.append(("link", command, request))
        return []

    async def addr(self, command, **request):
        """An address request."""
        self.requests.append(("addr", command, request))

    async def neigh(self, command, **request):
        """A neighbour or FDB request."""
        self.requests.append(("neigh", command, request))

    async def route(self, command, **request):
        """A route request."""
        self.requests.append(("route", command, request))

    def close(self):
        """Nothing to close."""


def _asked(plan, **made):
    async def scenario():
        asked = Asked(**made)

        async def announce(*what):
            asked.requests.append(("arp", "announce", what))

        kernel = OverlayKernel(announce)
        kernel.close()
        kernel._socket = asked
        await kernel.carry_out(plan)
        kernel.close()
        return asked.requests

    return asyncio.run(scenario())


def test_entries_are_put_as_flannel_puts_them():
    """Replace for neighbours and FDB, never append; a route is added, never replaced."""
    neighbour, forwarding, route = _asked(RepairPlan(rung=RepairRung.RESEED, device=DEVICE, put=HELD))

    assert ("neigh", "replace") == neighbour[:2] == forwarding[:2]
    assert (socket.AF_INET, 6, "10.42.1.0", mac(1), 0x80) == tuple(
        neighbour[2][key] for key in ("family", "ifindex", "dst", "lladdr", "state")
    )
    assert {"family": 7, "ifindex": 6, "flags": 2, "state": 0x80, "lladdr": mac(1), "dst": "192.168.50.11"} == (
        forwarding[2]
    )
    wanted = {"dst": "10.42.1.0/24", "oif": 6, "table": 254, "proto": 3, "scope": 0, "gateway": "10.42.1.0"}
    assert ("route", "add", {**wanted, "flags": ["onlink"]}) == route


def test_an_address_is_added_and_announced_before_the_routes_that_need_it():
    """Never replaced, and never deleted; told by the device's MAC of today, which nobody knows yet."""
    held = Entries(addresses=(DeviceAddress(dev=DEVICE, address="10.80.0.12"),), routes=HELD.routes)
    address, announced, route = _asked(RepairPlan(rung=RepairRung.RESEED, device=DEVICE, put=held))

    assert ("arp", "announce", (DEVICE, mac(9), "10.80.0.12")) == announced
    assert ("addr", "add", {"index": 6, "address": "10.80.0.12", "prefixlen": 32}) == address
    assert ("route", "add") == route[:2]
    assert [] == _asked(RepairPlan(rung=RepairRung.RESEED, device=DEVICE, drop=Entries(addresses=held.addresses)))


def test_an_address_that_cannot_be_announced_is_there_all_the_same():
    """A device that went down meanwhile; who knows the address finds out later."""

    async def refuse(*_):
        raise OSError(errno.ENETDOWN, "Network is down")

    async def scenario():
        kernel = OverlayKernel(refuse)
        kernel.close()
        kernel._socket = asked = Asked()
        held = Entries(addresses=(DeviceAddress(dev=DEVICE, address="10.80.0.12"),), routes=HELD.routes)
        await kernel.carry_out(RepairPlan(rung=RepairRung.RESEED, device=DEVICE, put=held))
        return asked.requests

    assert ["addr", "route"] == [each[0] for each in asyncio.run(scenario())]


def test_what_is_to_go_goes_routes_first():
    """Without its route nothing asks for the neighbour."""
    requests = _asked(RepairPlan(rung=RepairRung.RESEED, device=DEVICE, drop=HELD))

    assert [("route", "del"), ("neigh", "del"), ("neigh", "del")] == [each[:2] for each in requests]


def test_a_dead_end_goes_before_the_route_whose_place_it_has():
    """By its type and without a device, which it does not have; the other way round the addition would fail."""
    end = msgspec.structs.replace(HELD.routes[0], dev="", via="", is_onlink=False, kind="blackhole")
    plan = RepairPlan(
        rung=RepairRung.ROUTE, device=DEVICE, put=Entries(routes=HELD.routes), drop=Entries(routes=(end,))
    )
    gone, put = _asked(plan)

    wanted = {"dst": "10.42.1.0/24", "table": 254, "proto": 3, "scope": 0, "type": "blackhole"}
    assert ("route", "del", wanted) == gone
    assert ("route", "add") == put[:2]


def test_a_bounce_comes_before_what_is_put():
    """Going down deletes routes and neighbours."""
    requests = _asked(RepairPlan(rung=RepairRung.BOUNCE, device=DEVICE, is_bounce=True, put=HELD))

    assert [{"index": 6, "state": "down"}, {"index": 6, "state": "up"}] == [each[2] for each in requests[:2]]
    assert 5 == len(requests)


def test_a_device_that_is_gone_is_an_error():
    """Nothing is put on another one."""
    with pytest.raises(KernelError, match=r"flannel\.1"):
        _asked(RepairPlan(rung=RepairRung.FDB, device=DEVICE, put=Entries()), has_device=False)
