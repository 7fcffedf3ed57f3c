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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from meshwatchd.adapters.hello.port import Address, HelloPort
from meshwatchd.adapters.hello.signatures import Signatures
from meshwatchd.adapters.process import next_epoch
from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.audit.node_names import audit_names
from meshwatchd.core.audit.peer_faults import confess
from meshwatchd.core.membership.greeting_plan import plan_greetings
from meshwatchd.core.membership.hello_schedule import Answers, Pace
from meshwatchd.core.membership.mesh_builder import OUTSIDER, is_outsider
from meshwatchd.core.membership.node_list import list_nodes
from meshwatchd.core.membership.own_networks import OwnNetworks
from meshwatchd.core.membership.peer_exchange import Introductions
from meshwatchd.core.membership.presence import Presence
from meshwatchd.core.membership.replay_protection import Acquaintances, Judgement
from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Finding, Hello, LocalView, ToldFault
from meshwatchd.model.errors import KernelError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.port_map import hello_port
from meshwatchd.model.settings import SECOND, MeshSettings, Mode, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Knowledge, Status
from meshwatchd.profiles.compose import source_towards
from meshwatchd.runtime.clocks import Clocks, JumpWatch
from meshwatchd.runtime.mesh_knowledge import describe_knowledge
from meshwatchd.runtime.mesh_memory import MeshKeeper
from meshwatchd.runtime.node_reports import NodeReports
from meshwatchd.runtime.own_hello import OwnHello
from meshwatchd.runtime.pair_keys import OTHER_IDENTITY, PairKeys
from meshwatchd.runtime.rate_limited_log import Remarks
from meshwatchd.runtime.reflexive import Reflexive
from meshwatchd.runtime.short_hellos import ShortHellos
from meshwatchd.runtime.sinks import Log
from meshwatchd.wire.auth import MeshSecret
from meshwatchd.wire.hello import Greeting, HelloKeys, HelloRejection, Stamp, decode, encode
from meshwatchd.wire.short_hello import is_short

LEAST_WAIT_S: Final = 0.02
WAIT_FACTOR: Final = 4
"""Hellos come in swarms; what they change is looked at once for each swarm. In a mesh of a thousand nodes a look takes
tens of milliseconds, and a fifth of the time is enough for it while all of them arrive."""

RETRY_S: Final = 5.0


class Looks(Protocol):
    """How this node sees itself: `runtime.own_view`."""

    def look(self, snapshot: Snapshot) -> LocalView:
        """The view that follows from a snapshot, and from what the sources last said."""
        ...

    def deadline(self) -> int | None:
        """When to look again although nothing has changed."""
        ...


class Discovery:
    """What this node knows of its mesh.

    Args:
        settings: the daemon's.
        secrets: one active and at most one receive-only.
        eyes: turns a snapshot into a view.
        log: for what an operator should read.
        changed: called when the mesh has changed.
        heard: called with the hellos of all nodes by name when one of them says anything new.
        standby_key: this node's public key on standby links; asked for in enforce mode only.
        bind: takes the keys of pairs that have changed; called for those that are kept before this returns.
        port: where hellos come and go; the real one if not given.
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
        port: Callable[[int, Callable[[bytes, Address], None], Counter[str]], HelloPort] = HelloPort,
    ) -> None:
        self._settings = settings
        self._node = NodeName(settings.daemon.node)
        self._folder = Path(settings.daemon.state_dir)
        self._eyes, self._log, self._changed, self._heard = eyes, log, changed, heard
        self._clocks = clocks or Clocks()
        self._remarks = Remarks(log, self._clocks.monotonic_ns)
        self.counters: Counter[str] = Counter()
        self._keys = HelloKeys(secrets)
        epoch, is_recorded = next_epoch(self._folder / "hello-epoch")
        self.counters["hello-epochs-unrecorded"] += not is_recorded
        self._known = Acquaintances(epoch, lambda name: self._roster.cadence_of(NodeName(name)).patience_ns)
        self._jumps, self._pace = JumpWatch(self._clocks), Pace(random.Random())
        self._port = port(hello_port(settings.probe.port), self._receive, self.counters)
        self._reflexive, self._own_networks = Reflexive(), OwnNetworks()
        self._introductions, self._reports, self._presence = Introductions(), NodeReports(), Presence()
        kept, problem = mesh_file.load(self._folder, self._node)
        if problem:
            log.warning("mesh.refused", error=problem)
        former = kept.own if kept is not None else None
        leaders, watched = (kept.leaders, kept.watched) if kept is not None else (None, ())
        self._roster = Roster(settings, former=former, leaders=leaders, watched=watched)
        complain = functools.partial(self._remarks.complain, self._node)
        wall_ns = self._clocks.wall_ns
        self._own_hello = OwnHello(settings, standby_key=standby_key, complain=complain, wall_ns=wall_ns, former=former)
        self._short = ShortHellos(self._node, secrets, self._roster, counters=self.counters, bind=bind)
        self._pairs = PairKeys(self._node, self._folder, forget_ns=self._roster.forget_ns, tell=self._short.bind)
        if self._pairs.problem:
            complain(self._pairs.problem)
        self._keeper = MeshKeeper(
            self._folder,
            self._node,
            roster=self._roster,
            known=self._known,
            pairs=self._pairs,
            clocks=self._clocks,
            complain=complain,
        )
        self._keeper.restore(kept)
        self._view: LocalView | None = None
        self._status: Status | None = None
        self._snapshot = Snapshot()
        self._is_seen_anew = self._is_heard_anew = False
        self._answers, self._signatures = Answers(), Signatures(self.counters, self._clocks.monotonic_ns)
        self._addresses: dict[str, NodeName] = {}
        self._woken, self._turn_s = asyncio.Event(), 0.0

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
        return audit_names(self._known.rivals(self._clocks.monotonic_ns()))

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
        return self._reports.add_to(nodes, self._node, now)

    def _problems(self) -> tuple[str, ...]:
        """What is wrong with this node's own word, with others' by its kernel, and with everybody's together."""
        own, mesh = self._view.contradictions if self._view is not None else (), self.mesh
        found = self._own_networks.compare(self._snapshot, mesh, self._node) if mesh is not None else ()
        here = (each.render() for each in found)
        return (*own, *here, *self._pairs.problems(self._clocks.monotonic_ns()), *self._roster.problems)

    def observe(self, snapshot: Snapshot) -> None:
        """The kernel has changed."""
        self._snapshot = snapshot
        self.look_again()

    def confess(self, status: Status) -> None:
        """The engine's last word: what is wrong here is told to the others."""
        self._status, now = status, self._clocks.monotonic_ns()
        if self._reports.note(status, now):
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
        self._keys.replace(secrets)
        self._short.use_secrets(secrets)

    def forget(self, name: str) -> bool:
        """Accept whatever identity a node of this name has next; whether one was remembered."""
        self._keeper.is_unsaved = True
        self._woken.set()
        return self._pairs.forget(name, self._clocks.monotonic_ns())

    # --- life ---

    async def run(self) -> None:
        """Greet and listen for ever."""
        while True:
            try:
                await self._port.open()
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
            self._port.close()
            await self._keeper.close()

    async def _pause(self) -> None:
        """Until something is due or has happened."""
        now = self._clocks.monotonic_ns()
        asked = (self._roster, self._pace, self._eyes, self._pairs, self._keeper)
        due = [instant for each in asked if (instant := each.deadline()) is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((min(due) - now) / SECOND if due else None):
                await self._woken.wait()
        await asyncio.sleep(max(LEAST_WAIT_S, WAIT_FACTOR * self._turn_s))
        self._woken.clear()

    def _turn(self) -> None:
        """One look at everything: tell, review, greet."""
        began_ns = now = self._clocks.monotonic_ns()
        if jump_ns := self._jumps.look():
            self._take_new_epoch(jump_ns)
        look_ns = self._eyes.deadline()
        if self._is_seen_anew or (look_ns is not None and look_ns <= now):
            self._is_seen_anew, self._view = False, self._eyes.look(self._snapshot)
            self._is_heard_anew = True
        deadline_ns = self._roster.deadline()
        is_news = self._is_heard_anew or (deadline_ns is not None and deadline_ns <= now)
        if is_news and self._view is not None and self._tell_of_itself(self._view, now):
            self._pace.hurry(now)
            self._keeper.is_unsaved = True
        if self._roster.review(now):
            self._keeper.is_unsaved = self._is_heard_anew = True
            assert self.mesh is not None, "only a mesh is a change"
            self._remarks.found(self.mesh, self.knowledge().origin)
            self._changed()
        self._remarks.problems(self._problems(), is_found=self.mesh is not None)
        self._is_heard_anew |= self._roster.take_changed()
        if self._is_heard_anew:
            self._is_heard_anew = False
            self._aim(now)
            self._heard(self.hellos())
            self._confess_anew()
        for due in self._pace.due(now):
            self._greet(due.address, asks=due.asks)
        for name in self._pairs.advance(now):
            self._keeper.is_unsaved = True
            heard = self._roster.peers.get(NodeName(name))
            if heard is not None and heard.hello.view.node_ip:
                self._greet(heard.hello.view.node_ip, asks=False)
                self._pace.repeat(heard.hello.view.node_ip, now)
        self._turn_s = (self._clocks.monotonic_ns() - began_ns) / SECOND

    def _take_new_epoch(self, jump_ns: int) -> None:
        """The wall clock has jumped: this process may have been here before."""
        self._known.renew(next_epoch(self._folder / "hello-epoch")[0])
        reason = "the clock was set, or this machine was resumed from a snapshot; hellos and probes have another epoch"
        self._log.warning("clock.jumped", jump_s=round(jump_ns / SECOND), reason=reason)

    # --- what is told ---

    def _tell_of_itself(self, view: LocalView, now: int) -> bool:
        """Whether peers have to be told; what they would refuse is not told, and the last good word stays."""
        endpoint = self._reflexive.endpoint()
        hello = self._own_hello.make(view, self._snapshot.wireguard, endpoint=endpoint, faults=self._confessed())
        if wrong := complaint(hello):
            self._remarks.complain(self._node, wrong)
            return False
        return self._roster.tell(hello, now)

    def _aim(self, now: int) -> None:
        """Known nodes at their own addresses, everybody else where somebody may be."""
        own, hellos = self._roster.own, self._roster.hellos()
        peers = {name: heard.hello for name, heard in self._roster.peers.items()}
        self._addresses = {hello.view.node_ip: name for name, hello in peers.items() if hello.view.node_ip}
        candidates = (each.address for each in self._view.candidates) if self._view is not None else ()
        direct = self._reflexive.direct(hellos, own) if self._settings.daemon.mode is Mode.ENFORCE else ()
        places = (*self._settings.discovery.peers, *candidates, *self._introductions.addresses())
        self._introductions.arrange(hellos)
        crowds, is_relay = self._roster.crowds, self._roster.is_relay
        plan = plan_greetings(own, peers, crowds, places=places, direct=direct, is_relay=is_relay)
        self._pace.aim(known=plan.known, rings=plan.rings, others=plan.others, urgent=plan.urgent, now=now)

    def _greet(
        self, address: str, *, asks: bool, port: int = 0, answers: Stamp | None = None, came_from: str = ""
    ) -> None:
        own = self._roster.own
        if own is None:
            return
        now = self._clocks.monotonic_ns()
        stamp = Stamp(*self._known.next_stamp(now))
        peer = self._addresses.get(address)
        heard = self._roster.peers.get(peer) if peer is not None else None
        is_neighbour = heard is not None and heard.hello.home == own.home
        holds, signs_pair = self._pairs.word_to(peer, now) if peer is not None else (b"", False)
        # Answers are no larger than what they answer, so that nobody is flooded by way of us.
        is_told = peer is not None and answers is None
        is_short = self._short.is_enough(own, stamp, peer, now) and signs_pair and is_told and not asks
        greeting = Greeting(
            sender=self._node,
            stamp=stamp,
            hello=own,
            answers=answers,
            asks=asks,
            seen=self._reflexive.sees(self._snapshot.wireguard, heard.hello) if heard is not None else "",
            came_from=came_from,
            knows=self._introductions.tell(peer, is_short=is_short, is_own=is_neighbour) if peer and is_told else (),
            present=self._presence.tell(now) if is_neighbour and is_told else {},
            holds=holds,
            signs_pair=signs_pair,
            report=self._reports.own() if is_told else None,
        )
        signer = self._pairs.identity
        try:
            datagram = self._short.write(greeting, peer) if is_short and peer else encode(greeting, self._keys, signer)
        except ValueError as error:
            self._remarks.complain(self._node, str(error))
            return
        self._reflexive.sent(stamp.counter, address)
        self.counters["hello-sent"] += 1
        self.counters["hello-sent-short"] += is_short
        source = source_towards(self._view, address)
        (functools.partial(self._port.send_from, source) if source else self._port.send)(datagram, address, port)

    # --- what is heard ---

    def _receive(self, datagram: bytes, source: Address) -> None:
        if is_short(datagram):
            self._receive_short(datagram, source)
            return
        greeting = decode(datagram, self._keys, self._known.is_repeated, is_signed=self._signatures.of(source[0]))
        if isinstance(greeting, HelloRejection):
            self.counters[greeting] += 1
            if greeting is HelloRejection.MALFORMED:
                self._remarks.complain(source[0], "a signed hello is malformed; is another version running there?")
            return
        now, place = self._clocks.monotonic_ns(), greeting.hello.view.node_ip
        if greeting.sender == self._node:
            self.counters["hello-own"] += 1
            self._known.hear_own_name(self._node, greeting.stamp.epoch, place=place, now=now)
            return
        if is_outsider(greeting.sender, self._settings):
            self.counters["hello-outsider"] += 1
            self._remarks.complain(greeting.sender, OUTSIDER)
            return
        if not self._pairs.accepts(greeting, now):
            self.counters["hello-other-identity"] += 1
            self._known.hear_other_identity(greeting.sender, place=place, now=now)
            self._remarks.complain(greeting.sender, OTHER_IDENTITY, event="identity.changed")
            return
        self.counters["hello-received"] += 1
        judgement = self._known.judge(greeting.sender, greeting.stamp, place=place, answers=greeting.answers, now=now)
        if judgement is Judgement.NEWS:
            self._believe(greeting, now)
        else:
            self.counters[judgement] += 1
        if judgement is Judgement.TOO_MANY:
            self._known.retain(self._roster.peers)
        is_strange = judgement in {Judgement.UNPROVEN, Judgement.OLD_EPOCH}
        asker = source[0], greeting.sender, greeting.stamp.epoch
        if not (greeting.asks or is_strange):
            return
        if not self._answers.is_due(asker, now):
            self.counters["hello-unanswered"] += 1
        else:
            is_own_port = source[1] == hello_port(self._settings.probe.port)
            self._greet(
                source[0],
                port=source[1],
                asks=is_strange,
                answers=greeting.stamp if greeting.asks else None,
                came_from=source[0] if is_own_port else "",
            )

    def _receive_short(self, datagram: bytes, source: Address) -> None:
        """A known node lives, and has changed nothing; what it has said since is asked for where it was not heard."""
        now, short = self._clocks.monotonic_ns(), self._short.read(datagram, self._known.is_repeated)
        if short is None:
            return
        name, stamp = NodeName(short.sender), short.stamp
        self.counters["hello-received"] += 1
        known = self._short.complete(short, self._pairs, now)
        place = self._roster.peers[name].hello.view.node_ip if name in self._roster.peers else ""
        judgement = self._known.judge(name, stamp, place=place, answers=None, now=now)
        if known is not None and judgement is Judgement.NEWS:
            self._believe(known.greeting, now, known.said)
            return
        self.counters["hello-short-unknown" if judgement is Judgement.NEWS else judgement] += 1
        if self._answers.is_due((source[0], name, stamp.epoch), now):
            self._greet(source[0], port=source[1], asks=True)

    def _believe(self, greeting: Greeting, now: int, said: Stamp | None = None) -> None:
        if wrong := complaint(greeting.hello):
            self.counters["hello-senseless"] += 1
            self._remarks.complain(greeting.sender, wrong)
            return
        self._pairs.hear(greeting, now)
        self._reports.hear(greeting.sender, greeting.report, now)
        is_first = greeting.hello.view.node not in self._roster.peers
        if self._roster.hear(greeting.hello, now, said or greeting.stamp):
            self._is_heard_anew = self._keeper.is_unsaved = True
            if is_first:
                self._log.info("hello.heard", peer=greeting.sender, version=greeting.hello.version)
        counter = greeting.answers.counter if greeting.answers is not None else 0
        self._reflexive.heard(greeting.sender, seen=greeting.seen, came_from=greeting.came_from, counter=counter)
        self._is_heard_anew |= self._introductions.hear(greeting.knows, now)
        if self._roster.cadence_of(greeting.hello.view.node).is_in_turn:
            self._presence.hear(greeting.hello.view.node_ip, now)
        self._hear_of(greeting, now)
        self._woken.set()

    def _hear_of(self, greeting: Greeting, now: int) -> None:
        """Nodes of other locations that greet this one in turn live, if a neighbour has heard them."""
        for name, age_ns in self._roster.find_present(greeting.hello, greeting.present, self._addresses.get).items():
            self._known.hear_of(name, self._roster.peers[name].hello.view.node_ip, now - age_ns)
            for listener in (self._roster, self._pairs, self._reports):
                listener.hear_of(name, now - age_ns)
