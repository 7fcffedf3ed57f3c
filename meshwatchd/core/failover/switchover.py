"""Carries a move out: the kernel change, the word to the neighbours, the proof by probes, the undoing."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

from meshwatchd.core.failover.confirm_burst import VERIFY_ROUNDS
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.state_machine import NOTICE_GAP_NS, NOTICE_REPEATS, Intent, MoveState
from meshwatchd.core.probing.packet_budget import Use
from meshwatchd.core.session.rtt_estimator import MAX_WAIT_NS
from meshwatchd.core.session.session import Session
from meshwatchd.model.events import CoordinationKind, Reason
from meshwatchd.model.failover_facts import (
    FailoverApplied,
    FailoverDoubted,
    FailoverRolledBack,
    FailoverVerified,
    PlanRefused,
)
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.generation import following
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import ApplySwitch, ObjectReasserted, Output
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.settings import MINUTE, MS, SECOND
from meshwatchd.model.topology import Path

VERIFY_NS = 150 * MS
"""From the move to the look at probes that follow real traffic; the other nodes need a round trip to follow."""

VERIFY_DELAY_NS = 15 * MS
"""Probes sent earlier than this after the move may have met a node that had not moved yet."""

LONGEST_WAIT_NS = VERIFY_NS + MAX_WAIT_NS
"""By then the first of these probes has an outcome, however long the way is."""

VERIFY_ATTEMPTS = 3
DOUBT_ATTEMPTS = 6
"""Looks before a move is undone that carries too little, and before one is left to the usual tests that carries more
than the path that was left."""

MAX_REASSERTS = 5
"""In a minute. A fight between two programs is worse for traffic than either of their routes."""

RETRY_NS = 1 * SECOND
"""After the kernel has refused to take an override back."""

HINT = (
    "somebody else rules here: if systemd-networkd runs, set ManageForeignRoutes=no and "
    "ManageForeignRoutingPolicyRules=no in networkd.conf"
)

HOMEWARD = (Reason.RESTORED, Reason.PINNED)
"""Moves back to where traffic belongs: nothing forces them."""

ORDERLY = (Reason.OPERATOR, Reason.PINNED, Reason.DRAINED, Reason.TOO_SMALL, Reason.ROLLED_BACK, Reason.NONE)
"""Moves that no fault of the path that is left has caused, or of which only the outcome is known: they are no flap."""

PARTING_ROUNDS = 2 * VERIFY_ROUNDS
"""Probes of each session of the path that was left: enough for a verdict without any other evidence."""


class Switchover:
    """The applying and verifying half of a pair's moves."""

    def __init__(self, context: PairContext) -> None:
        self._context = context
        self._attempts = 0
        self._reasserts: deque[int] = deque(maxlen=MAX_REASSERTS)
        self._has_yielded = False
        # What of the override in use is not in the kernel, as far as known, and when it is put back next.
        self._lost: tuple[Rule, ...] = ()
        self._retry_at = 0
        self._is_refused = False
        self.banned_until: dict[int, int] = {}

    def begin(self, intent: Intent, now: int) -> Iterator[Output]:
        """Change the kernel; where nothing has to change on this node, only note the path."""
        context = self._context
        context.mover.agree(intent)
        switch = context.planner.switch(context.mover.active, intent.target)
        if switch == Switch():
            yield from self.applied(intent.generation, now)
        else:
            yield ApplySwitch(pair=context.watch.index, generation=intent.generation, switch=switch)

    def applied(self, generation: int, now: int) -> Iterator[Output]:
        """The kernel took the change."""
        context, mover = self._context, self._context.mover
        intent = mover.intent
        if mover.state is not MoveState.APPLYING or intent is None or intent.generation != generation:
            self._lost, self._is_refused = (), False
            return
        operations = context.planner.operations(mover.active, intent.target)
        mover.applied(now, VERIFY_NS)
        self._attempts = 0
        # A way home that is undone counts as well: the next one waits for longer.
        is_undone_return = intent.reason is Reason.ROLLED_BACK and mover.previous.is_primary
        is_failover = not intent.target.is_primary and (intent.reason not in ORDERLY or is_undone_return)
        context.watch.follow(mover.active)
        context.damper.record(now, is_failover=is_failover, dice=context.rng.random() if is_failover else 0.0)
        yield FailoverApplied(
            pair=context.watch.index,
            from_rank=mover.previous.rank,
            to_rank=intent.target.rank,
            generation=intent.generation,
            relays=intent.target.relays,
            operations=operations,
            because=self._because(intent),
        )
        if intent.grant_to is not None:
            yield from context.say(CoordinationKind.GRANT, intent.grant_to, intent, now)
        yield from self._notify(intent, now)
        at = self._ask_effective(now, VERIFY_DELAY_NS)
        context.sizes.verify(context.watch.primary, at)
        # Who follows knows of the fault by hearsay: its own slow fresh probes would take seconds to say the same.
        left = context.watch.group(mover.previous).sessions
        many = max(1, len(left))
        granted = context.allowance.take(PARTING_ROUNDS * len(left), now, Use.REPEAT, of=many)
        context.schedule.confirm(left, now, rounds=granted // many)

    def _ask_effective(self, now: int, delay_ns: int = 0) -> int:
        """The probes that follow real traffic, which have to leave: where there is no room, the look at them waits.

        Returns:
            When they leave.
        """
        context = self._context
        sessions = context.watch.effective
        booked = context.allowance.book(VERIFY_ROUNDS * len(sessions), now)
        context.mover.next_step = booked + VERIFY_NS
        context.schedule.confirm(sessions, booked + delay_ns, rounds=VERIFY_ROUNDS)
        return booked + delay_ns

    def refused(self, generation: int, error: str, now: int) -> Iterator[Output]:
        """The kernel refused the change."""
        mover, intent = self._context.mover, self._context.mover.intent
        if mover.state is not MoveState.APPLYING or intent is None or intent.generation != generation:
            yield from self._not_put_back(error)
            return
        mover.failed(now)
        self.ban(intent.target, now)
        yield PlanRefused(pair=self._context.watch.index, reason=error)
        if intent.grant_to is not None:
            refusal = msgspec.structs.replace(intent, reason=Reason.NOT_GOOD)
            yield from self._context.say(CoordinationKind.REFUSE, intent.grant_to, refusal, now)
        if intent.nonce:
            # Two proposals of one move may have crossed: who asks for our grant may have moved on our proposal.
            yield from self._call_back(intent, now)

    def _call_back(self, proposal: Intent, now: int) -> Iterator[Output]:
        """The other relay has moved on our proposal, and we cannot: it has to undo at once."""
        context, mover = self._context, self._context.mover
        mover.generation = following(proposal.generation)
        undo = Intent(target=mover.active, generation=mover.generation, nonce=0, began=now, reason=Reason.ROLLED_BACK)
        partner = context.partner(proposal.target, now)
        if partner is not None:
            yield from context.say(CoordinationKind.NOTICE, partner, undo, now, over=proposal.target)

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Paths have other numbers; bans of those that are gone are forgotten."""
        self.banned_until = {numbers[old]: until for old, until in self.banned_until.items() if old in numbers}

    def ban(self, path: Path, now: int) -> None:
        """Keep away from a standby path for the hold-down, so that the next one gets its chance."""
        if not path.is_primary:
            self.banned_until[path.number] = now + self._context.damper.hold_down_ns(now)

    def reassert(self, what: str, now: int) -> Iterator[Output]:
        """Somebody removed a rule; when it is the override in use, put it back at once.

        Who removes it again and again does it on purpose: after MAX_REASSERTS within a minute it is left alone until
        the minute is over, and told as refused with the usual culprit's remedy.
        """
        yield from self._put_back(tuple(rule for rule in self._override() if rule.render() in what), what, now)

    def compare(self, rules: Container[Rule], now: int) -> Iterator[Output]:
        """What the kernel shows, long enough after the last change: its removal may never have been told."""
        missing = tuple(rule for rule in self._override() if rule not in rules)
        yield from self._put_back(missing, _name(missing), now)

    def retry(self, now: int) -> Iterator[Output]:
        """Put back what the kernel has refused to take, or what was left to somebody for a minute."""
        if self._lost and now >= self._retry_at:
            override = self._override()
            self._lost = tuple(rule for rule in self._lost if rule in override)
            self._is_refused = self._is_refused and bool(self._lost)
            yield from self._put_back(self._lost, _name(self._lost), now)

    def _override(self) -> tuple[Rule, ...]:
        context = self._context
        return context.planner.override(context.mover.active) if context.is_enforcing else ()

    def _put_back(self, lost: tuple[Rule, ...], what: str, now: int) -> Iterator[Output]:
        if not lost:
            return
        context, mover = self._context, self._context.mover
        if mover.state is MoveState.APPLYING:
            # It is about to be left: put back after that, if at all, or it would be left behind.
            self._lost, self._retry_at = lost, now
            return
        while self._reasserts and now - self._reasserts[0] >= MINUTE:
            self._reasserts.popleft()
            self._has_yielded = False
        self._lost = lost
        if len(self._reasserts) >= MAX_REASSERTS:
            self._retry_at = self._reasserts[0] + MINUTE
            if not self._has_yielded:
                self._has_yielded = True
                yield PlanRefused(pair=context.watch.index, reason=f"{what} was removed too often and is left; {HINT}")
            return
        self._reasserts.append(now)
        self._retry_at = now + RETRY_NS
        if not self._is_refused:
            yield ObjectReasserted(what=what)
        yield ApplySwitch(pair=context.watch.index, generation=mover.generation, switch=Switch(add=lost))

    def _not_put_back(self, error: str) -> Iterator[Output]:
        """The kernel's refusal is nobody's removal, and no reason to give up; it is told once."""
        if not self._lost:
            return
        if self._reasserts:
            self._reasserts.pop()
        if not self._is_refused:
            self._is_refused = True
            yield PlanRefused(pair=self._context.watch.index, reason=error)

    def verify(self, now: int) -> Iterator[Output]:
        """While VERIFYING: repeat the notice, then look at the probes that follow real traffic."""
        mover, intent = self._context.mover, self._context.mover.intent
        assert intent is not None, "a move that is verified has an intent"
        repeated = NOTICE_REPEATS - mover.notices_left + 1
        if mover.notices_left and now >= mover.moved_at + NOTICE_GAP_NS * repeated:
            mover.notices_left -= 1
            yield from self._notify(intent, now, is_repeated=True)
        if now < mover.next_step:
            return
        received, sent = self._received_since(mover.moved_at + VERIFY_DELAY_NS)
        unreached = self._unreached(intent)
        if sent and received * 2 >= sent and not unreached:
            yield from self._verified(intent, received, sent, now)
            return
        if not sent and now < mover.moved_at + LONGEST_WAIT_NS:
            # Over a satellite no probe has an outcome yet: that is no word against the path.
            self._ask_effective(now)
            return
        self._attempts += 1
        left_received, left_sent = self._left_since(mover.moved_at)
        # Each share is of what that path was asked; a path that was asked nothing carries nothing.
        is_gain = received * left_sent > left_received * sent and not unreached
        if self._attempts < (DOUBT_ATTEMPTS if is_gain else VERIFY_ATTEMPTS):
            self._ask_effective(now)
            return
        if is_gain:
            mover.settled()
            yield FailoverDoubted(
                pair=self._context.watch.index,
                rank=intent.target.rank,
                received=received,
                sent=sent,
                left_received=left_received,
                left_sent=left_sent,
            )
            return
        reason = f"only {received} of {sent} probes that follow real traffic arrived"
        if unreached:
            reason = f"the primary path does not reach {', '.join(unreached)}, and the path that was left does"
        yield from self._roll_back(intent, reason, now)

    def _verified(self, intent: Intent, received: int, sent: int, now: int) -> Iterator[Output]:
        """Small packets arrive. Where large ones do not, a move that nothing forced is undone; else it is told."""
        context, mover = self._context, self._context.mover
        cramped = context.sizes.is_cramped(context.watch.primary)
        is_worse = bool(cramped) and context.sizes.carries(mover.previous) is True
        if is_worse and intent.reason is not Reason.BROKEN and not intent.target.is_primary:
            yield from self._roll_back(intent, f"packets of full size do not reach {', '.join(cramped)}", now)
            return
        mover.settled()
        yield FailoverVerified(
            pair=context.watch.index, rank=intent.target.rank, received=received, sent=sent, small_only=cramped
        )

    def _received_since(self, instant: int) -> tuple[int, int]:
        return _tally(self._telling(), instant)

    def _left_since(self, instant: int) -> tuple[int, int]:
        """What the path that was left has carried since then: probes of its own go on over it."""
        return _tally(self._context.watch.group(self._context.mover.previous).sessions, instant)

    def _unreached(self, intent: Intent) -> tuple[NodeName, ...]:
        """After a way home: the nodes that answer over the path that was left and not over the primary path.

        Half of the probes is no proof there: some faults kill every packet of some nodes.
        """
        if intent.reason not in HOMEWARD or not intent.target.is_primary:
            return ()
        context, mover = self._context, self._context.mover
        follow_real_traffic = _answering(context.watch.effective, mover.moved_at + VERIFY_DELAY_NS)
        over_left = _answering(context.watch.group(mover.previous).sessions, mover.moved_at)
        return tuple(sorted(over_left - follow_real_traffic))

    def _telling(self) -> tuple[Session, ...]:
        """Without the relay that was left, where there is anybody else: it may be dead, and the new path good."""
        watch, mover = self._context.watch, self._context.mover
        left = mover.previous.relay_in(watch.remote)
        others = tuple(session for session in watch.effective if session.plan.peer != left)
        return watch.effective if left in mover.active.relays or not others else others

    def _roll_back(self, intent: Intent, reason: str, now: int) -> Iterator[Output]:
        """Undo a move that made nothing better, and keep away from that path for the hold-down."""
        context, path = self._context, intent.target
        context.mover.settled()
        held = context.mover.previous if path.is_primary else path
        is_forced = path.is_primary and intent.reason not in HOMEWARD
        may_undo = context.may_take(context.mover.previous) and context.planner.topology.is_relay(held)
        if is_forced or held.is_primary or not may_undo:
            return
        self.ban(path, now)
        yield FailoverRolledBack(
            pair=context.watch.index,
            rank=path.rank,
            reason=reason,
        )
        yield from self.go_back(context.mover.previous, now)

    def go_back(self, target: Path, now: int) -> Iterator[Output]:
        """Take a path that was left without asking the other relay, which follows by word of it."""
        generation = following(self._context.mover.generation)
        yield from self.begin(
            Intent(target=target, generation=generation, nonce=0, began=now, reason=Reason.ROLLED_BACK), now
        )

    def _because(self, intent: Intent) -> tuple[str, ...]:
        verdict = self._context.verdicts.current
        if intent.reason is Reason.BROKEN and verdict.fault is not FaultCode.NONE:
            return verdict.because
        relays = " and ".join(intent.target.relays)
        return (f"agreed by the relays ({intent.reason}): traffic goes over {relays}",)

    def _notify(self, intent: Intent, now: int, *, is_repeated: bool = False) -> Iterator[Output]:
        """A relay tells its own location at once; banners repeat it with every packet after that."""
        context = self._context
        path = intent.target if not intent.target.is_primary else context.mover.previous
        if not context.planner.topology.is_relay(path):
            return
        for name in context.neighbours():
            yield from context.say(CoordinationKind.NOTICE, name, intent, now, is_repeated=is_repeated)


def _tally(sessions: Iterable[Session], instant: int) -> tuple[int, int]:
    """Answers, and probes that have an outcome, among those sent at or after an instant."""
    counts = [session.since(instant) for session in sessions]
    received = sum(hits for hits, _ in counts)
    return received, received + sum(misses for _, misses in counts)


def _answering(sessions: Iterable[Session], instant: int) -> frozenset[NodeName]:
    """The peers with an answer to a probe that was sent at or after an instant."""
    return frozenset(session.plan.peer for session in sessions if session.since(instant)[0])


def _name(rules: Iterable[Rule]) -> str:
    return "; ".join(f"rule {rule.render()}" for rule in rules)
