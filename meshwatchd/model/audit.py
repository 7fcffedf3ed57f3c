"""What a look at the kernel found, and what can be done about it.

agent: Snapshot, hellos, good state --core.audit--> FindingsReported --> engine
engine: core.repair -----------------Repair---------------------------> agent
agent: puts, verifies, else undoes --RepairDone-----------------------> engine
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Neighbour

MAIN_TABLE = 254
RTPROT_BOOT = 3
"""linux/rtnetlink.h; flannel sets no protocol, and netlink libraries make that this one."""


class DeviceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An IPv4 address of a device."""

    dev: str
    address: str
    length: int = 32


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """Some of what makes an overlay device reach its peers."""

    addresses: tuple[DeviceAddress, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    forwarding: tuple[Forwarding, ...] = ()
    routes: tuple[DeviceRoute, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.addresses or self.neighbours or self.forwarding or self.routes)

    def joined(self, other: Entries) -> Entries:
        """Both together; of two with the same key the other's."""
        return Entries(
            addresses=_join(self.addresses, other.addresses, address_key),
            neighbours=_join(self.neighbours, other.neighbours, neighbour_key),
            forwarding=_join(self.forwarding, other.forwarding, forwarding_key),
            routes=_join(self.routes, other.routes, route_key),
        )

    def without(self, other: Entries) -> Entries:
        """Those whose key none of the other's has."""
        addresses = {address_key(each) for each in other.addresses}
        neighbours = {neighbour_key(each) for each in other.neighbours}
        forwarding = {forwarding_key(each) for each in other.forwarding}
        routes = {route_key(each) for each in other.routes}
        return Entries(
            addresses=tuple(each for each in self.addresses if address_key(each) not in addresses),
            neighbours=tuple(each for each in self.neighbours if neighbour_key(each) not in neighbours),
            forwarding=tuple(each for each in self.forwarding if forwarding_key(each) not in forwarding),
            routes=tuple(each for each in self.routes if route_key(each) not in routes),
        )

    def at(self, other: Entries) -> Entries:
        """Those whose key one of the other's has."""
        return self.without(self.without(other))


def address_key(each: DeviceAddress) -> tuple[str, str]:
    """What the kernel knows an address by, but for its length."""
    return each.dev, each.address


def neighbour_key(each: Neighbour) -> tuple[str, str]:
    """What the kernel knows a neighbour by."""
    return each.dev, each.address


def forwarding_key(each: Forwarding) -> tuple[str, str]:
    """What the kernel knows an FDB entry of one address by."""
    return each.dev, each.lladdr


def route_key(each: DeviceRoute) -> tuple[str, int, int]:
    """What the kernel knows an IPv4 route by, but for its TOS."""
    return each.dst, each.table, each.metric


_Entry = TypeVar("_Entry")


def _join(first: Iterable[_Entry], second: Iterable[_Entry], key: Callable[[_Entry], object]) -> tuple[_Entry, ...]:
    return tuple({key(each): each for each in (*first, *second)}.values())


class OverlayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How much an overlay device holds, for metrics."""

    fdb_entries: int = 0
    stale_neighbours: int = 0


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be.

    Attributes:
        device: where; empty for the whole host.
        subject: what of the device: a gateway, a MAC, a prefix, a peer's public key.
        peer: the node at the other end, where it is known.
        culprit: the node that has the fault: mostly this one.
        because: one sentence for each piece of evidence.
        found: what is in the place of what is wanted.
        wanted: what should be there, as far as it is known; empty where nothing can be put back.
        unwanted: what has to go for it: routes at which packets end, in the place of one that is wanted or before it.
        is_move: what was found was right until the peer took another address.
        is_cut_off: nothing at all passes between this node and the peer, the address it is probed by included.
        is_of_few: it loses some of the peer's pods, and no address that the peer is probed by.
    """

    code: FaultCode
    device: str
    subject: str
    peer: str = ""
    culprit: str = ""
    because: tuple[str, ...] = ()
    found: Entries = Entries()
    wanted: Entries = Entries()
    unwanted: Entries = Entries()
    is_move: bool = False
    is_cut_off: bool = False
    is_of_few: bool = False

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from others: the same thing found again has the same name."""
        return self.code, self.device, self.subject

    @property
    def severity(self) -> Severity:
        """By the catalogue, but where some pods of one node are lost: they may be locked out on purpose, for weeks."""
        return Severity.WARNING if self.is_of_few else CATALOGUE[self.code].severity


class RepairRung(StrEnum):
    """The steps of the repair ladder, from the smallest blast radius on; named as in `[repair]`."""

    NEIGHBOUR = "neighbour"
    FDB = "fdb"
    ROUTE = "route"
    MOVE_FDB = "move_fdb"
    RESEED = "reseed"
    BOUNCE = "bounce"


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A repair of one device.

    Attributes:
        is_bounce: the device is taken down and up before anything is put.
        put: entries to put. Neighbours and FDB entries take the place of what has their key; a route is added where
            none of its key is, for the one that is there is somebody else's; so is an address, before all else: routes
            need it.
        drop: entries to delete. A route in the place of one that is put goes before that is added, all else at the end.
        before: what was there under the keys of `put` and `drop`.
    """

    rung: RepairRung
    device: str
    is_bounce: bool = False
    put: Entries = Entries()
    drop: Entries = Entries()
    before: Entries = Entries()

    def inverse(self) -> RepairPlan:
        """The plan that brings back what was there before, but for a bounce, which cannot be undone.

        An address stays: it was the device's while all was well, and by now its owner may have put it as well.
        """
        drop = self.put.without(self.before)
        # A route is added, so that another one of the same key has to go; neighbours and FDB entries are replaced.
        routes = tuple(each for each in self.put.routes if each not in self.before.routes)
        return RepairPlan(
            rung=self.rung,
            device=self.device,
            put=self.before,
            drop=msgspec.structs.replace(drop, addresses=(), routes=routes),
            before=self.put,
        )

    def drop_first(self) -> tuple[DeviceRoute, ...]:
        """Routes to delete that have the place of one to be added."""
        places = {route_key(each) for each in self.put.routes}
        return tuple(each for each in self.drop.routes if route_key(each) in places)

    def drop_last(self) -> tuple[DeviceRoute, ...]:
        """All other routes to delete."""
        first = self.drop_first()
        return tuple(each for each in self.drop.routes if each not in first)

    def commands(self) -> tuple[str, ...]:
        """The plan as commands of iproute2; neighbours and FDB before routes, or the kernel would ask by ARP."""
        lines: list[str] = []
        if self.is_bounce:
            lines += [f"ip link set dev {self.device} down", f"ip link set dev {self.device} up"]
        for each in self.put.addresses:
            lines += [f"ip address add {_address(each)}", f"arping -U -c 2 -I {each.dev} {each.address}"]
        lines += [f"ip neigh replace {_neighbour(each)}" for each in self.put.neighbours]
        lines += [f"bridge fdb replace {_forwarding(each)}" for each in self.put.forwarding]
        lines += [f"ip route del {_route(each)}" for each in self.drop_first()]
        lines += [f"ip route add {_route(each)}" for each in self.put.routes]
        lines += [f"ip route del {_route(each)}" for each in self.drop_last()]
        lines += [f"bridge fdb del {each.lladdr} dev {each.dev} dst {each.dst} self" for each in self.drop.forwarding]
        lines += [f"ip neigh del {each.address} dev {each.dev}" for each in self.drop.neighbours]
        return tuple(lines)

    def operations(self) -> tuple[str, ...]:
        """The plan as netlink messages."""
        lines: list[str] = []
        if self.is_bounce:
            lines += [f"RTM_NEWLINK {self.device} flags -IFF_UP", f"RTM_NEWLINK {self.device} flags +IFF_UP"]
        replace = "NLM_F_CREATE|NLM_F_REPLACE"
        for each in self.put.addresses:
            lines += [f"RTM_NEWADDR NLM_F_CREATE|NLM_F_EXCL {_address(each)}", f"ARP announcement of {each.address}"]
        lines += [
            f"RTM_NEWNEIGH {replace} AF_INET dev {each.dev} NDA_DST {each.address} NDA_LLADDR {each.lladdr}"
            f" state {'NUD_PERMANENT' if each.is_permanent else 'NUD_STALE'}"
            for each in self.put.neighbours
        ]
        lines += [
            f"RTM_NEWNEIGH {replace} AF_BRIDGE NTF_SELF dev {each.dev} NDA_LLADDR {each.lladdr} NDA_DST {each.dst}"
            " state NUD_PERMANENT"
            for each in self.put.forwarding
        ]
        lines += [f"RTM_DELROUTE {_route(each)}" for each in self.drop_first()]
        lines += [f"RTM_NEWROUTE NLM_F_CREATE|NLM_F_EXCL {_route(each)}" for each in self.put.routes]
        lines += [f"RTM_DELROUTE {_route(each)}" for each in self.drop_last()]
        lines += [f"RTM_DELNEIGH AF_BRIDGE dev {each.dev} NDA_LLADDR {each.lladdr}" for each in self.drop.forwarding]
        lines += [f"RTM_DELNEIGH AF_INET dev {each.dev} NDA_DST {each.address}" for each in self.drop.neighbours]
        return tuple(lines)


def _address(each: DeviceAddress) -> str:
    return f"{each.address}/{each.length} dev {each.dev}"


def _neighbour(each: Neighbour) -> str:
    state = "permanent" if each.is_permanent else "stale"
    return f"{each.address} lladdr {each.lladdr} dev {each.dev} nud {state}"


def _forwarding(each: Forwarding) -> str:
    return f"{each.lladdr} dev {each.dev} dst {each.dst} self permanent"


def _route(each: DeviceRoute) -> str:
    words = [each.kind, each.dst] if each.kind else [each.dst]
    words += ["via", each.via] if each.via else []
    words += ["dev", each.dev] if each.dev else []
    words += ["src", each.src] if each.src else []
    words += ["table", str(each.table)] if each.table != MAIN_TABLE else []
    words += ["proto", _PROTOCOLS.get(each.protocol, str(each.protocol))]
    words += ["metric", str(each.metric)] if each.metric else []
    words += ["scope", str(each.scope)] if each.scope else []
    words += ["onlink"] if each.is_onlink else []
    return " ".join(words)


_PROTOCOLS = {2: "kernel", RTPROT_BOOT: "boot", 4: "static"}
