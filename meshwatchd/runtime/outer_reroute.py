"""The agent's part of outer packets that go through a neighbour: who is asked, and what stands in the kernel for it.

    status (sessions that are not answered) --suspects--> core.routes.outer_reroute --questions--> way_desk
                                                     routes, rules --> standing work, beside what the engine wants

Where the daemon is told to stop the agent takes the routes away: nobody would watch the relay. One that is killed, or
whose engine is or crashes, leaves them, and the next one goes on from there, or takes them away where it may not have
them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from meshwatchd.adapters.netlink import provision
from meshwatchd.adapters.netlink.ports import StandingKernel
from meshwatchd.core.audit.outer_ways import Terms, audit_outer_ways, with_known_cause
from meshwatchd.core.audit.view import View
from meshwatchd.core.routes.outer_reroute import OuterReroute
from meshwatchd.core.routes.outer_way import ROUND_NS, WayState
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import Layer
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.outer_reroute import REROUTED_SLOT, TRIED_SLOT, FarNode, Relay, WayAnswer, WayQuestion
from meshwatchd.model.plan import Provision
from meshwatchd.model.policy_state import OrderKind
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import MINUTE, SECOND, MeshSettings, Mode, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Status
from meshwatchd.profiles.cluster_mesh import outer_ports
from meshwatchd.runtime.sinks import Log
from meshwatchd.runtime.way_desk import WayDesk

UNARMED_NS: Final = MINUTE
"""So long routes of an earlier process may stand while the engine asks for nothing, and so nobody keeps them."""
DEFAULT_MTU: Final = 1500
_LAYERS: Final = frozenset((Layer.OVERLAY, Layer.RELAY, Layer.EFFECTIVE))
_LOST: Final = frozenset(("suspect", "down"))
_UP: Final = "up"


class Asks(Protocol):
    """What is used of `WayDesk`."""

    async def serve(self) -> None:
        """Answer others."""

    def bind(self, bindings: Sequence[PairBinding]) -> None:
        """Take over keys."""

    async def ask(self, question: WayQuestion, far: FarNode, relay: Relay | None, mtu_bytes: int) -> WayAnswer | None:
        """Ask one question."""


class Keeps(Protocol):
    """What is used of `StandingWork`."""

    @property
    def is_armed(self) -> bool:
        """Whether the engine has objects in the kernel, and nothing is in the place of others."""

    @property
    def is_keeping(self) -> bool:
        """Whether the engine has objects in the kernel, and so what stands beside them is looked after."""

    def renew(self) -> None:
        """Other routes or rules are wanted."""


_Keeps = TypeVar("_Keeps", bound=Keeps)


class Rerouting:
    """One node's."""

    def __init__(
        self,
        settings: Settings,
        *,
        log: Log,
        desk: Asks | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings, self._log, self._clock, self._rest = settings, log, clock, rest
        self._work: Keeps | None = None
        self._reroute = OuterReroute(settings.daemon.node, settings.policy)
        self._desk = desk or WayDesk(
            settings.daemon.node,
            settings.auth,
            settings.probe.port,
            mesh=self._mesh,
            is_willing=self._is_willing,
            log=log,
        )
        self._snapshot: Snapshot | None = None
        self._status: Status | None = None
        self._standing = self._left = Provision()
        self._told: dict[str, tuple[WayState, str]] = {}
        self._last_said: tuple[AuditFinding, ...] = ()
        self._is_there, self._is_elsewhere, self._is_due = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._has_looked, self._began_ns = False, clock()
        self._is_withdrawing = False

    @property
    def _is_allowed(self) -> bool:
        return self._settings.daemon.mode is Mode.ENFORCE and self._settings.cilium.outer_reroute

    def kept_by(self, work: _Keeps) -> _Keeps:
        """Have what is wanted kept by this; returns it."""
        self._work = work
        return work

    @property
    def _is_armed(self) -> bool:
        return self._work is not None and self._work.is_armed

    @property
    def _is_kept(self) -> bool:
        return self._work is not None and self._work.is_keeping

    def bind(self, bindings: Sequence[PairBinding]) -> Sequence[PairBinding]:
        """Take over how questions of some nodes are signed; returns the same."""
        self._desk.bind(bindings)
        return bindings

    def note(self, status: Status) -> None:
        """Take in what the engine says: whose pods are not reached, and what operators have ordered."""
        self._status = status
        if self._is_there.is_set():
            sessions = [each for each in status.sessions if each.layer in _LAYERS]
            lost = {each.peer for each in sessions if each.state in _LOST}
            alive = {each.peer for each in sessions if each.state == _UP}
            self._reroute.suspect(lost - alive - with_known_cause(status))
            self._wake()

    def see(self, snapshot: Snapshot) -> None:
        """Take in the kernel and the mesh; with the first one what an earlier process has left."""
        self._snapshot = snapshot
        mesh = self._mesh()
        if not self._has_looked:
            # The engine may ask for its objects before this process has heard which mesh this is.
            self._left = self._leftovers(snapshot)
            self._standing = self._left if self._is_allowed else Provision()
            self._wake()
        if not mesh.node:
            return
        if Trait.HOST_ROUTED not in traits_of((mesh.profile,), mesh.traits):
            self._is_there.clear()
            self._is_elsewhere.set()
            self._reroute.forget()
        else:
            self._is_elsewhere.clear()
            self._is_there.set()
            self._reroute.see(snapshot, mesh)
            if not self._has_looked and self._is_allowed:
                table = self._settings.kernel.table_base + REROUTED_SLOT
                self._reroute.adopt((each for each in snapshot.routes if each.table == table), self._clock())
        if not self._has_looked:
            self._has_looked = True
            self._is_withdrawing = self._left != Provision() and not self._reroute.ways
        self._renew()
        self._wake()

    def standing(self) -> Provision:
        """What has to stand in the kernel beside what the engine wants."""
        return self._standing

    def findings(self, view: View, now: int) -> Iterator[AuditFinding]:
        """What is wrong, and what is done about it."""
        del view, now
        yield from self._said()

    def _said(self) -> tuple[AuditFinding, ...]:
        if not self._reroute.ways:
            return ()
        kernel, ports = self._settings.kernel, self._ports()
        terms = Terms(window=self._window(), kernel=kernel, ports=ports, is_allowed=self._is_allowed)
        return tuple(audit_outer_ways(self._reroute, terms))

    def duties(self, kernel: StandingKernel, tell: Callable[[], None]) -> tuple[Coroutine[object, object, None], ...]:
        """What goes on for ever."""
        return self._serve(), self._watch(kernel, tell)

    async def withdraw(self, kernel: StandingKernel) -> None:
        """Take every route and rule of this kind away, whichever process has put it; rules first."""
        self._reroute.forget()
        self._standing = self._left = Provision()
        try:
            removed = await self._remove(kernel)
        except MeshwatchError as error:
            self._log.warning("outer_reroute.left", error=str(error), remedy="meshwatchctl sweep removes it")
            return
        if removed:
            self._log.info("outer_reroute.withdrawn", what=tuple(removed))

    async def _give_up(self, kernel: StandingKernel) -> None:
        """Have nothing of this kind stand any longer.

        What is kept is taken away by those who keep it: they would put it back.
        """
        if self._work is None or not self._work.is_keeping:
            await self.withdraw(kernel)
            return
        self._reroute.forget()
        self._standing = self._left = Provision()
        self._work.renew()

    async def _remove(self, kernel: StandingKernel) -> list[str]:
        settings, removed = self._settings.kernel, list[str]()
        tables = {settings.table_base + TRIED_SLOT, settings.table_base + REROUTED_SLOT}
        windows = provision.windows_of(settings, self._snapshot.windows if self._snapshot is not None else ())
        for rule in await kernel.rules():
            if rule.rule is not None and rule.table in tables and provision.is_our_rule(rule, settings, windows):
                await kernel.delete_rule(rule.rule)
                removed.append(rule.text)
        names = {link.index: link.name for link in await kernel.links()}
        for route in await kernel.marked_routes(names):
            if route.table in tables and provision.is_our_route(route, settings):
                await kernel.delete_route(route)
                removed.append(route.text)
        return removed

    async def _serve(self) -> None:
        """Answer others for as long as the mesh is of this kind; in any other the ports are closed."""
        while True:
            await self._is_there.wait()
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._desk.serve())
                await self._is_elsewhere.wait()
                serving.cancel()

    def _wake(self) -> None:
        """Have rounds begin where anything is to be done in them."""
        if self._is_busy():
            self._is_due.set()

    def _is_busy(self) -> bool:
        """Whether any node is looked at, or anything of that is left: in the kernel, or as what was reported last."""
        is_left = not self._has_looked and self._left != Provision()
        return bool(
            self._reroute.ways
            or is_left
            or self._is_withdrawing
            or self._standing != Provision()
            or self._told
            or self._last_said
        )

    async def _watch(self, kernel: StandingKernel, tell: Callable[[], None]) -> None:
        """Rounds, while there is anything to be done in them."""
        began_ns = self._clock()
        while True:
            await self._is_due.wait()
            # A round in which nobody answers takes most of its time.
            await self._rest(max(0, began_ns + ROUND_NS - self._clock()) / SECOND)
            began_ns = self._clock()
            if self._is_withdrawing or self._is_abandoned():
                self._is_withdrawing = False
                await self._give_up(kernel)
            await self.round()
            self._renew()
            if self._report():
                tell()
            if not self._is_busy():
                self._is_due.clear()

    async def round(self) -> None:
        """Ask what is due, and take the answers in."""
        asked = tuple(self._reroute.questions()) if self._is_there.is_set() else ()
        if not asked:
            return
        relays = {each.name: each for each in self._reroute.relays}
        far, mtu_bytes = self._reroute.far, self._mtu_bytes()
        answers = await asyncio.gather(
            *(self._desk.ask(each, far[each.node], relays.get(each.relay), mtu_bytes) for each in asked)
        )
        self._reroute.observe(dict(zip(asked, answers, strict=True)), self._clock(), may_move=self._may_move())

    def _may_move(self) -> bool:
        is_paused = self._status is None or any(each.kind is OrderKind.PAUSE for each in self._status.orders)
        return self._is_allowed and self._is_armed and not is_paused and bool(self._ports())

    def _is_willing(self) -> bool:
        orders = self._status.orders if self._status is not None else ()
        return not any(each.kind is OrderKind.DRAIN for each in orders)

    def _is_abandoned(self) -> bool:
        """Whether routes stand that an earlier process has left, and nobody keeps."""
        is_late = self._clock() - self._began_ns > UNARMED_NS
        is_unkept = not self._is_kept and any(each.is_tried for each in self._reroute.ways)
        is_unknown = not self._has_looked and self._left != Provision()
        return is_late and (is_unkept or is_unknown)

    def _renew(self) -> None:
        """Have the kernel changed where something else is wanted."""
        if not self._has_looked:
            return
        settings, wanted = self._settings, Provision()
        if self._reroute.ways:
            wanted = self._reroute.provision(self._window(), settings.kernel, settings.probe.port, self._ports())
        if wanted != self._standing:
            self._standing = wanted
            if self._work is not None:
                self._work.renew()

    def _report(self) -> bool:
        """Log what has been decided; whether findings are others."""
        ways = self._reroute.ways
        present = {each.far.name: (each.state, each.relay.name if each.relay is not None else "") for each in ways}
        for name in sorted({*present, *self._told}):
            before, after = self._told.get(name), present.get(name)
            if before == after:
                continue
            state, relay = after or (WayState.CLEAR, "")
            if state is WayState.REROUTED:
                self._log.warning("outer_reroute.begun", node=name, relay=relay)
            elif before is not None and before[0] is WayState.REROUTED:
                self._log.warning("outer_reroute.ended", node=name, relay=before[1], state=str(state))
        before_said, self._last_said = self._last_said, self._said()
        self._told = present
        return before_said != self._last_said

    def _leftovers(self, snapshot: Snapshot) -> Provision:
        """What stands in the kernel of this kind."""
        base = self._settings.kernel.table_base
        tables = (base + TRIED_SLOT, base + REROUTED_SLOT)
        routes = tuple(each for each in snapshot.routes if each.table in tables)
        return Provision(routes=routes, rules=tuple(each for each in snapshot.rules if each.table in tables))

    def _ports(self) -> tuple[int, ...]:
        return outer_ports(self._snapshot, self._mesh().overlay_device) if self._snapshot is not None else ()

    def _window(self) -> RuleWindow:
        windows = self._snapshot.windows if self._snapshot is not None else ()
        return windows[0] if windows else RuleWindow(first=self._settings.kernel.priority_base)

    def _mesh(self) -> MeshSettings:
        found = self._snapshot.mesh if self._snapshot is not None else None
        return found or self._settings.mesh

    def _mtu_bytes(self) -> int:
        device = next((each.device for each in self._reroute.relays), "")
        link = self._snapshot.link(device) if self._snapshot is not None else None
        return link.mtu_bytes if link is not None else DEFAULT_MTU
