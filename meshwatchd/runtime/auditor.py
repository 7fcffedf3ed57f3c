"""The agent's look at this node's devices: findings for the engine, and the repairs it asks for.

    snapshot, hellos, WireGuard, host --core.audit--> FindingsReported --> engine
    engine --Repair--> apply, read back, else undo --> RepairDone --> engine

While all is well what is there is remembered as good, in a file, so that a daemon that starts into a wedge knows what
was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from meshwatchd.adapters.netlink.repair import RepairKernel
from meshwatchd.adapters.storage.background_writer import BackgroundWriter
from meshwatchd.adapters.storage.policy_file import read_boot
from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.core.audit.confirmation import Confirmation
from meshwatchd.core.audit.expected_entries import GoodState, good_state
from meshwatchd.core.audit.host_mesh import audit_host_mesh
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.peer_faults import believe
from meshwatchd.core.audit.removed_nodes import without_removed
from meshwatchd.core.audit.switch_ports import unwatched_mesh
from meshwatchd.core.audit.view import View
from meshwatchd.core.audit.wireguard_losses import with_unread
from meshwatchd.model.audit import AuditFinding, RepairPlan
from meshwatchd.model.discovery import Hello
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.events import FindingsReported, PeerFault, PeersTold, RepairDone
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.outputs import Repair
from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Status
from meshwatchd.runtime.sinks import Warns

GOOD_AFTER_NS = 10 * SECOND
"""What has been there for so long while nothing was wrong is good."""

LOOK_NS = 5 * SECOND
"""How often is looked without a reason: the good state has to be told from what has just come."""

LOOK_PAUSE = 200
"""On a node of a large mesh a look takes half a second: without a reason it may take half a percent of the time."""

STATE_FILE = "overlay-good.json"

BESIDE = frozenset(
    (
        *(FaultCode.RP_FILTER_STRICT, FaultCode.CONNTRACK_INVALID, FaultCode.DUPLICATE_NODE_NAME),
        *(FaultCode.CLUSTERMESH_CONTROL_CUT, FaultCode.OUTER_WAY_BROKEN),
    )
)
"""Warnings that say nothing against what devices, routes and peers are like: hardened machines have some for good."""
MAX_STATE_BYTES = 64 * 1024 * 1024
"""A hundred thousand entries of a mesh of thousands of nodes, several times over."""

_INPUTS = ("snapshot", "mesh", "hellos", "good", "seen_device", "unheard")
"""Of a view: what changes is another object."""

Source = Callable[[View, int], Iterable[AuditFinding]]
"""A further look, at an instant: at WireGuard devices, at the host."""


class Auditor:
    """One node's audit.

    Args:
        read_back: a snapshot that shows what has been acknowledged.
        unheard: names of the nodes that are taken for dead.
    """

    def __init__(
        self,
        *,
        mesh: MeshSettings,
        node: str,
        kernel: RepairKernel,
        read_back: Callable[[], Awaitable[Snapshot]],
        send: Callable[[FindingsReported | PeersTold | RepairDone], None],
        clock: Callable[[], int],
        state_dir: Path,
        log: Warns,
        unheard: Callable[[], frozenset[str]] = frozenset,
        sources: Iterable[Source] = (),
    ) -> None:
        self._mesh, self._node = mesh, node
        self._unwatched = mesh
        self._kernel, self._read_back, self._send, self._clock, self._log = kernel, read_back, send, clock, log
        self._sources, self._ask_unheard = tuple(sources), unheard
        self._unheard: frozenset[str] = frozenset()
        path = state_dir / STATE_FILE
        self._file = VersionedFile(path, GoodState, version=1, max_bytes=MAX_STATE_BYTES, mode=0o600)
        self._writer = BackgroundWriter(self._save, lambda problem: log.warning("good_state.unsaved", error=problem))
        self._boot = read_boot()
        self._confirmation = Confirmation()
        self._snapshot: Snapshot | None = None
        self._seen_at, self._is_outdated = 0, False
        self._hellos: Mapping[str, Hello] = {}
        self._told: tuple[AuditFinding, ...] | None = None
        self._heard: tuple[PeerFault, ...] = ()
        self._is_calm = False
        self._candidate: tuple[GoodState, int] | None = None
        self._looked_at: View | None = None
        self._given: tuple[View, View] | None = None
        self._seen_device = ""
        self._overlay: tuple[AuditFinding, ...] = ()
        self._state: GoodState | None = None
        self._good = self._load()
        self._news = asyncio.Event()
        self._pause_ns = LOOK_NS
        self._repairs: asyncio.Queue[Repair] = asyncio.Queue()
        self._is_repairing = False

    @property
    def good(self) -> GoodState | None:
        """The last good state."""
        return self._good

    @property
    def snapshot(self) -> Snapshot | None:
        """What was looked at last."""
        return self._snapshot

    def see(self, snapshot: Snapshot) -> None:
        """The kernel has changed; all entries of the mesh's devices are in it."""
        self._snapshot, self._seen_at, self._is_outdated = snapshot, self._clock(), False
        self._news.set()

    def expect(self) -> None:
        """The kernel has changed and is about to be seen: what was seen may have ended since."""
        self._is_outdated = True

    def wake(self) -> None:
        """One of the sources may know something new."""
        self._news.set()

    def hear(self, hellos: Mapping[str, Hello]) -> None:
        """What peers say of themselves, by name."""
        if hellos != self._hellos:
            self._hellos = dict(hellos)
            self._unwatched = unwatched_mesh(self._mesh, hellos, self._node)
            self._news.set()
        told = believe(hellos, self._node)
        if told != self._heard:
            self._heard = told
            self._send(PeersTold(faults=told))

    def note(self, status: Status) -> None:
        """What the engine thinks: a state is good only while nothing critical is known.

        A broken path of which traffic has been led around is a warning, and what broke it is not good all the same.
        """
        is_broken = any(path.rank == 0 and path.state == "down" for pair in status.pairs for path in pair.paths)
        is_calm = status.is_ready and not is_broken and status.severity is not Severity.CRITICAL
        if is_calm and not self._is_calm:
            self._news.set()
        self._is_calm = is_calm

    def ask(self, command: Repair) -> None:
        """Carry out a repair when its turn comes."""
        self._repairs.put_nowait(command)

    async def watch(self) -> None:
        """Look whenever something has changed or may have stood for long enough."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_ns() / SECOND):
                    await self._news.wait()
            self._news.clear()
            began = self._clock()
            self.look()
            self._pause_ns = max(LOOK_NS, LOOK_PAUSE * (self._clock() - began))

    async def repair(self) -> None:
        """Carry out what is asked for, one after the other."""
        while True:
            command = await self._repairs.get()
            self._is_repairing = True
            try:
                outcome = await self.carry_out(command)
                await self._see_outcome()
            finally:
                self._is_repairing = False
            self._send(outcome)
            self._news.set()

    async def close(self) -> None:
        """Wait until what is good is written."""
        await self._writer.close()

    def look(self) -> None:
        """Look at what was seen last, and report what has changed.

        A device whose entries are being put is half empty: what is found there until the last one is in place is the
        repair's own doing.
        """
        if self._snapshot is None or self._is_repairing:
            return
        now, view = self._clock(), self._view_of(self._snapshot)
        self._look_at_devices(view)
        raw = [*self._overlay]
        for source in self._sources:
            raw += source(view, now)
        # Where many share a processor, what the device was for a moment may be all that is known for a second.
        findings = self._confirmation.observe(raw, now, known_until=self._seen_at if self._is_outdated else now)
        if findings != self._told:
            self._told = findings
            self._send(FindingsReported(findings=findings))
        self._remember(now, is_fine=all(each.code in BESIDE or each.is_of_few for each in raw))

    def _view_of(self, snapshot: Snapshot) -> View:
        """What a look rests on; the same object as long as nothing has changed, for sources tell by that."""
        mesh = snapshot.mesh or self._unwatched
        if snapshot.link(mesh.overlay_device) is not None:
            self._seen_device = mesh.overlay_device
        if (unheard := self._ask_unheard()) != self._unheard:
            self._unheard = unheard
        given = View(
            snapshot=snapshot,
            mesh=mesh,
            node=self._node,
            hellos=self._hellos,
            good=self._good,
            seen_device=self._seen_device,
            unheard=self._unheard,
        )
        if self._given is None or any(getattr(given, name) is not getattr(self._given[0], name) for name in _INPUTS):
            self._given = given, without_removed(given)
        return self._given[1]

    def _look_at_devices(self, view: View) -> None:
        """With ten thousand peers this takes a large part of a second: once for each thing seen, not for each look."""
        if self._looked_at is view:
            return
        self._looked_at, self._overlay = view, (*audit(view), *audit_host_mesh(view))
        state = good_state(view.snapshot, view.mesh, self._boot)
        self._state = with_unread(state, view.good, view.mesh.wireguard_device)

    async def carry_out(self, command: Repair) -> RepairDone:
        """Apply, verify by reading back, else undo."""
        plan = command.plan
        try:
            await self._kernel.carry_out(plan)
            missing = _missing(plan, await self._read_back())
        except (KernelError, DecodeError) as error:
            missing = str(error)
        if not missing:
            return RepairDone(request=command.request, is_verified=True)
        try:
            await self._kernel.carry_out(plan.inverse())
        except KernelError as error:
            missing = f"{missing}; undoing it failed as well: {error}"
        return RepairDone(request=command.request, is_verified=False, error=missing)

    async def _see_outcome(self) -> None:
        """Look on from what a repair has left behind; what was seen while it was under way may be half of it."""
        if self._snapshot is None:
            return
        with contextlib.suppress(KernelError, DecodeError):
            seen = await self._read_back()
            self._snapshot = msgspec.structs.replace(seen, wireguard=self._snapshot.wireguard, mesh=self._snapshot.mesh)

    def _wait_ns(self) -> int:
        now = self._clock()
        due = [self._confirmation.deadline(now), self._good_after()]
        return max(0, min([self._pause_ns, *(each - now for each in due if each is not None)]))

    # --- the good state ---

    def _remember(self, now: int, *, is_fine: bool) -> None:
        """What stands still while nothing is wrong becomes good."""
        state = self._state
        assert state is not None, "only what was seen is remembered"
        if not is_fine or not self._is_calm or not state.entries:
            self._candidate = None
            return
        if self._candidate is None or self._candidate[0] != state:
            self._candidate = state, now
        elif state != self._good and now - self._candidate[1] >= GOOD_AFTER_NS:
            self._good = state
            self._writer.keep(state)

    def _good_after(self) -> int | None:
        """When what stands becomes good, if it is not yet."""
        if self._candidate is None or self._candidate[0] == self._good:
            return None
        return self._candidate[1] + GOOD_AFTER_NS

    def _load(self) -> GoodState | None:
        state, problem = self._file.load()
        if problem:
            self._log.warning("good_state.unread", error=problem, remedy="it is written anew")
        return state if state is not None and state.boot == self._boot else None

    def _save(self, state: GoodState) -> str:
        """Whole or not at all; a full disk costs the memory across a restart and nothing else."""
        return self._file.save(state, "what was good is forgotten at the next restart")


def _missing(plan: RepairPlan, snapshot: Snapshot) -> str:
    """What the kernel does not hold of what was put, in a sentence; empty when it holds everything."""
    for address in plan.put.addresses:
        link = snapshot.link(address.dev)
        if link is None or address.address not in link.addresses:
            return f"address {address.address} of {address.dev} is not as it was put"
    for neighbour in plan.put.neighbours:
        if neighbour not in snapshot.neighbours:
            return f"neighbour {neighbour.address} of {neighbour.dev} is not as it was put"
    for forwarding in plan.put.forwarding:
        if forwarding not in snapshot.forwarding:
            return f"FDB entry {forwarding.lladdr} of {forwarding.dev} is not as it was put"
    for route in plan.put.routes:
        if route not in snapshot.device_routes:
            return f"route {route.dst} into {route.dev} is not as it was put, or another one has its place"
    for route in plan.drop.routes:
        if route in snapshot.dead_ends:
            return f"route {route.kind} {route.dst} is still there"
    return ""
