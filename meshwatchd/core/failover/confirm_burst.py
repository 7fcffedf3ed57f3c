"""From the first suspicious miss to the end of the confirm burst.

A burst asks three questions at once: do flows over the path in use really die, which layer is it, and is there
a path that answers now? Without the third a standby would be judged by probes older than the fault.

It comes in slices, and goes on until the tests have decided: one miss earns one slice, enough to condemn a dead path;
what its answers leave undecided earns the next, with no pause between them, for a second at most. A budget bounds them
all together, and half of it is reserved for doubt that more than one miss speaks for: where a few percent of all
packets are lost every day, bursts must neither fill the network's flow tables nor be used up when they are needed. That
is the pair's own budget; all pairs of a node together have `probing.packet_budget`, and where it is short a part of
what is written here is asked later, in smaller parts, or by the regular probes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import LOST_NS, View
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.core.probing.packet_budget import BURST_BUDGET, Share, Use
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.session.cusum import MISS_NATS, TRIP_NATS
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.core.session.shared_risk_group import DISTURBED_NATS, Group
from meshwatchd.model.outputs import Output, SessionSuspected, SuspicionCleared
from meshwatchd.model.settings import MINUTE, MS, SECOND
from meshwatchd.model.topology import Path

BURST_PAUSE_NS = 250 * MS
"""Shortest time between two bursts about the same thing, and between slices once the burst has had its second."""

NEW_SUSPICION_PAUSE_NS = 60 * MS
"""A path that comes back under suspicion at once is more than everyday loss; this keeps bursts from overlapping."""

SLICE = 20
"""Probes of the suspected group in turn: its fresh ones alone trip the test when all of them are missed."""

ROW = 4
"""Probes of a slice that leave at once: a wake-up costs as much as six of them, here and where they are answered."""

CONFIRMED_NATS = 2 * MISS_NATS
"""Doubt that more than one miss speaks for: from here on slices follow one another without waiting for answers."""

ENOUGH_NATS = 1.5 * TRIP_NATS
"""What the evidence would come to with everything on the way missed; from here on the next slice waits."""

BURST_LIMIT_NS = 1 * SECOND
"""What a thousand probes have not decided, regular ones have to."""

RESERVE = BURST_BUDGET // 2
"""What is kept for doubt that more than one miss of this node's own speaks for."""

VERIFY_ROUNDS = 4
"""Probes of each session of a path that was just taken into use."""

CALL_ROUNDS = 2
CALL_GAP_NS = 10 * MS
"""Probes by which each relay of the pair is told of the doubt, and the time between: one may be lost."""

LIGHT_ROUNDS = 3
"""Probes of every other session that matters: the fewest that tell dead from unlucky. The first miss earns one of each
session that could replace the path."""

BYSTANDER_PART = 4
"""A node that is not the first to decide asks that much slower: who is needs the machines and the leg more. So do all
relays while the mesh's own agent is at work, which needs the machines to finish, and members leave bursts to them."""

ASK_AFTER_NS = 80 * MS
"""For so long the mesh's own agent is left to finish before a path that it rewrites is asked for: mostly it answers by
then, and each probe would take from the agent what it needs for that."""

FRESH_OF = 4
"""Where new flows are what is in doubt, three probes in four of a slice are fresh; otherwise every other one."""

HEARSAY_NS = 200 * MS
"""A peer that has begun to doubt the path is worth a few slices of our own; if they find nothing, it is on its own."""

SEEK_PAUSE_NS = 15 * MS
SEEK_PART = 4
SEEK_LIMIT_NS = 2 * SECOND
"""Between two questions to what could replace a condemned path that is not left yet: at least so much, and a fourth of
the time that it has been condemned for. After the limit the regular probes have to do. Without them chance misses among
the first few answers would keep traffic on a dead path for as long as slow sessions take to outweigh them."""

EXPLAIN_NS = 2 * SECOND
"""For how long a condemned path without an explanation is asked about again and again, from when it may be named on."""


class ConfirmBurst:
    """Starts bursts and keeps them going, and tells when suspicion comes and goes.

    Attributes:
        is_raised: whether the path in use is suspected and not condemned yet.
        is_seeking: whether it is condemned and another path is asked for.
        next_step: when to look again while either is true, whatever is heard until then; nanoseconds.
    """

    def __init__(self, context: PairContext) -> None:
        self._context = context
        self._last_burst = -BURST_PAUSE_NS
        self._last_look = -BURST_PAUSE_NS
        self._put_off_at = 0
        self._weighed_at = -NEW_SUSPICION_PAUSE_NS
        self._sought_at = -SEEK_PAUSE_NS
        self._planned_until = 0
        self._light_rounds = 0
        self._has_asked_why = False
        self._turn = 0
        self._doubters: dict[str, int] = {}
        self._budget = float(BURST_BUDGET)
        self._budget_at = 0
        self._share = Share()
        self.is_raised = False
        self.is_seeking = False
        self._has_called = False
        self.next_step = 0

    def review(self, now: int) -> Iterator[Output]:
        """Look at the group of the path in use."""
        active = self._context.mover.active
        group = self._context.watch.group(active)
        if group.is_suspect and group.sessions and not self.is_raised:
            first = max(group.sessions, key=lambda session: session.cusum.nats)
            yield SessionSuspected(
                peer=first.plan.peer,
                layer=first.plan.layer,
                path=active.number,
                log_likelihood=round(group.nats, 2),
            )
        elif self.is_raised and not group.is_suspect and not group.is_down:
            yield SuspicionCleared(path=active.number)
        self.is_raised = group.is_suspect
        self.is_seeking = self._is_stuck(group, now)
        if active.is_primary and self._context.is_unsettled(now) and now - group.suspect_since < ASK_AFTER_NS:
            self.next_step = group.suspect_since + ASK_AFTER_NS
            return
        self._call(group, now)
        self._settle_doubts(now)
        if group.is_suspect:
            self._press(group, now)
        elif self._context.mover.state is MoveState.PROPOSING:
            self.confirm(now, pause_ns=BURST_PAUSE_NS)
        elif self.is_seeking:
            self._seek(group, now)
        elif not self._context.is_unsettled(now) and any(
            session.state is SessionState.SUSPECT for session in self._context.watch.segments
        ):
            self._look_at_segments(now)

    def _settle_doubts(self, now: int) -> None:
        """Ask paths in doubt closely: each session may be good by itself, and at the pace of rest doubt would last."""
        schedule = self._context.schedule
        for group in self._context.watch.groups.values():
            if group.is_suspect:
                for session in (*group.sessions, *group.controls):
                    if now - session.last_heard <= GIVEN_UP_NS:
                        schedule.look_closely(session, now)

    def confirm(self, now: int, *, pause_ns: int) -> None:
        """One slice and the whole of the light probes, unless the last burst is younger than the pause."""
        if now - self._last_burst < pause_ns or self._left(now) < SLICE or not self._has_room(now, Use.DOUBT):
            return
        self._last_burst, self._light_rounds, self._has_asked_why = now, 0, False
        self._slice(self._context.watch.group(self._context.mover.active), now, Use.DOUBT)
        self._ask_the_others(now, is_confirmed=True)

    def weigh(self, target: Path, now: int) -> None:
        """Another relay proposes this path: ask what an answer needs, which comes before the doubts of other pairs."""
        if now - self._weighed_at < NEW_SUSPICION_PAUSE_NS:
            return
        self._weighed_at = now
        group = self._context.watch.group(self._context.mover.active)
        since = group.suspect_since or group.down_since
        doubted = () if since else tuple(self._pick(group, ROW))
        asked = self._context.watch.group(target).sessions
        unproven = tuple(each for each in asked if not (since and each.is_good and each.since(since)[0]))
        self._ask((*doubted, *unproven), now, 1, use=Use.REPEAT)

    @property
    def has_doubters(self) -> bool:
        """Whether a peer's own probes speak against the path."""
        return bool(self._doubters)

    def doubted_since(self, now: int, *, besides: str) -> int:
        """Since when another node than this one speaks against the path, a second ago at most; 0 while none does.

        Who has fallen silent speaks no more, and what was proven before an old doubt proves little.
        """
        views, pair, recent = self._context.views, self._context.watch.index, now - LOST_NS
        doubts = [
            max(since, recent)
            for peer, since in self._doubters.items()
            if peer != besides and views.read(peer, pair, View.RELAY_PATH, since=recent) is Leg.DEAD
        ]
        return min(doubts, default=0)

    def heard(self, peer: str, now: int) -> None:
        """A peer spoke. Fresh probes are scarce and some survive: whoever sees a fault first tells all others."""
        context = self._context
        if context.watch.is_close and not context.watch.is_decider:
            return
        if context.views.read(peer, context.watch.index, View.RELAY_PATH, since=0) is not Leg.DEAD:
            self._doubters.pop(peer, None)
            return
        group, is_new = context.watch.group(context.mover.active), peer not in self._doubters
        since = self._doubters.setdefault(peer, now)
        if not context.watch.is_decider:
            return
        if is_new:
            group.told(now)
        is_known = group.is_suspect or group.is_down or context.is_unsettled(now)
        is_news = now - since <= HEARSAY_NS and not is_known
        reserve = RESERVE if len(self._doubters) == 1 else 0
        use = Use.CHANCE if reserve else Use.DOUBT
        is_due = is_news and now - self._last_burst >= NEW_SUSPICION_PAUSE_NS and self._left(now) >= reserve + SLICE
        if is_due and self._has_room(now, use):
            self._last_burst = now
            self._slice(group, now, use)
            self._ask(context.watch.replacing(context.mover.active), now, 1, use=use)
            if context.watch.is_leader and self._left(now) >= RESERVE:
                # Its own path does not cross its overlay: without this it would be the last to know.
                self._ask(context.watch.nearby, now)

    def explain(self, now: int) -> None:
        """The path is condemned and nobody knows why: ask what could tell, for a while.

        A node that follows a move by hearsay has asked nothing since the fault began, and its slow sessions would
        take seconds. While the mesh's own agent is at work nothing is named, and nothing asked.
        """
        watch = self._context.watch
        down_since = watch.group(watch.primary).down_since
        if self._context.is_unsettled(now):
            self._put_off_at = now
            return
        began = max(down_since, self._put_off_at)
        is_due = down_since and now - began <= EXPLAIN_NS and now - self._last_look >= BURST_PAUSE_NS
        # A path may be down for days, and the agent at work every few seconds: something is left for a real doubt.
        if is_due and self._left(now) >= SLICE + (began > down_since) * RESERVE:
            self._last_look = now
            self._ask(watch.explaining(), now)

    def _is_stuck(self, group: Group, now: int) -> bool:
        """Whether this node has condemned the path not long ago and is on it still."""
        context = self._context
        is_concerned = context.watch.is_decider and context.is_enforcing and context.mover.state is MoveState.IDLE
        return is_concerned and group.is_down and now - group.down_since <= SEEK_LIMIT_NS

    def _seek(self, group: Group, now: int) -> None:
        """Ask what could replace the path, until one of them has answered well enough to be taken."""
        sessions = self._context.watch.replacing(self._context.mover.active)
        pause_ns = max(SEEK_PAUSE_NS, (now - group.down_since) // SEEK_PART)
        if now - self._sought_at >= pause_ns and self._left(now) >= len(sessions):
            self._sought_at = now
            self._ask(sessions, now, 1, use=Use.DOUBT)
        self.next_step = now + SEEK_PAUSE_NS

    def _call(self, group: Group, now: int) -> None:
        """Tell those who will have to agree, by the word in every probe's banner, that they had better look as well.

        Their own probes might begin to miss answers much later, and a member's bursts do not reach all of them. One
        miss is enough while misses are rare.
        """
        if not (group.is_suspect or group.is_down):
            self._has_called = False
        elif not self._has_called and (group.nats >= DISTURBED_NATS or self._left(now) >= RESERVE):
            self._has_called = True
            deciders = self._context.watch.to_deciders
            called = self._take(CALL_ROUNDS * len(deciders), now, Use.DOUBT)
            for place in range(called):
                # All of them once before any of them again, in what order is left to the heap.
                turn, position = divmod(place, len(deciders))
                self._context.schedule.confirm((deciders[position],), now + turn * CALL_GAP_NS, rounds=1)

    def _press(self, group: Group, now: int) -> None:
        """The next slice of the burst, as soon as it is due and while the budget lasts."""
        if self._leaves_it_to_others(now):
            self.next_step = now + self._context.schedule.timers.burst_gap_ns * SLICE
            return
        is_confirmed = group.nats >= CONFIRMED_NATS
        self.next_step = self._next_slice(group, now, is_confirmed=is_confirmed)
        reserve, use = (0, Use.DOUBT) if is_confirmed else (RESERVE, Use.CHANCE)
        if now < self.next_step or self._left(now) < reserve + SLICE or not self._has_room(now, use):
            self.next_step = max(self.next_step, now + self._context.schedule.timers.burst_gap_ns * SLICE)
            return
        if group.suspect_since > self._last_burst or now - group.suspect_since > BURST_LIMIT_NS:
            self._light_rounds, self._has_asked_why = 0, False
        self._last_burst = now
        self._slice(group, now, use)
        self._ask_the_others(now, is_confirmed=is_confirmed)
        self.next_step = self._next_slice(group, now, is_confirmed=is_confirmed)

    def _leaves_it_to_others(self, now: int) -> bool:
        """Whether bursts of those who decide are enough: in a large mesh those of all would be a flood."""
        context = self._context
        if context.is_unsettled(now) and not context.watch.is_decider:
            return True
        return not context.watch.is_close and self.doubted_since(now, besides=context.local_node) > 0

    def _next_slice(self, group: Group, now: int, *, is_confirmed: bool) -> int:
        if now - group.suspect_since > BURST_LIMIT_NS:
            return self._last_burst + BURST_PAUSE_NS
        if is_confirmed:
            return now + self._context.schedule.timers.burst_gap_ns if self._has_enough(group) else self._planned_until
        if group.suspect_since > self._last_burst:
            return self._last_burst + NEW_SUSPICION_PAUSE_NS
        return self._planned_until + max((session.delay.wait_ns(now) for session in group.sessions[:1]), default=0)

    def _has_enough(self, group: Group) -> bool:
        """Whether what is on the way will condemn though some of it be answered: more would only fill the network."""
        asked = group.sessions if group.is_about_new_flows else (*group.sessions, *group.controls)
        waiting = sum(session.waiting for session in asked)
        return waiting > 0 and group.nats + MISS_NATS * waiting >= ENOUGH_NATS

    def _slice(self, group: Group, now: int, use: Use) -> None:
        """Probes a gap apart on average: fresh and known flows of all sessions of the group in turn."""
        schedule = self._context.schedule
        at = max(now, self._planned_until)
        # A slice lasts as long for everybody: who decides first is a matter of how far the doubt has come.
        part = 1 if self._decides_first() and not self._context.is_unsettled(now) else BYSTANDER_PART
        gap_ns = schedule.timers.burst_gap_ns * part
        granted = self._take(SLICE // part if group.sessions else 0, now, use)
        for place, session in enumerate(self._pick(group, granted)):
            schedule.confirm((session,), at + place // ROW * ROW * gap_ns, rounds=1)
        self._planned_until = at + granted * gap_ns

    def _decides_first(self) -> bool:
        """Whether this node relays the path that would be taken: the first that is fine, or that it cannot judge."""
        context, watch = self._context, self._context.watch
        for path in watch.paths:
            group = watch.group(path)
            is_fine = not group.sessions or (group.is_good and not group.is_suspect)
            if path is not context.mover.active and is_fine:
                return context.local_node in path.relays
        return watch.is_decider

    def _pick(self, group: Group, count: int) -> Iterator[Session]:
        fresh, known = group.sessions, group.controls
        for _ in range(count if fresh else 0):
            self._turn += 1
            cycle, place = divmod(self._turn, FRESH_OF if group.is_about_new_flows else 2)
            is_known = bool(known) and place == 0
            yield known[cycle % len(known)] if is_known else fresh[(self._turn - cycle) % len(fresh)]

    def _ask_the_others(self, now: int, *, is_confirmed: bool) -> None:
        """Once for each burst: what could replace the path at the first miss, what explains it when that was no chance.

        A path is left without a name for what is wrong with it, but never without one to go to.
        """
        watch, active = self._context.watch, self._context.mover.active
        rounds = LIGHT_ROUNDS if is_confirmed else 1
        if rounds > self._light_rounds:
            use = Use.DOUBT if is_confirmed else Use.CHANCE
            self._light_rounds += self._ask(watch.replacing(active), now, rounds - self._light_rounds, use=use)
        if is_confirmed and not self._has_asked_why and not self._context.is_unsettled(now):
            suspected = watch.group(active).controls
            why = tuple(session for session in watch.explaining() if session not in suspected)
            self._has_asked_why = self._ask(why, now) > 0

    def _left(self, now: int) -> float:
        """What is left of the budget, which fills up within a minute."""
        earned = (now - self._budget_at) * BURST_BUDGET / MINUTE
        self._budget, self._budget_at = min(self._budget + earned, BURST_BUDGET), now
        return self._budget

    def _look_at_segments(self, now: int) -> None:
        """A leader whose overlay dies may still see its own path as fine: the others need its word soon."""
        segments = self._context.watch.nearby
        cost = SLICE + LIGHT_ROUNDS * len(segments)
        if now - self._last_look < BURST_PAUSE_NS or self._left(now) < RESERVE + cost:
            return
        self._last_look = now
        self._slice(self._context.watch.group(self._context.mover.active), now, Use.CHANCE)
        self._ask(segments, now)

    def _ask(
        self, sessions: tuple[Session, ...], now: int, rounds: int = LIGHT_ROUNDS, *, use: Use = Use.CHANCE
    ) -> int:
        """Each of these sessions, so many times or as often as there is room for; returns how often."""
        if not sessions:
            return rounds
        granted = self._take(rounds * len(sessions), now, use, of=len(sessions)) // len(sessions)
        self._context.schedule.confirm(sessions, now, rounds=granted)
        return granted

    def _take(self, probes: int, now: int, use: Use, *, of: int = 1) -> int:
        """What the node's allowance grants of these; the pair's own budget is charged with that."""
        granted = self._context.allowance.take(probes, now, use, self._share, of=of)
        self._budget -= granted
        return granted

    def _has_room(self, now: int, use: Use) -> bool:
        """Whether the node's allowance has room for a whole slice: half of one decides nothing."""
        return self._context.allowance.has_room(SLICE, now, use, self._share)
