"""What would be done, said by a daemon that may change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.model.failover_facts import FailoverAdvised, FailoverHeld
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.outputs import Output
from meshwatchd.model.settings import SECOND, Mode

ADVICE_DELAY_NS = 1 * SECOND
"""Advice waits that long for a verdict: without a culprit it might lead over the culprit."""

ADVICE_PAUSE_NS = 60 * SECOND
"""Advice is repeated no more often than this while it stays the same."""


def advise(context: PairContext, now: int) -> Iterator[Output]:
    """Say why nothing moves and, in mode advise, what would: the first path without the culprit, as none is probed."""
    watch, mover, verdict = context.watch, context.mover, context.verdicts.current
    down_since = watch.group(mover.active).down_since
    if not down_since or now < mover.advised_until:
        return
    is_named = verdict.fault not in (FaultCode.NONE, FaultCode.UNDETERMINED)
    if not is_named and now - down_since < ADVICE_DELAY_NS:
        return
    mover.advised_until = now + ADVICE_PAUSE_NS
    mode = context.settings.daemon.mode
    reason = f"daemon.mode is {mode}: nothing is changed"
    if mode is Mode.ENFORCE:
        reason = "what `meshwatchctl status` names is in the place of this daemon's rules: nothing is changed"
    yield FailoverHeld(pair=watch.index, reason=reason)
    target = next((path for path in watch.paths if not path.is_primary and verdict.culprit not in path.relays), None)
    if mode is Mode.ADVISE and target is not None and not _is_own_way(context, now, is_named=is_named):
        yield FailoverAdvised(
            pair=watch.index,
            to_rank=target.rank,
            operations=context.planner.operations(mover.active, target),
            because=verdict.because,
        )


def _is_own_way(context: PairContext, now: int, *, is_named: bool) -> bool:
    """Whether this node alone misses its leader: no path is to blame, and in mode enforce nothing would be moved.

    Until the fault has a name the neighbours' word says so.
    """
    verdict = context.verdicts.current
    is_cut_off = verdict.fault is FaultCode.NODE_UNREACHABLE and verdict.culprit == context.local_node
    return is_cut_off or (not is_named and context.watch.is_leader_vouched_for(context.views, now))
