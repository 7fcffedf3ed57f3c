"""When the fault of a pair of locations is named, and by which evidence."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import Evidence, Leg, classify
from meshwatchd.core.diagnosis.out_of_service import without
from meshwatchd.core.diagnosis.path_in_use import loses_what_passes
from meshwatchd.core.diagnosis.verdict_hold import SETTLE_NS
from meshwatchd.core.failover.attention import Attention
from meshwatchd.core.failover.confirm_burst import ConfirmBurst
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.policy import paused_by
from meshwatchd.core.failover.state_machine import PATIENCE_NS
from meshwatchd.core.pmtu.verdict import SizeFinding, judge
from meshwatchd.model.faults import FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import Output, VerdictChanged
from meshwatchd.model.policy_state import OrderKind
from meshwatchd.model.settings import MS, SECOND

START_GRACE_NS = 10 * SECOND
"""A standby that has not answered by then is reported; before, links are still shaking hands."""

DIAGNOSIS_GAP_NS = 30 * MS
"""Between two attempts to name what is wrong."""

MOVE_NS = PATIENCE_NS - SETTLE_NS
"""A standby in use that is down for so long is not about to be left: with the time for which a verdict without a name
settles, a proposal to leave it stands no longer."""


class PairDiagnosis:
    """Classifies the evidence, and tells a verdict that has changed.

    A name is for people, and costs more than everything else of a review: in a burst there is one a millisecond.
    Traffic moves without it. What a path was condemned for is looked at once more at that instant.

    Attributes:
        started: when the primary path began to be watched.
        again_at: when a diagnosis is due that was put off; 0 for none.
    """

    def __init__(self, context: PairContext, suspicion: ConfirmBurst, attention: Attention, now: int) -> None:
        self._context, self._suspicion, self._attention = context, suspicion, attention
        self.started = now
        self.again_at = 0
        self._diagnosed_at, self._diagnosed_down = -DIAGNOSIS_GAP_NS, 0
        # When the primary path went down that what is stated was said of.
        self._named_down = 0

    def is_settled(self, now: int) -> bool:
        """Whether what has not answered since the start is missing."""
        return now - self.started > START_GRACE_NS

    def review(self, now: int) -> Iterator[Output]:
        """Name what is wrong, if that is due."""
        context, self.again_at = self._context, 0
        if self._is_left_alone(now):
            # What was said stands; its cause may be found later, here or by others.
            yield from self._state(context.name(context.verdicts.current, context.watch.primary.relays), now)
            return
        down_since = context.watch.group(context.mover.active).down_since
        due = self._diagnosed_at + DIAGNOSIS_GAP_NS
        if now < due and down_since == self._diagnosed_down:
            self.again_at = due
            return
        self._diagnosed_at, self._diagnosed_down = now, down_since
        yield from self._diagnose(now)

    def evidence(self, now: int, sizes: SizeFinding | None = None) -> Evidence:
        """What the classifier is asked about, as of now."""
        context, watch, active = self._context, self._context.watch, self._context.mover.active
        watched = [path for path in watch.paths if path is not active and watch.group(path).sessions]
        standbys = [path for path in watched if not context.is_drained(path, now)]
        good = [path for path in standbys if watch.group(path).is_good]
        since = watch.group(active).suspect_since
        is_settled = self.is_settled(now)
        silent = [path for path in standbys if is_settled and watch.group(path).is_missing]
        lone = {session.plan.peer for path in watched for session in watch.group(path).isolated()} if silent else set()
        missing = tuple(path.relays for path in silent if not watch.has_lone_silence(path, lone))
        seen = watch.evidence(
            active=active,
            views=context.views,
            now=now,
            is_settled=is_settled,
            missing_standbys=missing,
            has_good_standby=not standbys or any(watch.group(path).may_carry(since) for path in good),
            sizes=sizes,
            control=context.control(watch.remote),
        )
        if not watch.group(active).is_down:
            # Traffic that is lost may be lost at whatever it was left on.
            seen = without(seen, lambda name: context.is_excused(name, now))
        if active is watch.primary and context.is_detoured():
            seen = replace(seen, is_active_down=False)
        is_lost = self._is_lost_in_use(now)
        return replace(seen, lost_in_use=active.relays, kept_by=self._kept_by()) if is_lost else seen

    def _is_lost_in_use(self, now: int) -> bool:
        """Whether traffic stays on a standby that is down, while the primary path answers."""
        watch, mover = self._context.watch, self._context.mover
        in_use = watch.group(mover.active)
        if mover.active is watch.primary or not in_use.is_down:
            return False
        # Whoever has just followed a move, or found it in the kernel, may have seen that path down for long.
        is_moving = now - max(in_use.down_since, mover.moved_at) < MOVE_NS
        return not is_moving and loses_what_passes(in_use, watch.fresh)

    def _kept_by(self) -> str:
        """Which order keeps traffic where it is; those of other nodes are not known here."""
        context = self._context
        pause, pin = (context.orders.about(kind, context.watch.remote) for kind in (OrderKind.PAUSE, OrderKind.PIN))
        if pause is not None:
            return f"no traffic is moved: {paused_by(pause)}"
        if pin is not None and context.ordered(pin) is context.mover.active:
            return f"traffic is pinned to it by {pin.name}"
        return "an operator has chosen it" if context.mover.is_pinned else ""

    def _is_left_alone(self, now: int) -> bool:
        """Whether the primary path is broken, traffic is well elsewhere and nobody looks: what it was called stands."""
        watch, context = self._context.watch, self._context
        left = watch.group(watch.primary)
        is_left = left.is_down and not watch.group(context.mover.active).is_down
        is_named = context.verdicts.current.fault is not FaultCode.NONE and self._named_down == left.down_since
        return is_left and is_named and not self._attention.has_looked(now)

    def _diagnose(self, now: int) -> Iterator[Output]:
        context = self._context
        sizes = judge(context.sizes, context.planner.topology, context.mover.active, now)
        found = self._excuse(classify(evidence := self.evidence(now, sizes)), now)
        verdict = context.name(found, self._relays_of(found, evidence))
        if verdict.fault is FaultCode.UNDETERMINED:
            self._suspicion.explain(now)
        yield from self._state(verdict, now)

    def _relays_of(self, found: Verdict, evidence: Evidence) -> Container[NodeName]:
        """The relays of the path that a verdict is about."""
        if found.fault is FaultCode.STANDBY_DOWN:
            return evidence.relay_of_missing
        is_about_use = evidence.path is Leg.ALIVE and found.fault is FaultCode.UNDETERMINED
        return evidence.lost_in_use if is_about_use else self._context.watch.primary.relays

    def _state(self, verdict: Verdict, now: int) -> Iterator[Output]:
        if verdict.fault is not FaultCode.NONE and self._context.is_unsettled(now):
            return
        changed = self._context.verdicts.update(verdict, now)
        if self._context.verdicts.current.is_same_fault(verdict):
            self._named_down = self._context.watch.group(self._context.watch.primary).down_since
        if changed is not None:
            yield VerdictChanged(verdict=changed[0], previous=changed[1])

    def _excuse(self, verdict: Verdict, now: int) -> Verdict:
        """What is taken out of service on purpose is not at fault, unless traffic is left on it."""
        watch = self._context.watch
        is_out = self._context.is_excused(verdict.culprit, now)
        if verdict.fault is FaultCode.NONE or not is_out or watch.group(self._context.mover.active).is_down:
            return verdict
        why = (f"{verdict.culprit} is drained: {verdict.fault} there is no fault",)
        return Verdict(fault=FaultCode.NONE, layer=Layer.SELF, severity=Severity.OK, pair=watch.index, because=why)
