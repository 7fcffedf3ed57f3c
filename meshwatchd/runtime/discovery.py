"""Finding out which mesh this is, in the agent: sources, hellos, roster and cache tied together.

    snapshots, files, agents --runtime.own_view--> own view --> own hello --------> port --> peers
    port --wire.hello, core.membership--> believed hellos --> core.roster --> mesh --> Snapshot.mesh --> engine

Everything is decided in `core`; here it is when to ask, whom to send to, and what becomes of the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from meshwatchd.adapters.hello.port import HelloPort
from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.node_names import audit_names
from meshwatchd.core.membership.greeting_plan import plan_greetings
from meshwatchd.core.membership.hello_schedule import Pace
from meshwatchd.core.membership.node_list import list_nodes
from meshwatchd.core.membership.own_networks import OwnNetworks
from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.membership.unheard import corroborated
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Finding, Hello, LocalView, ToldFault
from meshwatchd.model.errors import KernelError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.liqo import liqo_links
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import SECOND, MeshSettings, Mode, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Knowledge, Status
from meshwatchd.runtime.clocks import Clocks, JumpWatch
from meshwatchd.runtime.hello_exchange import HelloExchange, Outlets, PortMaker
from meshwatchd.runtime.mesh_knowledge import describe_knowledge
from meshwatchd.runtime.mesh_memory import MeshKeeper
from meshwatchd.runtime.own_hello import OwnHello
from meshwatchd.runtime.rate_limited_log import Remarks
from meshwatchd.runtime.sinks import Log
from meshwatchd.wire.auth import MeshSecret

LEAST_WAIT_S: Final = 0.02
WAIT_FACTOR: Final = 4
"""Hellos come in swarms; what they change is looked at once for each swarm. In a mesh of a thousand nodes a look takes
tens of milliseconds, and a fifth of the time is enough for it while all of them arrive. Of the processor's time: a turn
that had to wait for it must not keep the next word back for four times as long."""

RETRY_S: Final = 5.0


class Looks(Protocol):
    """How this node sees itself: `runtime.own_view`."""

    def look(self, snapshot: Snapshot) -> LocalView:
        """The view that follows from a snapshot, and from what the sources last said."""

    def deadline(self) -> int | None:
        """When to look again although nothing has changed."""


class Discovery:
    """What this node knows of its mesh.

    Args:
        changed: called when the mesh has changed.
        heard: called with the hellos of all nodes by name when one of them says anything new.
        standby_key: this node's public key on standby links; asked for in enforce mode only.
        bind: takes the keys of pairs that have changed; called for those that are kept before this returns.
    """

    def __init__(
        self,
        settings: Settings,
        secrets: Sequence[MeshSecret],
        *,
        eyes: Looks,
        log: Log,
        changed: Callable[[], None],
        heard: Callable[[Mapping[str, Hello]], None],
        standby_key: Callable[[], str],
        bind: Callable[[Sequence[PairBinding]], None] = lambda _bindings: None,
        clocks: Clocks | None = None,
        port: PortMaker = HelloPort,
    ) -> None:
        self._settings = settings
        self._node = NodeName(settings.daemon.node)
        self._folder = Path(settings.daemon.state_dir)
        self._eyes, self._log, self._changed, self._heard = eyes, log, changed, heard
        self._clocks = clocks or Clocks()
        self._remarks = Remarks(log, self._clocks.monotonic_ns)
        self.counters: Counter[str] = Counter()
        kept, problem = mesh_file.load(self._folder, self._node)
        if problem:
            log.warning("mesh.refused", error=problem)
        former = kept.own if kept is not None else None
        leaders, watched = (kept.leaders, kept.watched) if kept is not None else (None, ())
        self._roster = Roster(settings, former=former, leaders=leaders, watched=watched)
        self._woken, self._turn_s = asyncio.Event(), 0.0
        outlets = Outlets(remarks=self._remarks, log=log, counters=self.counters, bind=bind, woken=self._woken.set)
        self._hellos = HelloExchange(settings, secrets, self._roster, outlets, clocks=self._clocks, port=port)
        self._jumps, self._pace = JumpWatch(self._clocks), Pace(random.Random())
        self._own_networks = OwnNetworks()
        complain = functools.partial(self._remarks.complain, self._node)
        wall_ns = self._clocks.wall_ns
        self._own_hello = OwnHello(settings, standby_key=standby_key, complain=complain, wall_ns=wall_ns, former=former)
        if self._hellos.pairs.problem:
            complain(self._hellos.pairs.problem)
        self._keeper = MeshKeeper(
            self._folder,
            self._node,
            roster=self._roster,
            known=self._hellos.known,
            pairs=self._hellos.pairs,
            clocks=self._clocks,
            complain=complain,
        )
        self._keeper.restore(kept)
        self._view: LocalView | None = None
        self._status: Status | None = None
        self._snapshot = Snapshot()
        self._is_seen_anew = False

    # --- what others ask ---

    @property
    def mesh(self) -> MeshSettings | None:
        """The mesh in force; None while too little is known."""
        return self._roster.mesh

    @property
    def view(self) -> LocalView | None:
        """This node as it sees itself, with candidates and reasons."""
        return self._view

    @property
    def refused(self) -> tuple[Finding, ...]:
        """What of others' words was refused lately, and why."""
        return self._remarks.refused()

    def duplicates(self) -> Iterator[AuditFinding]:
        """Nodes that share a name."""
        return audit_names(self._hellos.known.rivals(self._clocks.monotonic_ns()))

    def unheard(self) -> frozenset[str]:
        """The nodes that are taken for dead."""
        now, own = self._clocks.monotonic_ns(), self._roster.own
        unheard = self._roster.unheard(now)
        if unheard and own is not None and own.view.is_native:
            return corroborated(unheard, self.nodes(), self._node)
        return unheard

    def hellos(self) -> Mapping[str, Hello]:
        """The last word of every node by its name, this one's included."""
        return {str(name): hello for name, hello in self._roster.hellos().items()}

    def knowledge(self) -> Knowledge:
        """Where the mesh comes from, for operators."""
        return describe_knowledge(self._settings.mesh, self._roster, self._problems())

    def nodes(self) -> tuple[NodeStatus, ...]:
        """Every node that is known."""
        now = self._clocks.monotonic_ns()
        nodes = list_nodes(self.mesh, self._roster.own, self._roster.peers, now)
        return self._hellos.reports.add_to(nodes, self._node, now)

    def _problems(self) -> tuple[str, ...]:
        """What is wrong with this node's own word, with others' by its kernel, and with everybody's together."""
        own, mesh = self._view.contradictions if self._view is not None else (), self.mesh
        found = self._own_networks.compare(self._snapshot, mesh, self._node) if mesh is not None else ()
        here = (each.render() for each in found)
        return (*own, *here, *self._hellos.pairs.problems(self._clocks.monotonic_ns()), *self._roster.problems)

    def observe(self, snapshot: Snapshot) -> None:
        """The kernel has changed."""
        self._snapshot, self._hellos.tunnels = snapshot, snapshot.wireguard
        self._hellos.beyond = tuple(prefix for link in liqo_links(snapshot) for prefix in link.prefixes)
        self.look_again()

    def confess(self, status: Status) -> None:
        """The engine's last word: what is wrong here is told to the others."""
        self._status, now = status, self._clocks.monotonic_ns()
        if self._hellos.reports.note(status, now):
            self._pace.hurry(now)
            self._woken.set()
        self._confess_anew()

    def _confess_anew(self) -> None:
        """What is wrong here, or what a neighbour says of itself, has changed: the own hello has to say so."""
        if self._roster.own is not None and self._confessed() != self._roster.own.faults:
            self.look_again()

    def _confessed(self) -> tuple[ToldFault, ...]:
        return confess(self._status, self.hellos()) if self._status is not None else ()

    def look_again(self) -> None:
        """Some source says something else."""
        self._is_seen_anew = True
        self._woken.set()

    def use_secrets(self, secrets: Sequence[MeshSecret]) -> None:
        """Sign and believe by these from here on.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        self._hellos.use_secrets(secrets)

    def forget(self, name: str) -> bool:
        """Accept whatever identity a node of this name has next; whether one was remembered."""
        self._keeper.is_unsaved = True
        self._woken.set()
        return self._hellos.pairs.forget(name, self._clocks.monotonic_ns())

    # --- life ---

    async def run(self) -> None:
        """Greet and listen for ever."""
        while True:
            try:
                await self._hellos.port.open()
                break
            except KernelError as error:
                self._log.error("hello.refused", error=str(error))  # the text says it all
                await asyncio.sleep(RETRY_S)
        try:
            while True:
                await self._pause()
                self._turn()
                self._keeper.save_if_due()
        finally:
            self._hellos.port.close()
            self._note_unsaved()
            await self._keeper.close()

    async def _pause(self) -> None:
        """Until something is due or has happened."""
        now = self._clocks.monotonic_ns()
        asked = (self._roster, self._pace, self._eyes, self._hellos.pairs, self._keeper)
        due = [instant for each in asked if (instant := each.deadline()) is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((min(due) - now) / SECOND if due else None):
                await self._woken.wait()
        await asyncio.sleep(max(LEAST_WAIT_S, WAIT_FACTOR * self._turn_s))
        self._woken.clear()

    def _turn(self) -> None:
        """One look at everything: tell, review, greet."""
        began_s, now = time.thread_time(), self._clocks.monotonic_ns()
        self._note_unsaved()
        if jump_ns := self._jumps.look():
            self._take_new_epoch(jump_ns)
        look_ns = self._eyes.deadline()
        if self._is_seen_anew or (look_ns is not None and look_ns <= now):
            self._is_seen_anew, self._view = False, self._eyes.look(self._snapshot)
            self._hellos.view = self._view
            self._hellos.is_heard_anew = True
        deadline_ns = self._roster.deadline()
        is_news = self._hellos.is_heard_anew or (deadline_ns is not None and deadline_ns <= now)
        if is_news and self._view is not None and self._tell_of_itself(self._view, now):
            self._pace.hurry(now)
            self._keeper.is_unsaved = True
        if self._roster.review(now):
            self._keeper.is_unsaved = self._hellos.is_heard_anew = True
            assert self.mesh is not None, "only a mesh is a change"
            self._remarks.found(self.mesh, self.knowledge().origin)
            self._changed()
        self._remarks.problems(self._problems(), is_found=self.mesh is not None)
        self._hellos.is_heard_anew |= self._roster.take_changed()
        if self._hellos.is_heard_anew:
            self._hellos.is_heard_anew = False
            self._aim(now)
            self._heard(self.hellos())
            self._confess_anew()
        for due in self._pace.due(now):
            # Who was heard just now is known: it asks for what it has missed.
            self._hellos.greet(due.address, asks=due.asks and not self._hellos.is_heard(due.address, now))
        for name in self._hellos.pairs.advance(now):
            self._keeper.is_unsaved = True
            heard = self._roster.peers.get(NodeName(name))
            if heard is not None and heard.hello.view.node_ip:
                self._hellos.greet(heard.hello.view.node_ip, asks=False)
                self._pace.repeat(heard.hello.view.node_ip, now)
        self._turn_s = time.thread_time() - began_s

    def _note_unsaved(self) -> None:
        self._keeper.is_unsaved |= self._hellos.is_unsaved
        self._hellos.is_unsaved = False

    def _take_new_epoch(self, jump_ns: int) -> None:
        """The wall clock has jumped: this process may have been here before."""
        self._hellos.renew()
        reason = "the clock was set, or this machine was resumed from a snapshot; hellos and probes have another epoch"
        self._log.warning("clock.jumped", jump_s=round(jump_ns / SECOND), reason=reason)

    # --- what is told ---

    def _tell_of_itself(self, view: LocalView, now: int) -> bool:
        """Whether peers have to be told; what they would refuse is not told, and the last good word stays."""
        endpoint = self._hellos.reflexive.endpoint()
        hello = self._own_hello.make(view, self._snapshot.wireguard, endpoint=endpoint, faults=self._confessed())
        if wrong := complaint(hello):
            self._remarks.complain(self._node, wrong)
            return False
        return self._roster.tell(hello, now)

    def _aim(self, now: int) -> None:
        """Known nodes at their own addresses, everybody else where somebody may be."""
        own, hellos = self._roster.own, self._roster.hellos()
        peers = {name: heard.hello for name, heard in self._roster.peers.items()}
        self._hellos.addresses = {hello.view.node_ip: name for name, hello in peers.items() if hello.view.node_ip}
        candidates = (each.address for each in self._view.candidates) if self._view is not None else ()
        direct = self._hellos.reflexive.direct(hellos, own) if self._settings.daemon.mode is Mode.ENFORCE else ()
        places = (*self._settings.discovery.peers, *candidates, *self._hellos.introductions.addresses())
        self._hellos.introductions.arrange(hellos)
        crowds, is_relay = self._roster.crowds, self._roster.is_relay
        plan = plan_greetings(own, peers, crowds, places=places, direct=direct, is_relay=is_relay)
        self._pace.aim(known=plan.known, rings=plan.rings, others=plan.others, urgent=plan.urgent, now=now)
