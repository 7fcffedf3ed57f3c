"""From the first suspicious miss to the confirm burst.

A burst asks three questions at once: do fresh flows over the path in use really die, which layer is it, and is there
a path that answers now? Without the third a standby would be judged by probes older than the fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.context import PairContext
from meshwatchd.core.mover import MoveState
from meshwatchd.core.session import SessionState
from meshwatchd.model.outputs import Output, SessionSuspected, SuspicionCleared
from meshwatchd.model.settings import MS

BURST_PAUSE_NS = 250 * MS
"""Shortest time between two bursts: with a few percent of everyday loss bursts must not eat the packet budget."""

NEW_SUSPICION_PAUSE_NS = 60 * MS
"""A path that comes back under suspicion at once is more than everyday loss; this keeps bursts from overlapping."""

HARD_ROUNDS = 4
"""Probes of each session of the suspected group: with three sessions enough to trip the test in one round trip."""

LIGHT_ROUNDS = 3
"""Probes of every other session that matters: the fewest that tell dead from unlucky."""


class Suspicion:
    """Starts bursts, and tells when suspicion comes and goes."""

    def __init__(self, context: PairContext) -> None:
        self._context = context
        self._last_burst = -BURST_PAUSE_NS
        self._last_look = -BURST_PAUSE_NS
        self.is_raised = False

    def review(self, now: int) -> Iterator[Output]:
        """Look at the group of the path in use."""
        active = self._context.mover.active
        group = self._context.watch.group(active)
        if group.is_suspect and not self.is_raised:
            first = max(group.sessions, key=lambda session: session.cusum.nats)
            yield SessionSuspected(
                peer=first.plan.peer,
                layer=first.plan.layer,
                path=active.number,
                log_likelihood=round(group.cusum.nats, 2),
            )
        elif self.is_raised and not group.is_suspect and not group.is_down:
            yield SuspicionCleared(path=active.number)
        self.is_raised = group.is_suspect
        if group.is_suspect or self._context.mover.state is MoveState.PROPOSING:
            self.confirm(now, pause_ns=BURST_PAUSE_NS)
        elif any(session.state is SessionState.SUSPECT for session in self._context.watch.segments):
            self._look_at_segments(now)

    def _look_at_segments(self, now: int) -> None:
        """A leader whose overlay dies may still see its own path as fine: the others need its word soon."""
        if now - self._last_look >= BURST_PAUSE_NS:
            self._last_look = now
            self._context.schedule.confirm(self._context.watch.segments, now, rounds=LIGHT_ROUNDS)

    def confirm(self, now: int, *, pause_ns: int) -> None:
        """Burst, unless the last burst is younger than the pause; a new suspicion needs probes younger than itself."""
        active = self._context.watch.group(self._context.mover.active)
        if active.suspect_since > self._last_burst:
            pause_ns = min(pause_ns, NEW_SUSPICION_PAUSE_NS)
        if now - self._last_burst < pause_ns:
            return
        self._last_burst = now
        hard, light = self._context.watch.suspect_sessions(self._context.mover.active)
        self._context.schedule.confirm(hard, now, rounds=HARD_ROUNDS)
        self._context.schedule.confirm(light, now, rounds=LIGHT_ROUNDS)
