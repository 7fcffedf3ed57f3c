"""A node's own way around its leg to the leader, where one works: taken, watched, and left when the leg is well.

It is this node's matter alone (`model.detour`): no relay has to agree, no peer follows, and pairs of locations know
nothing of it. The leg and each way around it are compared by what they carry to the same nodes (`leg_watch`):

    over the leg   dead         and answered by a detour since the doubt began     the detour is taken
                   dead         and by no detour                                   nothing: it is not the leg
    detour in use  dead         over the leg answered                              the leg, at once
                   dead         another detour answers                             that one
    its relay is drained        over the leg, or by another detour, answered since the leg, or that one
    over the leg   good for the wait to restore, the hold-down over, a last burst answered       the leg
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from meshwatchd.core.failover.damping import Damper
from meshwatchd.core.failover.leg_watch import LegParts, LegWatch, tally
from meshwatchd.core.failover.policy import AGENT_PATIENCE_NS
from meshwatchd.core.routes.planner import Planner
from meshwatchd.core.session.session import Outcome, Session
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.detour import DETOUR_PAIR, Detour
from meshwatchd.model.failover_facts import DetourLeft, DetourTaken, PlanRefused
from meshwatchd.model.outputs import ApplySwitch, ObjectReasserted, Output
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.policy_state import OrderKind
from meshwatchd.model.settings import MINUTE, MS, SECOND, Mode

BUSY_NS, REST_NS = 5 * MS, 1 * SECOND
"""Between two looks while something is in doubt, and while nothing is."""

SEEK_NS = 2 * SECOND
"""For so long a leg that is down keeps this node busy; then the regular probes tell when a way around it answers."""

PROOF_ROUNDS, PROOF_NS = 16, 1500 * MS
"""The last burst before the leg is taken again: sixteen answers come from a leg of which half is broken once in 65 000
times. After so long what it has come to is judged; what had no port to leave from yet, since doubt had used them up,
is asked then.
"""

VERIFY_DELAY_NS, VERIFY_NS, VERIFY_ROUNDS = 15 * MS, 300 * MS, 4
"""Probes that follow real traffic are sent so long after a detour was taken, and are judged so long after it."""

ADOPT_NS = 10 * SECOND
"""Likewise of a detour that an earlier process has taken: sessions have had their first answers by then."""

MAX_REASSERTS = 5
"""In a minute; see `switchover`."""


class _Change(NamedTuple):
    target: Detour | None
    because: tuple[str, ...]


class LegDetour:
    """The leg of one node.

    Attributes:
        in_use: the detour that this node's traffic takes; None for the leg.
    """

    def __init__(self, parts: LegParts) -> None:
        self.in_use: Detour | None = None
        self._parts = parts
        self._planner: Planner | None = None
        self._is_enforcing = False
        self._watch = LegWatch(parts)
        self._damper = Damper(parts.settings.policy)
        self._change: _Change | None = None
        self._is_verified = False
        self._asked: tuple[Session, ...] = ()
        self._moved_at = self._drained_at = self._verify_at = self._next = 0
        self._proof_at = self._proof_asked_at = 0
        self._banned: dict[tuple[str, ...], int] = {}
        self._reasserts: deque[int] = deque(maxlen=MAX_REASSERTS)

    # --- the mesh ---

    @property
    def is_switching(self) -> bool:
        """Whether the kernel is being asked for a change."""
        return self._change is not None

    def is_carrying(self) -> bool:
        """Whether traffic goes by a detour, and what follows real traffic has arrived."""
        return self.in_use is not None and self._is_verified and not self._watch.group(self.in_use).is_down

    def describe(self) -> str:
        """Where this node's traffic goes in place of its leg; empty where it does not."""
        detour = self.in_use
        return "" if detour is None else f"by {detour.relay}, via {detour.via} on {detour.device}"

    def numbers(self) -> tuple[int, ...]:
        """What stands for a path in the sessions of the detour that carries this node's traffic."""
        return () if self.in_use is None else (self.in_use.number,)

    def rules(self) -> tuple[Rule, ...]:
        """What of ours has to be in the kernel for it."""
        return () if self.in_use is None or self._planner is None else (self._planner.detour(self.in_use),)

    def change(self, planner: Planner, now: int, *, is_enforcing: bool) -> Iterator[Output]:
        """Go on in another mesh: a detour that is the same there is kept, any other is left at once."""
        had, was = self.rules(), self.in_use
        self._planner, self._is_enforcing = planner, is_enforcing
        self._watch.select(planner)
        self.in_use = next((each for each in planner.topology.detours if was and each.key == was.key), None)
        self._change, self._next, self._proof_at = None, now, 0
        if was is not None and self.in_use is None:
            yield self._left(was, had, ("the mesh has no such way any more",))
        switch = Switch.between(had, self.rules())
        if is_enforcing and switch != Switch():
            yield ApplySwitch(pair=DETOUR_PAIR, generation=0, switch=switch)

    def adopt(self, rules: Iterable[Rule], now: int) -> None:
        """Take over the rule of an earlier process: a restart moves no traffic."""
        assert self._planner is not None, "adoption follows planning"
        found = (self._planner.detour_of(rule) for rule in rules)
        self.in_use = next((each for each in found if each is not None), None)
        self._moved_at = now
        self._verify_at = now + ADOPT_NS if self.in_use is not None else 0

    # --- operators ---

    def way_home(self) -> tuple[str, ...]:
        """The operations that have traffic take the leg again."""
        return self._render(Switch(delete=self.rules()))

    def why_stay(self) -> str:
        """Why traffic cannot be brought back to the leg now, or nothing."""
        if self.is_switching:
            return "a move is under way; try again in a second"
        leg = self._watch.leg
        is_well = leg.is_good and not leg.is_suspect
        return "" if is_well else f"the leg to {self._watch.leader} is not good now; a broken path is never used"

    def go_home(self, why: str) -> Iterator[Output]:
        """Take the leg again, which is good, without any wait."""
        yield from self._begin(_Change(None, (why,)))

    # --- what is seen ---

    def deadline(self) -> int | None:
        """When `review` has something to do; None where there is no way around."""
        has_way = self._planner is not None and bool(self._planner.topology.detours)
        return self._next if has_way or self.in_use is not None else None

    def observe(self, session: Session, outcome: Outcome, now: int) -> None:
        """One of the node's sessions had an outcome."""
        if self._watch.observe(session, outcome, now):
            self._next = now

    def stalled(self, now: int) -> None:
        """The evidence was gathered by a process that was not running: drop it."""
        self._watch.forget(now)
        self._proof_at = 0

    def review(self, now: int) -> Iterator[Output]:
        """Look at the leg and at what goes around it."""
        is_in_doubt = self._watch.is_in_doubt(now) and not self._watch.leg.is_down
        is_busy = bool(self._proof_at) or is_in_doubt or self._is_seeking(now) or self._is_shaken(now)
        self._next = now + (BUSY_NS if is_busy else REST_NS)
        if self._verify_at:
            self._next = min(self._next, max(now, self._verify_at))
        if self._change is not None or self._parts.settings.daemon.mode is not Mode.ENFORCE:
            return
        if self.in_use is None:
            yield from self._look_for_way(now)
        else:
            yield from self._look_after(self.in_use, now)

    def _is_seeking(self, now: int) -> bool:
        """Whether the leg has been condemned lately and traffic is on it still."""
        return self.in_use is None and _has_just_died(self._watch.leg, now)

    def _is_shaken(self, now: int) -> bool:
        """Whether anything speaks against the detour in use, or it has been condemned or drained lately."""
        if self._drained_at and now - self._drained_at <= SEEK_NS:
            return True
        group = None if self.in_use is None else self._watch.group(self.in_use)
        return group is not None and (group.is_suspect or _has_just_died(group, now))

    # --- on the leg ---

    def _look_for_way(self, now: int) -> Iterator[Output]:
        leg = self._watch.leg
        self._watch.note_absence(now)
        if not self._is_enforcing or not (leg.is_down or self._watch.is_in_doubt(now)):
            return
        self._watch.press(now)
        if not leg.is_down or leg.is_reviving or self._is_held(now):
            return
        since = leg.suspect_since or leg.down_since
        if self._parts.unrest.bits(now) and now - since < AGENT_PATIENCE_NS:
            return
        target = self._find(since, now)
        if target is not None:
            because = (
                f"nothing that goes to other locations over the leg to {self._watch.leader} is answered",
                f"what goes there by {target.relay} and {target.device} is",
            )
            yield from self._begin(_Change(target, because))

    def _find(self, since: int, now: int) -> Detour | None:
        """The first way around that has answered since then."""
        assert self._planner is not None, "there are sessions"
        for detour in self._planner.topology.detours:
            group = self._watch.group(detour)
            is_out = self._parts.views.is_admin_down(detour.relay, now) or now < self._banned.get(detour.key, 0)
            is_well = group.is_good and not group.is_suspect and group.verified_since(since)
            if detour != self.in_use and not is_out and is_well:
                return detour
        return None

    def _is_paused(self) -> bool:
        return any(order.kind is OrderKind.PAUSE for order in self._parts.orders.standing)

    def _is_held(self, now: int) -> bool:
        return self._is_paused() or bool(self._damper.exhausted(now))

    # --- around it ---

    def _look_after(self, detour: Detour, now: int) -> Iterator[Output]:
        group = self._watch.group(detour)
        if self._verify_at and now >= self._verify_at:
            yield from self._verify(detour, now)
        if self._change is not None:
            return
        if group.is_suspect:
            self._watch.press(now, group)
        is_drained = self._parts.views.is_admin_down(detour.relay, now)
        self._drained_at = (self._drained_at or now) if is_drained else 0
        if (group.is_down or is_drained) and not self._is_paused():
            yield from self._leave(detour, now)
        if not (self.is_switching or group.is_down):
            yield from self._go_home(now)

    def _leave(self, detour: Detour, now: int) -> Iterator[Output]:
        """Take what answers in place of a detour that is dead, or whose relay is about to go."""
        leg, group = self._watch.leg, self._watch.group(detour)
        since, why = self._drained_at, "is being drained"
        if group.is_down:
            since, why = group.suspect_since or group.down_since, "does not answer"
        if group.is_down or now - since <= SEEK_NS:
            self._watch.press(now, group)
        # Without a rule of ours traffic is where the mesh has it: no budget is in the way of that.
        if leg.is_good and not leg.is_suspect and (group.is_down or leg.verified_since(since)):
            yield from self._begin(_Change(None, (f"{detour.relay} {why}, the leg answers",)))
            return
        other = self._find(since, now)
        if other is not None and self._is_enforcing and not self._is_held(now):
            yield from self._begin(_Change(other, (f"{detour.relay} {why}, {other.relay} answers",)))

    def _verify(self, detour: Detour, now: int) -> Iterator[Output]:
        """What follows real traffic has to arrive: else the rule moves nothing, or moves it wrongly."""
        self._verify_at = 0
        hits, misses = tally(self._watch.effective, self._moved_at + VERIFY_DELAY_NS)
        self._is_verified = hits > 0
        if not hits and misses >= VERIFY_ROUNDS - 1:
            self._banned[detour.key] = now + self._damper.hold_down_ns(now)
            because = (f"none of {misses} probes that follow real traffic arrived",)
            yield from self._begin(_Change(None, because))

    def _go_home(self, now: int) -> Iterator[Output]:
        leg, policy = self._watch.leg, self._parts.settings.policy
        is_due = leg.is_good and not leg.is_suspect and policy.revertive and not self._is_held(now)
        earliest = max(self._moved_at + self._damper.hold_down_ns(now), leg.good_since + policy.wait_to_restore)
        if not is_due or now < earliest or self._parts.unrest.bits(now):
            self._proof_at = 0
        elif not self._proof_at:
            # A node that answers by no way, as a dead leader of another location, says nothing of the leg.
            asked = tuple(leg.live())
            if self._watch.ask_all(asked, now, rounds=PROOF_ROUNDS):
                self._asked, self._proof_at, self._proof_asked_at, self._next = asked, now, now, now + BUSY_NS
        else:
            yield from self._prove(now)

    def _prove(self, now: int) -> Iterator[Output]:
        hits, misses = tally(self._asked, self._proof_at)
        wanted = PROOF_ROUNDS * len(self._asked)
        is_spoilt = misses * 8 > wanted
        if hits + misses < wanted and not is_spoilt:
            if now - self._proof_asked_at >= PROOF_NS:
                self._proof_asked_at = now
                self._watch.ask_all(
                    self._asked, now, rounds=math.ceil(PROOF_ROUNDS - (hits + misses) / len(self._asked))
                )
            return
        self._proof_at = 0
        if not is_spoilt:
            because = (
                f"the leg to {self._watch.leader} is well again",
                f"{hits} of {hits + misses} last probes were answered",
            )
            yield from self._begin(_Change(None, because))
        else:
            # Some of the new flows die still: a group of few sessions, asked seldom, may call that good.
            self._moved_at = now

    # --- the kernel ---

    def _begin(self, change: _Change) -> Iterator[Output]:
        assert self._planner is not None, "there are detours"
        self._change = change
        wanted = () if change.target is None else (self._planner.detour(change.target),)
        switch = Switch.between(self.rules(), wanted)
        yield ApplySwitch(pair=DETOUR_PAIR, generation=0, switch=switch)

    def switched(self, now: int) -> Iterator[Output]:
        """The kernel took a change."""
        change, self._change = self._change, None
        if change is None:
            return
        was, had = self.in_use, self.rules()
        self.in_use, self._moved_at, self._next = change.target, now, now
        self._proof_at = self._verify_at = self._drained_at = 0
        self._is_verified = False
        if change.target is None:
            self._damper.record(now, is_failover=False)
            if was is not None:
                yield self._left(was, had, change.because)
            return
        self._damper.record(now, is_failover=True, dice=self._parts.rng.random())
        self._verify_at = now + VERIFY_NS
        effective = self._watch.effective
        at = self._parts.allowance.book(VERIFY_ROUNDS * len(effective), now)
        self._parts.schedule.confirm(effective, at + VERIFY_DELAY_NS, rounds=VERIFY_ROUNDS)
        yield DetourTaken(
            relay=change.target.relay,
            via=change.target.via,
            device=change.target.device,
            operations=self._render(Switch.between(had, self.rules())),
            because=change.because,
        )

    def refused(self, error: str, now: int) -> Iterator[Output]:
        """The kernel did not take it; traffic is where it was."""
        change, self._change = self._change, None
        if change is None:
            return
        if change.target is not None:
            self._banned[change.target.key] = now + self._damper.hold_down_ns(now)
        self._next = now + REST_NS
        yield PlanRefused(pair=-1, reason=error)

    def compare(self, rules: Iterable[Rule], now: int) -> Iterator[Output]:
        """What the kernel shows: the rule in use is put back, up to MAX_REASSERTS times in a minute."""
        if self._change is not None or not self._is_enforcing:
            return
        held = frozenset(rules)
        yield from self._put_back(tuple(rule for rule in self.rules() if rule not in held), now)

    def reassert(self, what: str, now: int) -> Iterator[Output]:
        """Somebody removed a rule; see `compare`."""
        if self._change is None and self._is_enforcing:
            yield from self._put_back(tuple(rule for rule in self.rules() if rule.render() in what), now)

    def _put_back(self, lost: tuple[Rule, ...], now: int) -> Iterator[Output]:
        while self._reasserts and now - self._reasserts[0] >= MINUTE:
            self._reasserts.popleft()
        if lost and len(self._reasserts) < MAX_REASSERTS:
            self._reasserts.append(now)
            yield ObjectReasserted(what=lost[0].render())
            yield ApplySwitch(pair=DETOUR_PAIR, generation=0, switch=Switch(add=lost))

    def _left(self, was: Detour, had: tuple[Rule, ...], because: tuple[str, ...]) -> DetourLeft:
        return DetourLeft(relay=was.relay, operations=self._render(Switch(delete=had)), because=because)

    def _render(self, switch: Switch) -> tuple[str, ...]:
        return switch.render(self._parts.settings.kernel.protocol)


def _has_just_died(group: Group, now: int) -> bool:
    return group.is_down and now - group.down_since <= SEEK_NS
