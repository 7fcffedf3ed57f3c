"""One pair of locations from evidence to action: suspicion, verdict, decision, agreement, move, verification."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.diagnosis.pair_evidence import PairWatch
from meshwatchd.core.failover.advice import advise
from meshwatchd.core.failover.attention import Attention
from meshwatchd.core.failover.confirm_burst import ConfirmBurst
from meshwatchd.core.failover.negotiation import Negotiation
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.pair_diagnosis import PairDiagnosis
from meshwatchd.core.failover.pair_situation import describe, is_content
from meshwatchd.core.failover.path_retirement import LINGER_NS, Parting
from meshwatchd.core.failover.policy import Decision, Move, Situation, Stay, decide, may_go_home, next_path
from meshwatchd.core.failover.state_machine import Intent, MoveState
from meshwatchd.core.failover.switchover import HOMEWARD, Switchover
from meshwatchd.core.routes.planner import Planner
from meshwatchd.core.routes.policy_rules import Legacy
from meshwatchd.core.session.session import Outcome, Session
from meshwatchd.model.events import ActivePath, Coordination, Reason
from meshwatchd.model.failover_facts import FailoverHeld, PathSuppressed
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import DaemonReady, Output
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.topology import Path, PathKey

REVIEW_NS = 100 * MS
"""While nothing happens, look at everything this often."""

REST_REVIEW_NS, REST_AFTER_NS = 1 * SECOND, 10 * SECOND
"""The same after so long without a miss: a look costs as much as a dozen probes, and the first miss asks for one."""

REVIEW_GAP_NS = 3 * MS
"""During a burst, answers and misses come faster than it makes sense to look at everything."""

HOLD_DELAY_NS = 200 * MS
"""A standby that is asked when the path in use is condemned has answered by then, or will not."""

UNDO_NS = 60 * SECOND
"""How long the way back from an unconfirmed failover is tried: a path that is bad for longer is not gone back to."""

BETWEEN_PATHS = 255
"""The rank that a banner tells while traffic is on a path that the mesh does not have any more: nobody follows it."""


class PairController:
    """All that happens to one pair on one node, in the order it is looked at."""

    def __init__(self, context: PairContext, now: int) -> None:
        self.context = context
        self.watch = context.watch
        self.mover = context.mover
        self.verdicts = context.verdicts
        self.attention = Attention()
        self.is_ready = False
        self.next_review = now
        self.suspicion = ConfirmBurst(context)
        self.diagnosis = PairDiagnosis(context, self.suspicion, self.attention, now)
        self.switchover = Switchover(context)
        self.negotiation = Negotiation(context, self.switchover, self.suspicion, self._decide, next_path=self.next_path)
        self._held = ""
        self._undo: Move | None = None
        self._flaps: dict[int, int] = {}
        self.reviewed_at = self._disturbed_at = now
        self._undo_until = self._lingers_until = 0
        self.parting: Parting | None = None
        self._lingering: tuple[str, ...] = ()
        self._assign_groups()

    @property
    def is_busy(self) -> bool:
        """Whether the path in use is in doubt, or about to be left."""
        return self.suspicion.is_raised or self.mover.state in (MoveState.PROPOSING, MoveState.APPLYING)

    def is_awake(self, now: int) -> bool:
        """Whether this node asks at full pace: not while the mesh's own agent needs the processor to rewrite it."""
        return self.attention.is_awake(now) and not self.context.is_unsettled(now)

    @property
    def blames_own_sizes(self) -> bool:
        """Whether the verdict is that devices of this node do not fit each other: nothing worse is known here."""
        verdict = self.verdicts.current
        return verdict.fault is FaultCode.MTU_MISCONFIGURED and verdict.culprit == self.context.local_node

    @property
    def active(self) -> ActivePath:
        """What the banner says of this pair."""
        return ActivePath(
            pair=self.watch.index,
            rank=self.mover.active.rank if self.parting is None else BETWEEN_PATHS,
            generation=self.mover.generation,
            relays=self.watch.relays_print,
            is_alarmed=self.attention.is_alarmed,
        )

    @property
    def is_switching(self) -> bool:
        """Whether the kernel is being asked for a change."""
        return self.mover.state is MoveState.APPLYING or (self.parting is not None and self.parting.is_switching)

    def deadline(self) -> int:
        """The next instant at which `review` has something to do."""
        if self.mover.state is not MoveState.IDLE and self.mover.state is not MoveState.APPLYING:
            return min(self.next_review, self.mover.next_step)
        return self.next_review

    def change(self, watch: PairWatch, planner: Planner, now: int, *, is_enforcing: bool) -> Switch:
        """Go on with the same pair in another mesh, of which `watch` and `planner` are.

        Returns:
            What the path in use needs on this node from here on: a leader that a path bypasses has no policy rule, and
            gets one when it leads no more.
        """
        context, before, planned = self.context, self.watch, self.context.planner
        self.watch = context.watch = watch
        context.planner, context.is_enforcing = planner, is_enforcing
        self._assign_groups()
        self._forgive(now)
        self.verdicts.renumber(watch.index)
        numbers = {path.key: path.number for path in watch.paths}
        renumbered: dict[int, int] = {path.number: numbers[path.key] for path in before.paths if path.key in numbers}
        self.switchover.renumber(renumbered)
        self._flaps = {renumbered[old]: since for old, since in self._flaps.items() if old in renumbered}
        if undo := self._undo:
            self._undo = next((Move(path, undo.reason) for path in watch.paths if path.key == undo.target.key), None)
        if before.relays_print != watch.relays_print or not watch.group(watch.primary).is_proven:
            self.diagnosis.started = now
        left = self.mover.active
        active = self._successor(left, planned, now)
        self.mover.change(watch.paths, active)
        if self.parting is not None:
            self.parting.restart(now)
            return Switch()
        return Switch.between(planned.override(left), planner.override(active))

    def _forgive(self, now: int) -> None:
        """Drop doubt that arose while the mesh's own agents rewrote it: slow sessions would keep it for a minute."""
        if not self.context.is_unsettled(now):
            return
        for group in self.watch.groups.values():
            if group.is_suspect:
                group.forget(now)

    def _successor(self, active: Path, planned: Planner, now: int) -> Path:
        """The path that traffic is on in the mesh as it is; where it is gone, the one to go to, and how to leave."""
        watch, planner = self.watch, self.context.planner
        twin = next((path for path in watch.paths if path.key == active.key), None)
        if active.is_primary:
            return twin or watch.primary
        if twin is not None and planner.place_of(twin) == planned.place_of(active):
            return twin
        devices, tables = planned.stands_on(active)
        self.part(active.key, Legacy(planned.override(active), devices, tables), now)
        return watch.primary

    def part(self, key: PathKey | None, legacy: Legacy, now: int) -> None:
        """Begin to leave an override that leads over no path of the mesh."""
        self.parting = Parting(self.context, key=key, legacy=legacy, now=now)

    def overrides(self) -> tuple[Rule, ...]:
        """The rules in the kernel that lead this pair's traffic."""
        return (
            self.parting.legacy.rules if self.parting is not None else self.context.planner.override(self.mover.active)
        )

    def holds(self, now: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Devices and tables that have to stay as they are, whatever the mesh of the moment wants there."""
        if self.parting is not None:
            return self.parting.holds(now)
        return (self._lingering if now < self._lingers_until else ()), ()

    def switched(self, generation: int, now: int) -> Iterator[Output]:
        """The kernel took a change."""
        if self.parting is None:
            yield from self.switchover.applied(generation, now)
            return
        yield from self.parting.applied(now)
        self._settle(now)

    def refused(self, generation: int, error: str, now: int) -> Iterator[Output]:
        """The kernel refused a change."""
        left = self.parting
        yield from self.switchover.refused(generation, error, now) if left is None else left.refused(error, now)

    def _settle(self, now: int) -> None:
        if self.parting is not None and self.parting.is_over:
            self._lingering, self._lingers_until = self.parting.holds(now)[0], now + LINGER_NS
            self.parting = None

    def _assign_groups(self) -> None:
        self._groups = {s.plan.session: tuple(self.watch.groups_of(s)) for s in self.context.schedule.sessions}

    def adopt(self, path: Path, now: int) -> None:
        """Take over an override found in the kernel at start."""
        self.mover.active = self.mover.previous = path
        self.mover.moved_at = now
        self.mover.generation = 1

    def observe(self, session: Session, outcome: Outcome, now: int) -> bool:
        """One of the sessions had an outcome.

        Returns:
            Whether it is a reason for a review.
        """
        if is_news := outcome is not Outcome.HIT:
            self._disturbed_at = now
            # While the mesh's own agent is at work answers are missing everywhere: what lasts is seen afterwards.
            is_miss = outcome is Outcome.MISS and not self.context.is_unsettled(now)
            is_news = is_miss and self.attention.missed(session, self.watch, now)
        for group in self._groups[session.plan.session]:
            suspect_since, down_since = group.suspect_since, group.down_since
            group.observe(session, outcome, now)
            if suspect_since != group.suspect_since or down_since != group.down_since:
                is_news = True
        if is_news:
            return True
        if self.mover.state is MoveState.IDLE and not (self.suspicion.is_raised or self.suspicion.is_seeking):
            return outcome is not Outcome.HIT
        self.next_review = min(self.next_review, self.reviewed_at + REVIEW_GAP_NS)
        return now >= self.next_review

    def review(self, now: int) -> Iterator[Output]:
        """Look at everything: suspicion, verdict, and what to do about it."""
        self.next_review = now + (REST_REVIEW_NS if self._is_at_rest(now) else REVIEW_NS)
        self.reviewed_at = now
        yield from self.suspicion.review(now)
        self.attention.review(self.watch, now, in_use=self.context.number_in_use, is_moving=self._may_move(now))
        if self.context.is_unsettled(now):
            self.attention.put_off(now)
        if self.suspicion.is_raised or self.suspicion.is_seeking:
            self.next_review = min(self.next_review, self.suspicion.next_step)
        yield from self._note_flaps(now)
        yield from self.diagnosis.review(now)
        self.next_review = min(self.next_review, self.diagnosis.again_at or self.next_review)
        yield from self._get_ready(now)
        yield from self.switchover.retry(now)
        if self.parting is not None:
            yield from self.parting.press(now)
            self._settle(now)
            return
        if self.mover.state is MoveState.PROPOSING:
            yield from self.negotiation.press(now)
        elif self.mover.state is MoveState.VERIFYING:
            yield from self.switchover.verify(now)
        if self.mover.state in (MoveState.IDLE, MoveState.VERIFYING):
            yield from self._act(now)

    def _is_at_rest(self, now: int) -> bool:
        """Whether nothing has spoken against anything for a while; what a device or an order changes is no miss."""
        since = max(self._disturbed_at, self.context.sizes.settled_at)
        is_named = self.verdicts.current.fault is not FaultCode.NONE or self.suspicion.has_doubters
        return now - since > REST_AFTER_NS and not is_named and self._is_steady(now) and is_content(self.context, now)

    def _is_steady(self, now: int) -> bool:
        """Whether traffic is where it belongs and nobody is about to move it."""
        active = self.mover.active
        return not self._is_moving() and active is self.watch.primary and not self.context.is_drained(active, now)

    def _is_moving(self) -> bool:
        return self.mover.state is not MoveState.IDLE or self.parting is not None or self._undo is not None

    def _may_move(self, now: int) -> bool:
        """Whether traffic is about to be moved, or should be as soon as it can."""
        if self._is_moving() or self.context.is_drained(self.mover.active, now):
            return True
        return self.mover.active is not self.watch.primary and may_go_home(
            self._situation(now), self.context.damper, now
        )

    def told(self, peer: NodeName, active: ActivePath, now: int) -> Iterator[Output]:
        """A peer's banner says which path it uses."""
        if self.parting is not None or not self.is_same_pair(active.relays):
            return
        if active.is_alarmed:
            self.attention.hear(now)
        yield from self.negotiation.compare(peer, active.generation, now)
        path = next((path for path in self.watch.paths if path.rank == active.rank), None)
        if path is not None and self.mover.is_newer(active.generation, path):
            own = self.mover.intent
            # The other relay may have granted this node's own proposal, and its banner overtaken the word of it.
            is_own = own is not None and (own.target, own.generation) == (path, active.generation)
            heard = Intent(target=path, generation=active.generation, nonce=0, began=now, reason=Reason.NONE)
            yield from self.negotiation.follow(peer, own if own is not None and is_own else heard, now)

    def received(self, message: Coordination, sender: NodeName, now: int) -> Iterator[Output]:
        """A relay speaks."""
        if self.parting is None and self.is_same_pair(message.relays):
            yield from self.negotiation.received(message, sender, now)

    def is_same_pair(self, relays: int) -> bool:
        """Whether ranks mean the same to whoever says so by this fingerprint; 0 is no statement."""
        return relays in (0, self.watch.relays_print)

    def order_expired(self, order: Order, now: int) -> None:
        """A standing order is over: an unconfirmed failover is undone, a pinned path is an ordinary one again."""
        if order.location not in ("", self.watch.remote):
            return
        if order.kind is OrderKind.PIN:
            self.mover.unpin()
        elif order.kind is OrderKind.CONFIRM and self.mover.is_pinned:
            target, self._undo_until = self.context.ordered(order), now + UNDO_NS
            is_chosen = target is not None and (target.is_primary or order.is_chosen)
            # People have chosen neither: the path that traffic comes back to is one that it goes home from.
            reason = Reason.OPERATOR if is_chosen else Reason.ROLLED_BACK
            self._undo = None if target is None else Move(target, reason)
        self.next_review = now

    def stalled(self, now: int) -> None:
        """The evidence was gathered by a process that was not running: drop it."""
        for group in self.watch.groups.values():
            group.forget(now)

    def _note_flaps(self, now: int) -> Iterator[Output]:
        """Every path that has been condemned since the last look, in use or not."""
        damper = self.context.damper
        self.context.storm.note(self.watch.index, self.watch.group(self.watch.primary).down_since)
        for path in self.watch.paths:
            down_since = self.watch.group(path).down_since
            if down_since == self._flaps.get(path.number, 0):
                continue
            self._flaps[path.number] = down_since
            if not down_since:
                self.attention.alarm(now)
            else:
                was_suppressed = damper.is_suppressed(path, now)
                damper.flapped(path, now)
                if damper.is_suppressed(path, now) and not was_suppressed:
                    penalty = int(damper.penalty(path, now))
                    yield PathSuppressed(pair=self.watch.index, rank=path.rank, penalty=penalty)

    def _get_ready(self, now: int) -> Iterator[Output]:
        if self.is_ready:
            return
        is_late = self.diagnosis.is_settled(now)
        is_proven = self._are_standbys_probed() and all(s.is_proven for s in self.context.schedule.select())
        if is_proven or (is_late and self.watch.group(self.watch.primary).is_proven):
            self.is_ready = True
            yield DaemonReady(pair=self.watch.index)

    def _are_standbys_probed(self) -> bool:
        """Whether there is nothing to wait for before the sessions tell whether this node could move traffic."""
        planner, watch = self.context.planner, self.watch
        return not self.context.is_enforcing or all(
            watch.group(path).sessions or not planner.probes_path(path) for path in watch.paths
        )

    def _act(self, now: int) -> Iterator[Output]:
        context, decision = self.context, self._decide(now)
        is_free = context.may_take(decision.target) if isinstance(decision, Move) else context.is_enforcing
        if not is_free:
            yield from advise(context, now)
        elif isinstance(decision, Stay):
            yield from self._hold("" if context.is_detoured() else decision.reason, now)
        elif now >= self.mover.quiet_until and (decision.reason not in HOMEWARD or now >= self.mover.home_after):
            self._held = ""
            if decision.reason is Reason.ROLLED_BACK:
                yield from self.switchover.go_back(decision.target, now)
            elif context.partner(decision.target, now) is not None:
                yield from self.negotiation.propose(decision.target, decision.reason, now)

    def _undoing(self, now: int) -> Move | None:
        """The way back from a failover that nobody has confirmed, until it is taken or cannot be."""
        undo = self._undo
        if undo is None:
            return None
        if undo.target is self.mover.active or not self.mover.is_pinned or now >= self._undo_until:
            self._undo = None
            return None
        return undo if self.watch.group(undo.target).is_good else None

    def _hold(self, reason: str, now: int) -> Iterator[Output]:
        """Say why nothing is done, once a confirm burst has had the time to find something to do."""
        down_since = self.watch.group(self.mover.active).down_since
        if reason == self._held or (reason and now - down_since < HOLD_DELAY_NS):
            return
        self._held = reason
        if reason:
            yield FailoverHeld(pair=self.watch.index, reason=reason)

    def _decide(self, now: int) -> Decision:
        if self.watch.is_deaf(now):
            return Stay("loopback probes fail, so verdicts about peers are unreliable")
        undoing = self._undoing(now)
        if undoing is not None:
            return undoing
        return Stay() if is_content(self.context, now) else decide(self._situation(now), self.context.damper, now)

    def next_path(self, now: int) -> Path | None:
        """Where traffic would move if the path in use broke at this instant."""
        return next_path(self._situation(now))

    def _situation(self, now: int) -> Situation:
        return describe(self.context, self.switchover.banned_until, now)
