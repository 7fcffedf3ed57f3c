"""What lasts of a node's view of itself: its role, and its address on a mesh of the host.

What a restart of Kilo's agent looks like for a moment is no change of leaders.

Each start of Kilo's agent begins with a fifth of a second in which it knows no node but its own, so that kilo0 is up
and this node leads. Whoever believed that would tear down paths that work. Leaders do change, and then the new role
stays.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.discovery import Finding, LocalView
from meshwatchd.model.host_mesh import HOST_MESH_KINDS, endpoints_of, is_up
from meshwatchd.model.snapshot import Snapshot

HOLD_NS: Final = 1_200_000_000
"""Six times as long as the transient. A change of leaders has to be followed by all nodes within three seconds, and up
to 0.5 s pass before it is looked at, 0.3 s until the words of all nodes agree, 0.5 s until the engines have it."""

_ROLE: Final = ("leader", "is_leader", "granularity", "wireguard_ip", "wireguard_ip6")


class Steady:
    """Holds a new role back until it has been the same for a while.

    The first is believed at once: there is nothing that could be kept instead.

    Args:
        hold_ns: how long.
    """

    def __init__(self, hold_ns: int = HOLD_NS) -> None:
        self._hold_ns = hold_ns
        self._believed: LocalView | None = None
        self._doubted: tuple[object, ...] | None = None
        self._since_ns = 0

    def observe(self, view: LocalView, now: int) -> LocalView:
        """Take in a view; returns it with the role that is believed.

        Args:
            view: as composed.
            now: monotonic nanoseconds.
        """
        believed = self._believed
        if believed is None or _role(view) == _role(believed):
            self._believed, self._doubted = view, None
            return view
        if self._doubted != _role(view):
            self._doubted, self._since_ns = _role(view), now
        if now - self._since_ns >= self._hold_ns:
            self._believed, self._doubted = view, None
            return view
        held = {name: getattr(believed, name) for name in _ROLE}
        lasting = f"which counts once it has lasted for {self._hold_ns / 1e9:g} s"
        text = f"{_tell(view)}, {lasting}; until then {_tell(believed)}"
        why = (*view.why, Finding(source=f"link {view.wireguard_device}", text=text))
        self._believed = msgspec.structs.replace(view, **held)
        return msgspec.structs.replace(self._believed, why=why)

    def deadline(self) -> int | None:
        """When a view has to be observed again although nothing has changed; None while nothing is doubted."""
        return None if self._doubted is None else self._since_ns + self._hold_ns


class CarrierMemory:
    """Address and layers of a node whose tunnels leave by a host mesh, for as long as the device of that is gone.

    Routes to the peers lead to the network card then, and the node would call itself by an address at which nobody
    knows it: that its device is gone or down is its fault, and no other mesh.
    """

    def __init__(self) -> None:
        self._seen: LocalView | None = None
        self._endpoints: frozenset[str] = frozenset()

    def observe(self, view: LocalView, snapshot: Snapshot) -> LocalView:
        """Take in a view; returns it as it was in all that the missing device decides, unless the mesh has left that.

        It has where its peers have other endpoints; without any, where flannel's device is there and bound elsewhere.

        Args:
            view: as composed.
            snapshot: that it was composed of.
        """
        before, endpoints = self._seen, endpoints_of(snapshot, view.wireguard_device)
        layers = before.layers if before is not None else ()
        carrier = next((layer.device for layer in layers if layer.kind in HOST_MESH_KINDS), "")
        has_moved = not endpoints & self._endpoints if endpoints else bool(view.layers) and not self._endpoints
        if before is None or not carrier or has_moved or is_up(snapshot, carrier):
            self._seen, self._endpoints = view, endpoints
            return view
        text = f"it is gone or down, and this node stays {before.node_ip}, as its peers know it"
        return msgspec.structs.replace(
            view,
            node_ip=before.node_ip,
            node_ip6=before.node_ip6,
            node_macs=before.node_macs,
            public_endpoint=before.public_endpoint,
            layers=before.layers,
            why=(*view.why, Finding(source=f"link {carrier}", text=text)),
        )


def _role(view: LocalView) -> tuple[object, ...]:
    return tuple(getattr(view, name) for name in _ROLE)


def _tell(view: LocalView) -> str:
    if view.is_leader:
        return "this node leads"
    return f"{view.leader} leads" if view.leader else "nobody leads"
