"""The part of the kernel's state that decisions rest on, as one value.

A snapshot is only ever sent after a complete dump: its arrival is the in-sync gate that opens changes.
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.plan import Route, Rule


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A network device.

    Attributes:
        kind: IFLA_INFO_KIND, as "wireguard", "vxlan", "tun"; empty for devices without one.
        is_up: the IFF_UP flag, which is what makes a Kilo node a leader.
        addresses: its IPv4 addresses without prefix length.
    """

    name: str
    index: int
    kind: str
    is_up: bool
    mtu_bytes: int
    addresses: tuple[str, ...] = ()


class ForeignObject(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else's rule or route that sits where ours would go."""

    what: str
    owner_protocol: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Links, our own marked rules and routes, and whatever collides with them."""

    links: tuple[Link, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: tuple[Route, ...] = ()
    collisions: tuple[ForeignObject, ...] = ()

    def link(self, name: str) -> Link | None:
        """The device of that name, or None."""
        return next((link for link in self.links if link.name == name), None)
