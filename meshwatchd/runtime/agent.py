"""The agent: everything that may be slow or may crash, in a process of its own.

    engine --EnsureProvision--> worker: standing objects --Provisioned--> engine
    kernel --notifications----> mirror: SnapshotReceived (when changes settle), ObjectLost (at once) --> engine
    engine --facts, status----> sinks, event store, control socket <--> meshwatchctl

It ends when the engine's end of the link is closed. It takes ways of outer packets back where that one stops in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

import msgspec

from meshwatchd.adapters.control.server import ControlServer
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.endpoint_lookup import EndpointLookups
from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.process import read_processor_ns, read_resident_bytes, release_memory
from meshwatchd.adapters.storage.event_store import EventStore
from meshwatchd.adapters.wireguard.device import Devices
from meshwatchd.core.audit.cluster_control import controls_of
from meshwatchd.core.audit.wireguard_changes import TunnelWatch, tunnel_status
from meshwatchd.model.decoding import refusals
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.errors import ControlError, MeshwatchError
from meshwatchd.model.events import SnapshotReceived
from meshwatchd.model.frames import (
    AgentEvent,
    AliveFrame,
    AskFrame,
    EventFrame,
    FactFrame,
    OperatorReplyFrame,
    PingFrame,
    ProvisionFrame,
    RepairFrame,
    StateFrame,
    StatusAskedFrame,
    StatusFrame,
    StopFrame,
    ToAgent,
    ToEngine,
)
from meshwatchd.model.outputs import SessionSuspected
from meshwatchd.model.process_facts import ConfigReloaded
from meshwatchd.model.settings import SECOND, Settings
from meshwatchd.model.snapshot import Snapshot, WireGuardState
from meshwatchd.model.status import Status
from meshwatchd.profiles.detours import addresses_near
from meshwatchd.runtime import beat
from meshwatchd.runtime.auto_bisect import Prover
from meshwatchd.runtime.debounce import settle
from meshwatchd.runtime.device_care import DeviceCare
from meshwatchd.runtime.discovery import Discovery
from meshwatchd.runtime.kept_state import KeptState
from meshwatchd.runtime.late_discovery import LateDiscovery
from meshwatchd.runtime.link import AgentEnd, LinkClosedError
from meshwatchd.runtime.operator_desk import OperatorDesk
from meshwatchd.runtime.own_view import OwnView
from meshwatchd.runtime.picture import Picture
from meshwatchd.runtime.processor_use import ProcessorUse
from meshwatchd.runtime.provisioning import Standing
from meshwatchd.runtime.rule_place import RulePlace
from meshwatchd.runtime.service_desk import ServiceDesk
from meshwatchd.runtime.sinks import Log, Sinks
from meshwatchd.runtime.standing_work import Counterparts, StandingWork
from meshwatchd.runtime.tunnel_poll import Surroundings, TunnelPoll
from meshwatchd.wire.auth import MeshSecret

RETRY_S = 1.0
QUIET_S, LIMIT_S = 0.05, 0.5
"""Changes come in swarms (a device going up is a dozen messages); one snapshot tells them all, when nothing has changed
for a moment or the limit is reached."""
QUIET_FACTOR = 20
"""On a node of a large mesh a snapshot takes milliseconds; the quiet is so many times as long."""
SOURCES_S = 2.0
"""How often it is seen which source is due; each has its own interval."""
REST_S = 30.0
"""Until what only the start needs is over: first dumps, hellos, keys."""
CONTROL_RETRY_S = 5.0
SOCKET_NAME = "control.sock"


class Agent:
    """One agent, from its first dump to the end of the link.

    Args:
        config: the file the settings came from; read again for its keys when the engine has done so.
        secrets: of the mesh; without any, nobody is greeted.
    """

    def __init__(
        self,
        settings: Settings,
        link: AgentEnd,
        log: Log,
        *,
        config: Path | None = None,
        secrets: Sequence[MeshSecret] = (),
    ) -> None:
        self._settings, self._link, self._log = settings, link, log
        self._snapshot: Snapshot | None = None
        self._snapshot_s, self._is_mesh_new = 0.0, False
        self._kernel = Kernel(settings.kernel.protocol)
        self._devices = Devices(self._kernel, settings.standby, Path(settings.daemon.state_dir))
        self._dumper, self._lookups = Dumper(), EndpointLookups()
        self._mirror = Mirror(
            self._dumper,
            settings.kernel,
            settings.mesh,
            self._devices.is_ours,
            overrun=lambda reason: log.warning("netlink.overrun", reason=reason),
        )
        self._rule_place, self._desk = RulePlace.open(self._mirror, settings, log), OperatorDesk(self._send)
        self._late_discovery, self._ended = LateDiscovery(settings, self._discover), asyncio.Event()
        self._own_view = OwnView.open(settings, lambda **fields: log.warning("profile.refused", **fields))
        self._picture = Picture(lambda: self._send_frame(StatusAskedFrame()))
        self.refresh = self._picture.refresh
        self._care = DeviceCare(
            settings,
            self._mirror,
            self._send,
            status=self.status,
            refresh=self.refresh,
            duplicates=self._late_discovery.duplicates,
            unheard=self._late_discovery.unheard,
            sources=lambda: self._own_view.sources,
            log=log,
        )
        self._work, self._auditor, self._config = self._make_work(), self._care.auditor, config
        self._sinks = Sinks.open(settings, log)
        self._care.metrics.incidents = self._sinks.incidents
        self._control = ControlServer(Path(settings.daemon.runtime_dir) / SOCKET_NAME, self, log)
        self._prover = Prover(settings, config, snapshot=lambda: self._snapshot, sinks=self._sinks, log=log)
        self.bisect, self.forget, self.operate = self._prover.bisect, self._late_discovery.forget, self._desk.ask
        self.nodes = self._late_discovery.nodes
        self._late_discovery.use_secrets(secrets)
        self._tunnel_watch, self._state = TunnelWatch(), KeptState(Path(settings.daemon.state_dir), log)
        self._tunnels, self._services = self._watch_tunnels(), ServiceDesk(self._send_frame)
        self._processor = ProcessorUse(lambda: read_processor_ns((os.getpid(), os.getppid())), time.monotonic_ns)

    # --- what the control socket asks ---

    def status(self) -> Status | None:
        """The engine's last word on itself, with what WireGuard devices say at this moment."""
        if self._picture.status is None:
            return None
        found = self._discovery.counters if self._discovery is not None else {}
        return msgspec.structs.replace(
            self._picture.status,
            tunnels=tunnel_status(self._tunnels.states),
            knowledge=self._late_discovery.knowledge(),
            counters={**refusals.added_to(self._picture.status.counters), **found},
            cpu_percent=self._processor.percent(),
            resident_bytes=sum(map(read_resident_bytes, (os.getpid(), os.getppid()))),
        )

    def view(self) -> LocalView | None:
        """What this node can tell of itself; None before the kernel has been read."""
        found = self._discovery
        if found is not None and found.view is not None:
            # As discovery has it. Who looks for himself takes from it the role that is due: it would not be told.
            return msgspec.structs.replace(found.view, why=(*found.view.why, *found.refused))
        return None if self._snapshot is None else self._own_view.look(self._snapshot)

    def events(self) -> EventStore:
        """The events kept."""
        return self._sinks.events

    # --- life ---

    async def run(self) -> None:
        """Work until the engine closes the link.

        Raises:
            MeshwatchError: the kernel cannot be read.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # a terminal's ^C is for the engine to act on
        loop.add_reader(self._link, self._receive)
        loop.call_later(REST_S, release_memory)
        self._mirror.open()
        try:
            await self._work_until_the_end()
        finally:
            loop.remove_reader(self._link)
            loop.remove_writer(self._link)
            await self._care.finish(self._kernel)
            await self._state.close()
            self._mirror.close()
            held = (self._dumper, self._lookups, self._rule_place, self._kernel, self._care, self._services, self._link)
            for each in held:
                each.close()
            self._sinks.events.close()

    async def _work_until_the_end(self) -> None:
        # Before the first snapshot: the engine builds its picture of the mesh on it.
        if (restored := self._state.restore()) is not None:
            self._send(restored)
        await self._show_kernel()
        duties = (
            self._watch(),
            self._report_stirs(),
            *self._work.duties(),
            *self._prover.duties(),
            self._tunnels.watch(),
            self._read_sources(),
            self._serve_control(),
            self._late_discovery.run(),
            *self._care.duties(self._kernel),
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(duty) for duty in duties]
            await self._ended.wait()
            for task in tasks:
                task.cancel()

    @property
    def _discovery(self) -> Discovery | None:
        return self._late_discovery.discovery

    def _discover(self, secrets: Sequence[MeshSecret]) -> Discovery:
        return Discovery(
            self._settings,
            secrets,
            eyes=self._own_view,
            log=self._log,
            changed=self._take_mesh,
            heard=self._auditor.hear,
            standby_key=self._devices.public_key,
            bind=lambda bindings: self._send_frame(self._prover.bind(self._care.rerouting.bind(bindings))),
        )

    def _take_mesh(self) -> None:
        """The mesh is another one: the engine hears of it with the next snapshot."""
        if self._discovery is not None and self._discovery.mesh is not None:
            self._sinks.use_mesh(self._discovery.mesh)
        self._is_mesh_new = True
        self._mirror.is_dirty.set()

    def _receive(self) -> None:
        try:
            for frame in self._link.receive():
                self._take(frame)
        except LinkClosedError:
            asyncio.get_running_loop().remove_reader(self._link)
            self._ended.set()

    def _take(self, frame: ToAgent) -> None:
        match frame:
            case ProvisionFrame(command=command):
                self._work.request(command.provision)
            case StatusFrame(status=status):
                self._picture.take(status)
                self._care.note(status)
                self._late_discovery.confess(status)
            case PingFrame():
                self._send_frame(AliveFrame())
            case RepairFrame(command=repair):
                self._auditor.ask(repair)
            case OperatorReplyFrame(reply=reply):
                self._desk.answer(reply)
            case StateFrame(state=state):
                self._state.keep(state)
            case StopFrame():
                self._care.stop()
            case AskFrame():
                self._services.take(frame)
            case FactFrame(fact=fact):
                self._sinks.consume(frame)
                self._prover.take(fact)
                if isinstance(fact, ConfigReloaded) and self._config is not None:
                    self._late_discovery.reload(self._config, self._snapshot, self._log)
                if isinstance(fact, SessionSuspected):
                    self._tunnels.doubt()
            case _:
                assert_never(frame)

    def _send(self, event: AgentEvent) -> None:
        self._send_frame(EventFrame(event=event))

    def _send_frame(self, frame: ToEngine) -> None:
        self._link.send(frame)
        if self._link.wants_write:
            asyncio.get_running_loop().add_writer(self._link, self._flush)

    def _flush(self) -> None:
        self._link.flush()
        if not self._link.wants_write:
            asyncio.get_running_loop().remove_writer(self._link)

    # --- duties ---

    async def _watch(self) -> None:
        """Send a snapshot whenever the kernel has changed, and look anew where the mirror has doubts."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._mirror.next_reading_in_ns() / SECOND):
                    await self._mirror.is_dirty.wait()
            self._auditor.expect()
            quiet_s = max(QUIET_S, QUIET_FACTOR * self._snapshot_s)
            # The words of all nodes have settled before they make a mesh.
            await settle(self._mirror.is_dirty, quiet_s=quiet_s, limit_s=LIMIT_S, is_urgent=lambda: self._is_mesh_new)
            try:
                await self._show_kernel()
            except MeshwatchError as error:
                self._log.warning("snapshot.failed", error=str(error))
                self._mirror.is_dirty.set()
                await asyncio.sleep(RETRY_S)

    async def _show_kernel(self) -> None:
        """Send a snapshot if it tells anything new; what may be missing of our own is looked at again."""
        started_ns = time.monotonic_ns()
        shown = await self._mirror.snapshot()
        mesh, self._is_mesh_new = None if self._discovery is None else self._discovery.mesh, False
        clusters = controls_of(self._own_view.sources)
        shown = msgspec.structs.replace(shown, wireguard=self._tunnels.told, mesh=mesh, clusters=clusters)
        near = addresses_near(self._settings, mesh)
        snapshot = self._lookups.add(self._rule_place.settle(shown), near)
        self._snapshot_s = (time.monotonic_ns() - started_ns) / SECOND
        before, self._snapshot = self._snapshot, snapshot
        self._care.rerouting.see(snapshot)
        self._work.compare(before, snapshot, self._settings.kernel)
        if snapshot != before:
            self._send(SnapshotReceived(snapshot=snapshot))
            if self._discovery is not None:
                self._discovery.observe(snapshot)
        # Entries that are no part of a bounded snapshot may have changed as well.
        self._auditor.see(self._mirror.complete(snapshot))

    async def _report_stirs(self) -> None:
        """Tell the engine at once: what the mesh's own agent does must not be taken for a fault."""
        while True:
            self._send(await self._mirror.stirs.get())

    def _make_work(self) -> StandingWork:
        standing = Standing(self._kernel, self._devices, self._settings.kernel, time.monotonic_ns, log=self._log)
        others = Counterparts(
            losses=self._mirror.losses,
            collisions=lambda: [each.what for each in (() if self._snapshot is None else self._snapshot.collisions)],
            public_key=self._devices.public_key,
            send=self._send,
            beside=self._care.rerouting.standing,
        )
        return self._care.rerouting.kept_by(StandingWork(standing, others, self._log))

    def _watch_tunnels(self) -> TunnelPoll:
        def device() -> str:
            mesh = None if self._discovery is None else self._discovery.mesh
            return (mesh or self._settings.mesh).wireguard_device

        return TunnelPoll(
            Surroundings(
                links=lambda: () if self._snapshot is None else self._snapshot.links,
                device=device,
                is_calm=lambda: self._picture.status is None or self._picture.status.is_calm,
                observed=self._take_tunnels,
                changed=self._mirror.is_dirty.set,
                stirred=self._send,
                unread=lambda name, problem: self._log.warning("wireguard.unread", device=name, error=problem),
            )
        )

    def _take_tunnels(self, states: tuple[WireGuardState, ...]) -> None:
        self._care.observe(states)
        for fact in self._tunnel_watch.observe(states):
            self._sinks.consume(FactFrame(at_ns=time.monotonic_ns(), fact=fact))

    async def _read_sources(self) -> None:
        """Read what other programs say of the mesh; each has its own pace."""
        while True:
            is_news, rejected = await self._own_view.refresh()
            if self._discovery is not None and is_news:
                self._discovery.look_again()
            if is_news and self._snapshot and self._snapshot.clusters != controls_of(self._own_view.sources):
                self._mirror.is_dirty.set()
            for each in rejected:
                self._log.warning("source.rejected", source=each.source, reason=each.reason)
            await beat.rest(SOURCES_S)

    async def _serve_control(self) -> None:
        """Answer meshwatchctl; a socket that cannot be had is no reason to watch the kernel less."""
        while True:
            try:
                await self._control.serve()
            except ControlError as error:
                self._log.error("control.refused", error=str(error))
            await asyncio.sleep(CONTROL_RETRY_S)
