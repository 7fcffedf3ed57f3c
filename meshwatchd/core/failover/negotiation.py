"""The relays' agreement: propose, answer, follow. Nobody moves on one node's word."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from meshwatchd.core.diagnosis.peer_views import LOST_NS
from meshwatchd.core.failover.confirm_burst import BURST_PAUSE_NS, ConfirmBurst
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.policy import Decision, Move, is_restored
from meshwatchd.core.failover.state_machine import BACK_OFF_NS, PATIENCE_NS, REPEAT_NS, Intent, MoveState
from meshwatchd.core.failover.switchover import Switchover
from meshwatchd.core.session.shared_risk_group import UNHEARD
from meshwatchd.model.events import Coordination, CoordinationKind, Reason
from meshwatchd.model.failover_facts import FailoverHeld, FailoverProposed, ProposalAnswered
from meshwatchd.model.generation import GenerationAccepted, GenerationRefused, is_comparable, moves_between, preceding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import Output
from meshwatchd.model.policy_state import OrderKind
from meshwatchd.model.settings import MINUTE, SECOND
from meshwatchd.model.topology import Path

ORDER_PAUSE_NS = MINUTE
"""An operator's order on the other side lasts for minutes: asking every second to come home would be noise."""


BETTER_WITHIN_NS = 3 * BACK_OFF_NS
"""For so long after the path in use was condemned "I know a better one" bans nothing. A relay says so until a proposal
for that one would have run out; the second request comes after that, the third where the relay condemned later. One
that refuses still is not waited for: another relay may agree on the next path."""

VOTE_NS = 5 * SECOND
"""A node that has not been heard for so long has no say in which generation is right."""


class Negotiation:
    """The talking half of a pair's moves."""

    def __init__(
        self,
        context: PairContext,
        switchover: Switchover,
        suspicion: ConfirmBurst,
        decide: Callable[[int], Decision],
        *,
        next_path: Callable[[int], Path | None],
    ) -> None:
        self._context = context
        self._switchover = switchover
        self._suspicion = suspicion
        self._decide, self._next_path = decide, next_path
        self._answered_nonce = 0
        self._refused_at = -MINUTE
        self._wait_to_restore_ns = context.settings.policy.wait_to_restore

    def propose(self, target: Path, reason: Reason, now: int) -> Iterator[Output]:
        """Ask the other relay to move."""
        context, mover = self._context, self._context.mover
        intent = mover.propose(target, context.rng.getrandbits(63), reason, now)
        yield FailoverProposed(
            pair=context.watch.index,
            from_rank=mover.active.rank,
            to_rank=target.rank,
            generation=intent.generation,
            reason=reason,
        )
        yield from self.press(now)

    def press(self, now: int) -> Iterator[Output]:
        """While PROPOSING: repeat the proposal, or give up."""
        context, mover, intent = self._context, self._context.mover, self._context.mover.intent
        assert intent is not None, "a proposal has an intent"
        if not mover.is_patient(now):
            self._switchover.ban(intent.target, now)
            mover.abandon(now)
            yield FailoverHeld(pair=context.watch.index, reason="the other relay does not answer the proposal")
            return
        if now < mover.next_step:
            return
        mover.next_step = now + REPEAT_NS
        partner = context.partner(intent.target, now)
        if partner is not None and self._is_fit(intent):
            yield from context.say(CoordinationKind.PROPOSE, partner, intent, now, is_repeated=now > intent.began)

    def received(self, message: Coordination, sender: NodeName, now: int) -> Iterator[Output]:
        """A relay speaks."""
        target = next((path for path in self._context.watch.paths if path.rank == message.rank), None)
        if target is None:
            return
        if message.kind is CoordinationKind.PROPOSE:
            yield from self._consider(message, target, sender, now)
        elif message.kind is CoordinationKind.NOTICE:
            intent = Intent(target=target, generation=message.generation, nonce=0, began=now, reason=message.reason)
            yield from self.follow(sender, intent, now)
        elif self._is_answer(message, sender, now):
            yield from self._answered(message, now)

    def compare(self, peer: NodeName, generation: int, now: int) -> Iterator[Output]:
        """A peer is at a generation: where no number of moves explains it, one of both is wrong.

        That is whoever fewer nodes agree with. One wrong number, wherever it comes from, so spreads to nobody, and a
        node that has one comes back; where most have it, it is as good as any.
        """
        context, mover = self._context, self._context.mover
        if is_comparable(mover.generation, generation):
            return
        pair, own = context.watch.index, mover.generation
        heard = context.views.generations(pair, since=now - VOTE_NS)
        theirs = [each for each in heard if is_comparable(generation, each)]
        ours = sum(is_comparable(own, each) for each in heard) + bool(own)
        if len(theirs) > ours:
            earliest = min(theirs, key=lambda each: moves_between(generation, each))
            mover.recount(preceding(earliest))
            yield GenerationAccepted(pair=pair, generation=generation, own_generation=own)
        elif moves_between(own, generation) > 0 and now >= self._refused_at + MINUTE:
            self._refused_at = now
            yield GenerationRefused(pair=pair, peer=peer, generation=generation, own_generation=own)

    def follow(self, sender: NodeName, intent: Intent, now: int) -> Iterator[Output]:
        """A relay of the path in use, or of the one to use, says where traffic goes."""
        context, mover = self._context, self._context.mover
        is_concerned = sender in (*intent.target.relays, *mover.active.relays)
        if is_concerned:
            mover.learn(intent)
        if not (is_concerned and mover.is_newer(intent.generation, intent.target)):
            return
        if intent.target is mover.active:
            mover.generation = intent.generation
            return
        if not context.may_take(intent.target) or mover.state is MoveState.APPLYING or now < mover.refused_until:
            return
        # Leaving a standby only removes rules, and its relay has left it already: staying would be worse.
        group = context.watch.group(intent.target)
        is_way_back = intent.target.is_primary or intent.reason is Reason.ROLLED_BACK
        # A daemon that has just started has no sessions on a standby yet: until it has, it knows nothing of that path.
        is_probed = bool(group.sessions) or context.planner.probes_path(intent.target)
        if is_probed and not group.is_good and not is_way_back:
            return
        yield from self._switchover.begin(intent, now)

    def _is_answer(self, message: Coordination, sender: NodeName, now: int) -> bool:
        intent = self._context.mover.intent
        return (
            self._context.mover.state is MoveState.PROPOSING
            and intent is not None
            and message.nonce == intent.nonce
            and sender == self._context.partner(intent.target, now)
        )

    def _answered(self, message: Coordination, now: int) -> Iterator[Output]:
        mover, intent = self._context.mover, self._context.mover.intent
        assert intent is not None, "only a standing proposal is answered"
        may_take = self._context.may_take(intent.target)
        if message.kind is CoordinationKind.GRANT and may_take and self._is_fit(intent):
            yield from self._switchover.begin(intent, now)
            return
        if message.kind is CoordinationKind.GRANT:
            # The other relay is there already: its banner brings this one after it as soon as the path answers.
            mover.abandon(now)
            why = "the path does not answer any more" if may_take else "this node may put no rule any more"
            yield FailoverHeld(pair=self._context.watch.index, reason=f"granted, and {why}")
            return
        if not self._is_for_now(message.reason, now):
            self._switchover.ban(intent.target, now)
        mover.abandon(now)
        if message.reason in (Reason.PAUSED, Reason.PINNED):
            mover.home_after = now + ORDER_PAUSE_NS
        # Heard of, not reached: at that generation this node would not follow the move that it has missed.
        mover.hear(message.generation)
        yield FailoverHeld(pair=self._context.watch.index, reason=f"the other relay refuses: {message.reason}")

    def _is_for_now(self, refusal: Reason, now: int) -> bool:
        """Whether a refusal says nothing of the path that was asked for.

        The better path may be refused in its turn: the one that was asked for is then the only one that is left.
        """
        if refusal is Reason.BETTER_PATH:
            down_since = self._context.watch.group(self._context.mover.active).down_since or now
            return now - down_since < BETTER_WITHIN_NS
        return refusal in (Reason.STALE, Reason.CHANGING)

    def _is_fit(self, intent: Intent) -> bool:
        """Whether what was good when it was proposed is good still: an answer may take most of a second."""
        group = self._context.watch.group(intent.target)
        is_unasked = intent.target.is_primary or not group.sessions
        return is_unasked or group.is_good

    def _consider(self, message: Coordination, target: Path, sender: NodeName, now: int) -> Iterator[Output]:
        context, mover = self._context, self._context.mover
        is_done = mover.active is target and mover.generation == message.generation
        path = mover.previous if is_done and target.is_primary else context.agreement_path(target)
        is_partner = context.local_node in path.relays and sender == path.relay_in(context.watch.remote)
        if not (is_partner or context.stands_in(target, path, sender, now)):
            return
        intent = Intent(
            target=target,
            generation=message.generation,
            nonce=message.nonce,
            began=now,
            reason=message.reason,
            grant_to=sender,
        )
        if is_done:
            yield from context.say(CoordinationKind.GRANT, sender, intent, now)
            return
        if mover.state is MoveState.APPLYING:
            self._remember(intent)
            return
        refusal = self._refusal(message, target, sender, now)
        if refusal is not None:
            yield from self._tell(message, target, sender, refusal, is_granted=False)
            yield from self._refuse(intent, sender, refusal, now)
        elif not self._is_supported(message, target, sender, now):
            self._suspicion.weigh(target, now)
            self._suspicion.confirm(now, pause_ns=BURST_PAUSE_NS // 2)
        else:
            yield from self._tell(message, target, sender, message.reason, is_granted=True)
            yield from self._switchover.begin(intent, now)

    def _remember(self, intent: Intent) -> None:
        """The other relay proposes the very move that is being applied here: it is granted once that is done."""
        own = self._context.mover.intent
        if own is not None and (own.target, own.generation) == (intent.target, intent.generation):
            self._context.mover.intent = intent

    def _refusal(self, message: Coordination, target: Path, sender: NodeName, now: int) -> Reason | None:
        """Why the answer is no whatever the probes say."""
        context = self._context
        if not context.may_take(target):
            return Reason.MODE
        if not context.mover.is_ahead(message.generation):
            return Reason.STALE
        is_homeward = target.is_primary and message.reason is not Reason.OPERATOR
        if is_homeward and context.is_unsettled(now):
            return Reason.CHANGING
        if message.reason is not Reason.OPERATOR and context.damper.exhausted(now):
            return Reason.BUDGET
        if (order := self._forbidding_order(message)) is not None:
            return order
        if message.reason is Reason.BROKEN and self._knows_better(target, sender, now):
            return Reason.BETTER_PATH
        return None

    def _forbidding_order(self, message: Coordination) -> Reason | None:
        """The kind of standing order here that a move would break; operators themselves may."""
        orders, remote = self._context.orders, self._context.watch.remote
        if message.reason is Reason.OPERATOR:
            return None
        if orders.about(OrderKind.PAUSE, remote) is not None:
            return Reason.PAUSED
        pin = orders.about(OrderKind.PIN, remote)
        path = None if pin is None else self._context.ordered(pin)
        is_leaving = message.reason is Reason.RESTORED and path is not None and message.rank != path.rank
        return Reason.PINNED if is_leaving else None

    def _knows_better(self, target: Path, sender: NodeName, now: int) -> bool:
        """Whether a preferred path answers and its own relays may still be about to take it.

        A sender that relays that path knows why it does not; and relays that have not moved by the time a proposal
        would have run out never will. A leader that the better path goes around cannot judge it, and knows of none but
        its own, though large packets do not pass there.
        """
        decision, is_cramped = self._decide(now), self._context.is_cramped
        best = decision.target if isinstance(decision, Move) else self._next_path(now) if is_cramped(target) else None
        if best is None or sender in best.relays:
            return False
        is_better = (is_cramped(best), best.preference) < (is_cramped(target), target.preference)
        down_since = self._context.watch.group(self._context.mover.active).down_since or now
        return is_better and now - down_since < PATIENCE_NS

    def _is_supported(self, message: Coordination, target: Path, sender: NodeName, now: int) -> bool:
        """Whether this node's own probes speak for the move: two witnesses for everything that is done.

        Until a miss of its own is certain another node's will do, where an answer is overdue here as well.
        """
        watch, group = self._context.watch, self._context.watch.group(target)
        if message.reason is Reason.OPERATOR:
            return group.is_good
        if message.reason in (Reason.RESTORED, Reason.PINNED):
            is_vouched_for = not target.is_primary or watch.is_vouched_for(
                self._context.mover.active, self._context.views, now
            )
            return is_vouched_for and is_restored(group, self._wait_to_restore_ns // 2, now)
        if message.reason is Reason.TOO_SMALL:
            is_wanted = self._context.settings.mtu.move and self._context.is_cramped(self._context.mover.active)
            return is_wanted and group.is_good and not self._context.is_cramped(target)
        if message.reason is Reason.DRAINED:
            return group.is_good and self._context.is_drained(self._context.mover.active, now)
        current = watch.group(self._context.mover.active)
        if not current.sessions:
            # The path goes around this leader, which answers for its relay: that the relay is dead is evidence enough.
            return group.is_good and group.verified_since(now - LOST_NS)
        if not current.is_proven:
            # This daemon started in the middle of the fault: what has never answered here cannot become suspect.
            is_silent = all(each.lost >= UNHEARD and not each.last_heard for each in current.sessions)
            return is_silent and group.is_good and group.verified_since(now - LOST_NS)
        since = current.suspect_since or current.down_since
        if not since and current.is_overdue(now):
            since = self._suspicion.doubted_since(now, besides=sender)
        return bool(since) and group.is_good and group.verified_since(since)

    def _refuse(self, intent: Intent, sender: NodeName, refusal: Reason, now: int) -> Iterator[Output]:
        """Say no, with the generation this node is at: a stale proposer learns from it."""
        answer = Intent(
            target=intent.target,
            generation=self._context.mover.generation,
            nonce=intent.nonce,
            began=now,
            reason=refusal,
        )
        yield from self._context.say(CoordinationKind.REFUSE, sender, answer, now)

    def _tell(
        self, message: Coordination, target: Path, peer: NodeName, reason: Reason, *, is_granted: bool
    ) -> Iterator[Output]:
        """State the answer once, however often the proposal is repeated."""
        if message.nonce != self._answered_nonce:
            self._answered_nonce = message.nonce
            yield ProposalAnswered(
                pair=self._context.watch.index, to_rank=target.rank, peer=peer, is_granted=is_granted, reason=reason
            )
