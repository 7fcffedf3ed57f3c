"""Kernel tables in memory: taken over from a dump, kept up by notifications.

A dump takes the kernel several turns, and what happens in between may or may not be in it. So a notification that
arrives during a dump is remembered and applied once more after it: the last word on a key is the kernel's last word.
Only two things make that wrong, and both make a table *doubtful*, which asks for another dump:

    a replacement told after a dump that has the state after it    an equal key that was there beside it is mistaken
                                                                   for the replaced one
    a deletion while neighbours or FDB entries are dumped          the kernel goes on by counting within a hash bucket,
                                                                   and counts past an entry that has moved up
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import NamedTuple

from meshwatchd.adapters.netlink import compact, objects
from meshwatchd.adapters.netlink.message import NLM_F_APPEND, NLM_F_REPLACE

RTN_LOCAL = 2


class Put(NamedTuple):
    """Something was added or changed; flags as in the notification's header."""

    key: bytes
    values: tuple[bytes, ...]
    flags: int


class Gone(NamedTuple):
    """Something was deleted."""

    key: bytes
    values: tuple[bytes, ...]


class DeviceGone(NamedTuple):
    """A device was deleted: everything on it goes, mostly without a word."""

    ifindex: int


class DeviceDown(NamedTuple):
    """A device went down: the kernel drops its IPv4 routes without a word."""

    ifindex: int


Change = Put | Gone | DeviceGone | DeviceDown
Entries = dict[bytes, tuple[bytes, ...]]
Apply = Callable[[Entries, Change], None]
Join = Callable[[bytes, tuple[bytes, ...], tuple[bytes, ...]], tuple[bytes, ...]]


class Table:
    """One kind of object.

    Args:
        apply: what a change does to the entries.
        join: what two objects of one key in a dump come to; without it the later one holds.
        is_counted: the kernel dumps it by counting, so that a deletion meanwhile makes a dump doubtful.

    Attributes:
        entries: values by key, in the kernel's order.
        is_doubtful: the last dump may be wrong and should be repeated.
        version: counts changes.
    """

    def __init__(self, apply: Apply, *, join: Join | None = None, is_counted: bool = False) -> None:
        self.entries: Entries = {}
        self.is_doubtful = False
        self.version = 0
        self._apply = apply
        self._join = join
        self._is_counted = is_counted
        self._meanwhile: list[Change] | None = None
        self._dumped: Entries = {}

    def change(self, change: Change) -> None:
        """Take in a notification."""
        self._apply(self.entries, change)
        self.version += 1
        if self._meanwhile is not None:
            self._meanwhile.append(change)

    def begin(self) -> None:
        """A dump is about to be asked for."""
        self._meanwhile, self._dumped = [], {}

    def add(self, packed: compact.Packed) -> None:
        """One object of the dump under way."""
        key, values = packed
        earlier = self._dumped.get(key) if self._join is not None else None
        self._dumped[key] = values if earlier is None or self._join is None else self._join(key, earlier, values)

    def finish(self) -> None:
        """The dump is complete: it takes the place of what was known, and what happened meanwhile is applied to it."""
        meanwhile, fresh = self._meanwhile or [], self._dumped
        self.is_doubtful = self._casts_doubt(meanwhile, fresh)
        for change in meanwhile:
            self._apply(fresh, change)
        self.entries, self._meanwhile, self._dumped = fresh, None, {}
        self.version += 1

    def abandon(self) -> None:
        """The dump has failed: what was known stays known."""
        self._meanwhile, self._dumped = None, {}

    def _casts_doubt(self, meanwhile: list[Change], dumped: Entries) -> bool:
        if self._is_counted:
            return any(isinstance(change, Gone) for change in meanwhile)
        seen: set[bytes] = set()
        for change in reversed(meanwhile):
            if not isinstance(change, Put | Gone):
                continue
            is_replacement = isinstance(change, Put) and bool(change.flags & NLM_F_REPLACE)
            if is_replacement and change.key in seen and change.key in dumped:
                return True
            seen.add(change.key)
        return False


def apply_to_routes(entries: Entries, change: Change) -> None:
    """Do to routes what the kernel does.

    Source: fib_table_insert() in net/ipv4/fib_trie.c (a replacement takes the place of the first of its key), and
    fib_sync_down_dev() in net/ipv4/fib_semantics.c (local routes survive when a device goes down, not its removal).
    """
    match change:
        case Put(key, values, flags):
            _put_route(entries, key, values, flags)
        case Gone(key, values):
            _keep(entries, key, tuple(value for value in entries.get(key, ()) if value not in values))
        case DeviceGone(index):
            _drop_routes(entries, index, has_gone=True)
        case DeviceDown(index):
            _drop_routes(entries, index, has_gone=False)


def join_routes(key: bytes, first: tuple[bytes, ...], later: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Routes of one key together: the first of IPv4 counts, so their order does; those of IPv6 have none."""
    joined = (*first, *(value for value in later if value not in first))
    return joined if compact.family_of(key) == socket.AF_INET else tuple(sorted(joined))


def apply_to_neighbours(entries: Entries, change: Change) -> None:
    """Do to neighbours what the kernel does; it tells of each that goes with a device that goes down."""
    _apply_to_entries(entries, change, compact.index_of_neighbour)


def apply_to_fdb(entries: Entries, change: Change) -> None:
    """Do to FDB entries what the kernel does; they outlive the going down of a device."""
    _apply_to_entries(entries, change, compact.index_of_fdb)


def apply_to_devices(entries: Entries, change: Change) -> None:
    """Do to links and addresses, keyed by their interface index, what the kernel does."""
    _apply_to_entries(entries, change, objects.index_of)


def silently_lost(entries: Entries, index: int, *, has_gone: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the IPv4 routes that go when a device goes down, or is deleted.

    A route of several next hops stays as long as one of them does.
    """
    needle = index.to_bytes(4, "little" if _IS_LITTLE else "big")
    for key, values in entries.items():
        if compact.family_of(key) != socket.AF_INET or not any(needle in value for value in values):
            continue
        for value in values:
            route = compact.unpack_route(key, value)
            is_local = route.kind == RTN_LOCAL
            if route.hops and all(hop.ifindex == index for hop in route.hops) and (has_gone or not is_local):
                yield key, value


_IS_LITTLE = socket.htons(1) != 1


def _put_route(entries: Entries, key: bytes, values: tuple[bytes, ...], flags: int) -> None:
    present = entries.get(key, ())
    if compact.family_of(key) == socket.AF_INET6:
        entries[key] = join_routes(key, () if flags & NLM_F_REPLACE else present, values)
        return
    if flags & NLM_F_REPLACE:
        # The kernel has no two equal ones: where the new one stands already, the dump was later than the notification.
        entries[key] = (*values, *(value for value in present[1:] if value not in values))
        return
    missing = tuple(value for value in values if value not in present)
    if missing:
        entries[key] = (*present, *missing) if flags & NLM_F_APPEND else (*missing, *present)


def _drop_routes(entries: Entries, index: int, *, has_gone: bool) -> None:
    for key, value in list(silently_lost(entries, index, has_gone=has_gone)):
        _keep(entries, key, tuple(each for each in entries[key] if each != value))
    if has_gone:
        for key in [key for key in entries if compact.family_of(key) == socket.AF_INET6]:
            left = tuple(value for value in entries[key] if not compact.leads_into(value, frozenset({index})))
            if len(left) != len(entries[key]):
                _keep(entries, key, left)


def _keep(entries: Entries, key: bytes, values: tuple[bytes, ...]) -> None:
    if values:
        entries[key] = values
    else:
        entries.pop(key, None)


def _apply_to_entries(entries: Entries, change: Change, index_of: Callable[[bytes], int]) -> None:
    match change:
        case Put(key, values):
            entries[key] = values
        case Gone(key):
            entries.pop(key, None)
        case DeviceGone(index):
            for key in [key for key in entries if index_of(key) == index]:
                del entries[key]
        case DeviceDown():
            pass
