"""In which location this node is: what its sources say, else what its leader says, else what it remembers.

    the operator's pin            believed
    a name from the sources       believed (Kilo's graph, a node's labels)
    the name remembered           kept, whoever leads; given up for the leader's after a minute of disagreement
    the leader's name             taken over by a node that has none
    "site-" and the own name      by a leader that has none and hears of none

Only a leader makes a name, and only once: it is repeated in hellos and written to disk, so it outlives that leader. A
new leader without a memory takes the name that most of those have who follow it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from meshwatchd.model.discovery import Basis, Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import SECOND

BIRTH_NS = 2 * SECOND
"""How long a leader listens for a name before it makes one."""

DISAGREEMENT_NS = 60 * SECOND
"""A leader of another location is a passing state of an election, or this node has moved."""

FULL = "full"
"""The granularity in which each node is a location of its own."""

Hellos = Mapping[NodeName, Hello]


def addresses(hellos: Hellos) -> dict[str, NodeName]:
    """Which node has an address; of two that claim one, the first by name.

    The WireGuard address goes with the lead: it belongs to the location, and former leaders keep it on a device that is
    down.
    """
    owners: dict[str, NodeName] = {}
    for name in sorted(hellos):
        view = hellos[name].view
        tunnel = view.wireguard_ip if view.is_leader else ""
        for address in (view.overlay_ip, view.node_ip, tunnel, view.overlay_ip6, view.node_ip6):
            if address:
                owners.setdefault(address, name)
    return owners


def leader_of(hello: Hello, owners: Mapping[str, NodeName]) -> NodeName | None:
    """The node that a node takes for its leader; itself if it leads, None if it names nobody that is known."""
    return hello.view.node if hello.view.is_leader else owners.get(hello.view.leader)


def place(hellos: Hellos) -> dict[NodeName, LocationName]:
    """The location of each node that has one, from what all of them say alone.

    A node whose name is only derived follows a leader whose name is not: where a source names a location, members that
    have no access to it must not be left behind.
    """
    owners = addresses(hellos)
    places: dict[NodeName, LocationName] = {}
    for name in sorted(hellos):
        hello = hellos[name]
        leader = leader_of(hello, owners)
        led = hellos.get(leader) if leader is not None else None
        home = hello.home
        if led is not None and hello.basis < Basis.SOURCE and (led.basis >= Basis.SOURCE or not home):
            home = led.home
        if home:
            places[name] = home
    return places


class HomeKeeper:
    """The location of one node.

    Args:
        pinned: by the operator; empty for none.
        remembered: from an earlier process; empty for none.
    """

    def __init__(self, node: NodeName, *, pinned: str = "", remembered: str = "") -> None:
        self._node = node
        self._pinned = LocationName(pinned)
        self._home = LocationName(remembered)
        self._born_ns: int | None = None
        self._has_listened = False
        self._other = LocationName("")
        self._other_ns = 0

    def decide(self, view: LocalView, peers: Hellos, now: int) -> tuple[LocationName, Basis]:
        """The location and what it rests on; an empty name while nothing tells."""
        if self._born_ns is None:
            self._born_ns = now
        self._has_listened = now - self._born_ns >= BIRTH_NS
        if self._pinned:
            return self._pinned, Basis.OPERATOR
        if view.location:
            self._home, self._other = view.location, LocationName("")
            return view.location, Basis.SOURCE
        leader = None if view.is_leader else addresses(peers).get(view.leader)
        led = peers[leader].home if leader is not None else LocationName("")
        if not self._home:
            self._home = self._first(view, peers) if view.is_leader else led
        elif leader is not None and peers[leader].basis >= Basis.SOURCE and led:
            self._home, self._other = led, LocationName("")
        else:
            self._doubt(led, now)
        return self._home, Basis.DERIVED if self._home else Basis.NONE

    def deadline(self) -> int | None:
        """When `decide` may come to another answer by the mere passing of time."""
        if self._pinned or self._born_ns is None:
            return None
        if self._other:
            return self._other_ns + DISAGREEMENT_NS
        return None if self._home or self._has_listened else self._born_ns + BIRTH_NS

    def _first(self, view: LocalView, peers: Hellos) -> LocationName:
        """A leader's first name: that of its followers, or after a while one of its own."""
        own = {address for address in (view.overlay_ip, view.node_ip, view.wireguard_ip) if address}
        followers = [peers[name].home for name in sorted(peers) if peers[name].view.leader in own and peers[name].home]
        if followers and view.granularity != FULL:
            counts = Counter(followers)
            return min(counts, key=lambda home: (-counts[home], home))
        return LocationName(f"site-{self._node}" if self._has_listened else "")

    def _doubt(self, led: LocationName, now: int) -> None:
        """Follow a leader that has been in another location for long."""
        if not led or led == self._home:
            self._other = LocationName("")
        elif led != self._other:
            self._other, self._other_ns = led, now
        elif now - self._other_ns >= DISAGREEMENT_NS:
            self._home, self._other = led, LocationName("")
