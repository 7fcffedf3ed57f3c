"""Everything the agent does about what is not ours in the kernel: audit, repair, and the figures that tell of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Protocol

from meshwatchd.adapters.netlink.ports import StandingKernel
from meshwatchd.adapters.netlink.repair import OverlayKernel
from meshwatchd.adapters.netlink.route_lookup import RouteLookup, Tables
from meshwatchd.model.audit import AuditFinding, OverlayFigures
from meshwatchd.model.events import FindingsReported, PeersTold, RepairDone
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import Neighbour, Snapshot, WireGuardState
from meshwatchd.model.sources import Sources
from meshwatchd.model.status import Status
from meshwatchd.runtime.auditor import Auditor
from meshwatchd.runtime.cluster_care import ClusterCare
from meshwatchd.runtime.connection_care import ConnectionCare
from meshwatchd.runtime.liqo_watch import LiqoWatch
from meshwatchd.runtime.lookout import Lookout
from meshwatchd.runtime.metrics import Metrics
from meshwatchd.runtime.outer_reroute import Rerouting
from meshwatchd.runtime.sinks import Log
from meshwatchd.runtime.underlay_watch import UnderlayWatch


class Kernel(Tables, Protocol):
    """What of the mirror is used."""

    async def read_back(self) -> Snapshot:
        """A snapshot that shows what has been acknowledged."""

    def lan_neighbours(self) -> tuple[Neighbour, ...]:
        """Those on devices that are not the mesh's."""

    def overlay_figures(self, device: str) -> OverlayFigures:
        """How much a device holds."""


class DeviceCare:
    """One node's devices.

    Attributes:
        auditor: sees snapshots, hears hellos, carries out repairs.
        lookout: looks at WireGuard devices, which `observe` takes.
        rerouting: outer packets that go through a neighbour.
    """

    def __init__(
        self,
        settings: Settings,
        kernel: Kernel,
        send: Callable[[FindingsReported | PeersTold | RepairDone], None],
        *,
        status: Callable[[], Status | None],
        refresh: Callable[[], Awaitable[None]],
        duplicates: Callable[[], Iterable[AuditFinding]],
        unheard: Callable[[], frozenset[str]] = frozenset,
        sources: Callable[[], Sources] = Sources,
        log: Log,
    ) -> None:
        self._settings, self._kernel, self._status = settings, kernel, status
        self._is_stopping = False
        self._socket = OverlayKernel()
        self._routing = RouteLookup(kernel)
        self.lookout = Lookout(
            settings.daemon.node, settings.kernel.device_prefix, time.monotonic_ns, routing=self._routing
        )
        self._underlay = UnderlayWatch(kernel.lan_neighbours)
        self._liqo = LiqoWatch(settings, log)
        self._clusters = ClusterCare(sources)
        self.rerouting = Rerouting(settings, log=log)
        self._connections = ConnectionCare(settings, self._mesh, log)
        self.auditor = Auditor(
            mesh=settings.mesh,
            node=settings.daemon.node,
            kernel=self._socket,
            read_back=kernel.read_back,
            send=send,
            clock=time.monotonic_ns,
            state_dir=Path(settings.daemon.state_dir),
            log=log,
            unheard=unheard,
            sources=(
                self.lookout.findings,
                self._underlay.findings,
                self._liqo.findings,
                self._clusters.findings,
                self.rerouting.findings,
                lambda _view, _now: duplicates(),
            ),
        )
        self.metrics = Metrics(settings.metrics, self._figures, log, refresh=refresh)

    def note(self, status: Status) -> None:
        """Take in what the engine says of itself."""
        self.auditor.note(status)
        self._underlay.note(status)
        self._clusters.note(status)
        self.rerouting.note(status)
        self._connections.note(status)

    def observe(self, states: tuple[WireGuardState, ...]) -> None:
        """WireGuard devices have been looked at."""
        self.lookout.observe(states)
        self._clusters.observe(states)

    def duties(self, kernel: StandingKernel) -> tuple[Coroutine[object, object, None], ...]:
        """What goes on for as long as the agent lives."""
        return (
            self.auditor.watch(),
            self.auditor.repair(),
            self.lookout.watch(self.auditor.wake),
            self._underlay.watch(self.auditor.wake),
            self._liqo.watch(self.auditor.wake),
            self._connections.watch(),
            self.metrics.serve(),
            self.metrics.write(),
            *self.rerouting.duties(kernel, self.auditor.wake),
        )

    def stop(self) -> None:
        """The daemon stops in order: no next process is sure to come soon."""
        self._is_stopping = True

    async def finish(self, kernel: StandingKernel) -> None:
        """Take routes away that nobody would watch, and wait until what was good is written.

        After a crash or a kill of the engine they stay: the next one is started at once, and goes on from them.
        """
        if self._is_stopping:
            await self.rerouting.withdraw(kernel)
        await self.auditor.close()
        await self._liqo.close()

    def close(self) -> None:
        """Close the sockets; nothing in the kernel changes."""
        self._socket.close()
        self._routing.close()

    def _mesh(self) -> MeshSettings:
        seen = self.auditor.snapshot
        return seen.mesh if seen is not None and seen.mesh is not None else self._settings.mesh

    def _figures(self) -> tuple[Status | None, OverlayFigures]:
        return self._status(), self._kernel.overlay_figures(self._mesh().overlay_device)
