"""Hellos as they come and go: what one of this node says, and what becomes of those of others.

    to others    the own word, and what each of them alone is told: where it is seen, whom it may not know
    from others  signature, identity and order are proven; then the word, who is alive, and where this node is seen

Whom to greet, and when, is `runtime.discovery`'s.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meshwatchd.adapters.hello.port import Address, HelloPort
from meshwatchd.adapters.hello.signatures import Signatures
from meshwatchd.adapters.process import next_epoch
from meshwatchd.core.membership.hello_schedule import Answers
from meshwatchd.core.membership.mesh_builder import OUTSIDER, is_outsider
from meshwatchd.core.membership.peer_exchange import Introductions
from meshwatchd.core.membership.presence import Presence
from meshwatchd.core.membership.replay_protection import Acquaintances, Judgement
from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.membership.translation import tell_translation
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.port_map import hello_port
from meshwatchd.model.settings import Settings
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.profiles.compose import source_towards
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.node_reports import NodeReports
from meshwatchd.runtime.pair_keys import OTHER_IDENTITY, PairKeys
from meshwatchd.runtime.rate_limited_log import Remarks
from meshwatchd.runtime.reflexive import Reflexive
from meshwatchd.runtime.short_hellos import ShortHellos
from meshwatchd.runtime.sinks import Log
from meshwatchd.wire.auth import MeshSecret
from meshwatchd.wire.hello import Greeting, HelloKeys, HelloRejection, Stamp, decode, encode
from meshwatchd.wire.short_hello import is_short

PortMaker = Callable[[int, Callable[[bytes, Address], None], Counter[str]], HelloPort]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """What hellos are told to, beside the roster.

    Attributes:
        remarks, log: for what an operator should read.
        counters: of hellos, by what became of them.
        bind: takes the keys of pairs that have changed.
        woken: called when something is to be looked at.
    """

    remarks: Remarks
    log: Log
    counters: Counter[str]
    bind: Callable[[Sequence[PairBinding]], None]
    woken: Callable[[], None]


class HelloExchange:
    """The hellos of one node.

    Attributes:
        port: where they come and go.
        keys, short, pairs: by what they are signed; the last knows identities.
        known: who is no replay.
        reflexive, introductions, reports: what was heard beside the word of each.
        view, tunnels, addresses: this node as it sees itself, its WireGuard devices, and nodes by address, as of now.
        beyond: prefixes of other clusters that Liqo leads to, as this one sees them.
        is_heard_anew: somebody has said anything new.
        is_unsaved: what is to be remembered has changed.
    """

    def __init__(
        self,
        settings: Settings,
        secrets: Sequence[MeshSecret],
        roster: Roster,
        outlets: Outlets,
        *,
        clocks: Clocks,
        port: PortMaker = HelloPort,
    ) -> None:
        self._settings, self._roster, self._clocks = settings, roster, clocks
        self._node, self._folder = NodeName(settings.daemon.node), Path(settings.daemon.state_dir)
        self._remarks, self._log, self._woken = outlets.remarks, outlets.log, outlets.woken
        self.counters = outlets.counters
        self.keys = HelloKeys(secrets)
        epoch, is_recorded = next_epoch(self._folder / "hello-epoch")
        self.counters["hello-epochs-unrecorded"] += not is_recorded
        self.known = Acquaintances(epoch, lambda name: roster.cadence_of(NodeName(name)).patience_ns)
        self.port = port(hello_port(settings.probe.port), self.receive, self.counters)
        self.reflexive, self.introductions, self.reports = Reflexive(), Introductions(), NodeReports()
        self._presence, self._answers = Presence(), Answers()
        self._signatures = Signatures(self.counters, clocks.monotonic_ns)
        self.short = ShortHellos(self._node, secrets, roster, counters=self.counters, bind=outlets.bind)
        self.pairs = PairKeys(self._node, self._folder, forget_ns=roster.forget_ns, tell=self.short.bind)
        self.view: LocalView | None = None
        self.tunnels: tuple[WireGuardState, ...] = ()
        self.addresses: Mapping[str, NodeName] = {}
        self.beyond: tuple[str, ...] = ()
        self.is_heard_anew = self.is_unsaved = False

    def use_secrets(self, secrets: Sequence[MeshSecret]) -> None:
        """Sign and believe by these from here on.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        self.keys.replace(secrets)
        self.short.use_secrets(secrets)

    def renew(self) -> None:
        """Begin another epoch: this process may have been here before."""
        self.known.renew(next_epoch(self._folder / "hello-epoch")[0])

    def is_heard(self, address: str, now: int) -> bool:
        """Whether the node at an address was heard by this process, and lately."""
        peer = self.addresses.get(address)
        return peer is not None and self._roster.is_present(peer, now)

    def greet(
        self, address: str, *, asks: bool, port: int = 0, answers: Stamp | None = None, came_from: str = ""
    ) -> None:
        """Tell a node of this one; nothing where there is nothing to tell yet.

        Args:
            address: where it is, or may be.
            asks: it is to answer.
            port: of its own; 0 for that of hellos.
            answers: the stamp of what this answers.
            came_from: where that came from, which its sender cannot see itself.
        """
        own = self._roster.own
        if own is None:
            return
        now = self._clocks.monotonic_ns()
        stamp = Stamp(*self.known.next_stamp(now))
        peer = self.addresses.get(address)
        heard = self._roster.peers.get(peer) if peer is not None else None
        is_neighbour = heard is not None and heard.hello.home == own.home
        holds, signs_pair = self.pairs.word_to(peer, now) if peer is not None else (b"", False)
        # Answers are no larger than what they answer, so that nobody is flooded by way of us.
        is_told = peer is not None and answers is None
        is_short = self.short.is_enough(own, stamp, peer, now) and signs_pair and is_told and not asks
        greeting = Greeting(
            sender=self._node,
            stamp=stamp,
            hello=own,
            answers=answers,
            asks=asks,
            seen=self.reflexive.sees(self.tunnels, heard.hello) if heard is not None else "",
            came_from=came_from,
            knows=self.introductions.tell(peer, is_short=is_short, is_own=is_neighbour) if peer and is_told else (),
            present=self._presence.tell(now) if is_neighbour and is_told else {},
            holds=holds,
            signs_pair=signs_pair,
            report=self.reports.own() if is_told else None,
        )
        signer = self.pairs.identity
        try:
            datagram = self.short.write(greeting, peer) if is_short and peer else encode(greeting, self.keys, signer)
        except ValueError as error:
            self._remarks.complain(self._node, str(error))
            return
        if peer is not None and not is_short:
            self.short.tell(peer)
        self.reflexive.sent(stamp.counter, address)
        self.counters["hello-sent"] += 1
        self.counters["hello-sent-short"] += is_short
        source = source_towards(self.view, address)
        (functools.partial(self.port.send_from, source) if source else self.port.send)(datagram, address, port)

    def receive(self, datagram: bytes, source: Address) -> None:
        """Take in what came from an address, and answer it where that is due."""
        if is_short(datagram):
            self._receive_short(datagram, source)
            return
        greeting = decode(datagram, self.keys, self.known.is_repeated, is_signed=self._signatures.of(source[0]))
        if isinstance(greeting, HelloRejection):
            self.counters[greeting] += 1
            if greeting is HelloRejection.MALFORMED:
                self._remarks.complain(source[0], "a signed hello is malformed; is another version running there?")
            return
        now, place = self._clocks.monotonic_ns(), greeting.hello.view.node_ip
        if greeting.sender == self._node:
            self.counters["hello-own"] += 1
            self.known.hear_own_name(self._node, greeting.stamp.epoch, place=place, now=now)
            return
        if is_outsider(greeting.sender, self._settings):
            self.counters["hello-outsider"] += 1
            self._remarks.complain(greeting.sender, OUTSIDER)
            return
        if translated := tell_translation(greeting.hello.view, source[0], self.beyond):
            self.counters["hello-translated"] += 1
            self._remarks.complain(greeting.sender, translated)
            return
        if not self.pairs.accepts(greeting, now):
            self.counters["hello-other-identity"] += 1
            self.known.hear_other_identity(greeting.sender, place=place, now=now)
            self._remarks.complain(greeting.sender, OTHER_IDENTITY, event="identity.changed")
            return
        self.counters["hello-received"] += 1
        judgement = self.known.judge(greeting.sender, greeting.stamp, place=place, answers=greeting.answers, now=now)
        if judgement is Judgement.NEWS:
            self._believe(greeting, now)
        else:
            self.counters[judgement] += 1
        if judgement is Judgement.TOO_MANY:
            self.known.retain(self._roster.peers)
        is_strange = judgement in {Judgement.UNPROVEN, Judgement.OLD_EPOCH}
        asker = source[0], greeting.sender, greeting.stamp.epoch
        if not (greeting.asks or is_strange):
            return
        if not self._answers.is_due(asker, now):
            self.counters["hello-unanswered"] += 1
        else:
            is_own_port = source[1] == hello_port(self._settings.probe.port)
            self.greet(
                source[0],
                port=source[1],
                asks=is_strange,
                answers=greeting.stamp if greeting.asks else None,
                came_from=source[0] if is_own_port else "",
            )

    def _receive_short(self, datagram: bytes, source: Address) -> None:
        """A known node lives, and has changed nothing; what it has said since is asked for where it was not heard."""
        now, short = self._clocks.monotonic_ns(), self.short.read(datagram, self.known.is_repeated)
        if short is None:
            return
        name, stamp = NodeName(short.sender), short.stamp
        self.counters["hello-received"] += 1
        known = self.short.complete(short, self.pairs, now)
        place = self._roster.peers[name].hello.view.node_ip if name in self._roster.peers else ""
        judgement = self.known.judge(name, stamp, place=place, answers=None, now=now)
        if known is not None and judgement is Judgement.NEWS:
            self._believe(known.greeting, now, known.said)
            return
        self.counters["hello-short-unknown" if judgement is Judgement.NEWS else judgement] += 1
        if self._answers.is_due((source[0], name, stamp.epoch), now):
            self.greet(source[0], port=source[1], asks=True)

    def _believe(self, greeting: Greeting, now: int, said: Stamp | None = None) -> None:
        if wrong := complaint(greeting.hello):
            self.counters["hello-senseless"] += 1
            self._remarks.complain(greeting.sender, wrong)
            return
        self.pairs.hear(greeting, now)
        self.reports.hear(greeting.sender, greeting.report, now)
        is_first = greeting.hello.view.node not in self._roster.peers
        if self._roster.hear(greeting.hello, now, said or greeting.stamp):
            self.is_heard_anew = self.is_unsaved = True
            if is_first:
                self._log.info("hello.heard", peer=greeting.sender, version=greeting.hello.version)
        counter = greeting.answers.counter if greeting.answers is not None else 0
        self.reflexive.heard(greeting.sender, seen=greeting.seen, came_from=greeting.came_from, counter=counter)
        self.is_heard_anew |= self.introductions.hear(greeting.knows, now)
        if self._roster.cadence_of(greeting.hello.view.node).is_in_turn:
            self._presence.hear(greeting.hello.view.node_ip, now)
        self._hear_of(greeting, now)
        self._woken()

    def _hear_of(self, greeting: Greeting, now: int) -> None:
        """Nodes of other locations that greet this one in turn live, if a neighbour has heard them."""
        for name, age_ns in self._roster.find_present(greeting.hello, greeting.present, self.addresses.get).items():
            self.known.hear_of(name, self._roster.peers[name].hello.view.node_ip, now - age_ns)
            for listener in (self._roster, self.pairs, self.reports):
                listener.hear_of(name, now - age_ns)
