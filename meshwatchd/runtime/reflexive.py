"""Under which address others can reach this node, as others see it; nobody behind NAT knows by itself.

    leaders      a peer on the mesh's WireGuard device sees where our packets come from
    backups      have no tunnel of the mesh: they greet other locations' leaders outside of it, and are told

Only an address whose port is the one we send from counts: then the NAT is one to one, or keeps ports, and a standby
link can be tried. Where that is wrong, the link does not come up, and its path says so. Nothing is proven beyond
the peer's word: who can rewrite our packets on the way can also drop them.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final

from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import NodeName
from meshwatchd.model.snapshot import WireGuardState

MAX_DIRECT: Final = 3
"""Leaders that are greeted outside of the mesh; one would do."""

MAX_OPEN: Final = 64
MAX_WITNESSES: Final = 256


def tunnel_of(tunnels: tuple[WireGuardState, ...], device: str) -> WireGuardState | None:
    """The state of the mesh's WireGuard device."""
    return next((tunnel for tunnel in tunnels if tunnel.device == device), None)


class Reflexive:
    """What others say about where we are."""

    def __init__(self) -> None:
        self._witnesses: dict[str, str] = {}
        self._direct: tuple[str, ...] = ()
        self._open: OrderedDict[int, str] = OrderedDict()
        self._tunnels: tuple[WireGuardState, ...] = ()
        self._endpoints: dict[str, list[str]] = {}

    def endpoint(self) -> str:
        """The address most of them see, of two the lower; empty while nobody sees one."""
        counts = Counter(self._witnesses.values())
        return min(counts, key=lambda address: (-counts[address], address), default="")

    def direct(self, hellos: Mapping[NodeName, Hello], own: Hello | None) -> tuple[str, ...]:
        """Where to greet outside of the mesh: leaders of other locations that have an address there."""
        leaders = sorted(
            name
            for name, hello in hellos.items()
            if own is not None
            and hello.home != own.home
            and hello.view.is_leader
            and _is_literal(hello.standby_endpoint)
        )
        self._direct = tuple(dict.fromkeys(hellos[name].standby_endpoint for name in leaders))[:MAX_DIRECT]
        # The word of nodes that are forgotten would outvote that of those that are there.
        self._witnesses = {name: address for name, address in self._witnesses.items() if name in hellos}
        return self._direct

    def sent(self, counter: int, address: str) -> None:
        """A hello of ours is on its way."""
        if address in self._direct:
            self._open[counter] = address
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)

    def heard(self, witness: str, *, seen: str, came_from: str, counter: int) -> None:
        """A believed hello, with what its sender sees of us: our end of its tunnel, and the source of the hello of ours
        that it answers.
        """
        was_direct = self._open.pop(counter, "") != ""
        address = seen or (came_from if was_direct else "")
        if _is_literal(address) and (witness in self._witnesses or len(self._witnesses) < MAX_WITNESSES):
            self._witnesses[witness] = address

    def sees(self, tunnels: tuple[WireGuardState, ...], peer: Hello) -> str:
        """Where we see a peer: its endpoint on our tunnel, if that has the port it listens on."""
        if not peer.tunnel_public_key:
            return ""
        if tunnels is not self._tunnels:
            # Each snapshot is looked through once, and not for each hello: beside Kilo's full granularity a device has
            # a peer for each node.
            self._tunnels, self._endpoints = tunnels, {}
            for each in (each for tunnel in tunnels for each in tunnel.peers):
                self._endpoints.setdefault(each.public_key, []).append(each.endpoint)
        for endpoint in self._endpoints.get(peer.tunnel_public_key, ()):
            host, _, port = endpoint.rpartition(":")
            if port == str(peer.tunnel_port):
                return host.strip("[]")
        return ""


def _is_literal(text: str) -> bool:
    """An IPv4 address that could be somebody's: standby links are IPv4."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_multicast or address.is_unspecified or address.is_link_local)
