"""What the audit knows beside the overlay: WireGuard devices, the host, and where the kernel routes packets of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from meshwatchd.adapters.host.proc import read_host
from meshwatchd.core.audit.host import HostAudit
from meshwatchd.core.audit.host_mesh import audit_silence, counted
from meshwatchd.core.audit.pod_routes import PodRouteAudit
from meshwatchd.core.audit.view import View
from meshwatchd.core.audit.wireguard import TunnelAudit
from meshwatchd.core.audit.wireguard_losses import look_for_losses
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.host import HostState
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.snapshot import Snapshot, WireGuardState
from meshwatchd.profiles.reading import own_addresses
from meshwatchd.runtime import beat

LOOK_S = 2.0
"""Some twenty small files of /proc, in less than a millisecond."""


class Routing(Protocol):
    """The kernel, asked where a packet would go."""

    @property
    def version(self) -> object:
        """Another value after each change of a rule or a route."""

    @property
    def protocols(self) -> tuple[int, ...]:
        """IP protocols that rules single out."""

    def ask(self, question: RouteQuestion) -> RouteAnswer:
        """Where the packet would go."""


class Lookout:
    """One node's WireGuard devices, host and routing.

    Args:
        standby_prefix: of our own devices, which strict filters hit first.
    """

    def __init__(
        self,
        node: str,
        standby_prefix: str,
        clock: Callable[[], int],
        *,
        routing: Routing,
        read: Callable[..., HostState] = read_host,
    ) -> None:
        self._clock, self._read, self._prefix = clock, read, standby_prefix
        self._host = HostAudit(node)
        self._tunnels = TunnelAudit()
        self._routing = routing
        self._pod_routes = PodRouteAudit(standby_prefix, routing.ask, lambda: routing.protocols)
        self._states: tuple[WireGuardState, ...] = ()
        self._devices: tuple[str, ...] = ()
        self._counted: tuple[str, ...] = ()
        self._forwarders: tuple[str, ...] = ()

    def observe(self, states: tuple[WireGuardState, ...]) -> None:
        """WireGuard devices have been looked at."""
        self._states = states
        self._tunnels.observe(states)

    def findings(self, view: View, now: int) -> Iterator[AuditFinding]:
        """What is wrong with any; a device that is down carries nothing and is not judged."""
        self._devices, self._counted = tuple(_devices(view, self._prefix)), counted(view)
        up = {link.name for link in view.snapshot.links if link.is_up}
        running = [state for state in self._states if state.device in up]
        self._tunnels.rest(state.device for state in self._states if state.device not in up)
        addresses = own_addresses(view.snapshot)
        yield from self._tunnels.look(
            running,
            mesh=view.mesh,
            node=view.node,
            good=view.good,
            addresses=sorted(addresses),
            hellos=view.hellos,
            routes=view.snapshot.device_routes,
        )
        yield from look_for_losses(
            view.snapshot,
            running,
            mesh=view.mesh,
            node=view.node,
            good=view.good,
            hellos=view.hellos,
            unheard=view.unheard,
        )
        yield from self._look_below(view, running)
        # A mesh without an overlay (Kilo as the CNI) forwards by its WireGuard device.
        cni = view.mesh.overlay_device or view.mesh.wireguard_device
        yield from self._host.look(has_cni=cni in up)
        is_forwarding = self._host.is_forwarding
        view = replace(view, silent=self._tunnels.silent(view.mesh.wireguard_device))
        yield from self._pod_routes.look(view, self._routing.version, now, is_forwarding=is_forwarding)
        bridge = self._pod_routes.bridge
        self._forwarders = (bridge.name,) if bridge is not None else ()

    def _look_below(self, view: View, running: Iterable[WireGuardState]) -> Iterator[AuditFinding]:
        """Whether a host mesh below delivers; of WireGuard over it the silence of its peers tells."""
        tunnel = view.mesh.wireguard_device
        if not tunnel:
            yield from audit_silence(view, self._host.past)
        for state in (each for each in running if each.device == tunnel):
            silent_ns, peers = self._tunnels.silence(state)
            yield from audit_silence(view, self._host.past, silent_ns=silent_ns, peers=peers)

    async def watch(self, tell: Callable[[], None]) -> None:
        """Look at the host for ever; what is found is told by the next look of the audit."""
        while True:
            seen = self._read(self._devices, self._clock(), forwarders=self._forwarders, counted=self._counted)
            self._host.observe(seen)
            tell()
            await beat.rest(LOOK_S)


def _devices(view: View, prefix: str) -> Iterator[str]:
    """The devices of the mesh that are up, for which filters and forwarding matter."""
    snapshot: Snapshot = view.snapshot
    for link in snapshot.links:
        is_ours = link.kind in ("wireguard", "") and link.name.startswith(prefix)
        if link.is_up and (is_ours or link.name in (view.mesh.wireguard_device, view.mesh.overlay_device)):
            yield link.name
