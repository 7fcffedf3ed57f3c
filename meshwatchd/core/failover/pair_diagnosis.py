"""When the fault of a pair of locations is named, and by which evidence."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.diagnosis.classifier import Evidence, classify
from meshwatchd.core.failover.attention import Attention
from meshwatchd.core.failover.confirm_burst import ConfirmBurst
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.pmtu.verdict import SizeFinding, judge
from meshwatchd.model.faults import FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import Output, VerdictChanged
from meshwatchd.model.settings import MS, SECOND

START_GRACE_NS = 10 * SECOND
"""A standby that has not answered by then is reported; before, links are still shaking hands."""

DIAGNOSIS_GAP_NS = 30 * MS
"""Between two attempts to name what is wrong."""


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
        return watch.evidence(
            active=active,
            views=context.views,
            now=now,
            is_settled=is_settled,
            missing_standbys=missing,
            has_good_standby=not standbys or any(watch.group(path).may_carry(since) for path in good),
            sizes=sizes,
            control=context.control(watch.remote),
        )

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
        relays = evidence.relay_of_missing if found.fault is FaultCode.STANDBY_DOWN else context.watch.primary.relays
        verdict = context.name(found, relays)
        if verdict.fault is FaultCode.UNDETERMINED:
            self._suspicion.explain(now)
        yield from self._state(verdict, now)

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
