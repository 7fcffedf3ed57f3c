"""Leaving a path that is no part of the mesh any more while traffic is still on it: make before break.

A change of the mesh may take away the very path a failover went to: one of its relays relays no more, or the
locations are numbered anew. The override in the kernel and everything it stands on (its table, its link)
are left as they are until something better is known to work:

    1. the same two relays over their new link, where the mesh still has that path
    2. the mesh's own path
    3. after PATIENCE_NS, any other path that answers

A path that carries nothing itself is no better than any. What answers may then be one that needs its number, link and
table, so that these are given up.

What an operator chose is kept through 1; wherever else traffic goes nobody has chosen, and it comes home by itself.
Where nothing may be changed, traffic stays where it is, and that is said.

Each node goes by its own probes and alone. That needs no agreement: delivery out of either path stands on every node
throughout, so packets arrive whichever way they were sent. Until all is settled the node does not speak of this pair's
moves and follows nobody: ranks mean different things to nodes that have not heard of the new mesh.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.routes.policy_rules import Legacy
from meshwatchd.core.session.session import Session
from meshwatchd.core.session.shared_risk_group import UNHEARD
from meshwatchd.model.failover_facts import FailoverHeld, OverrideRetired, PlanRefused
from meshwatchd.model.outputs import ApplySwitch, Output
from meshwatchd.model.plan import Switch
from meshwatchd.model.settings import SECOND
from meshwatchd.model.topology import Path, PathKey

PATIENCE_NS = 3 * SECOND
"""How long the mesh's own path may take to answer before another standby is good enough."""

RETRY_NS = 1 * SECOND
"""After the kernel has refused the change."""

SILENT_NS = 2 * SECOND
"""After so long without an answer to what goes where real traffic goes, the path in use carries nothing."""

LINGER_NS = 10 * SECOND
"""A link that was left stands for so long: other nodes may still send over it."""


class Parting:
    """One pair's way off a path that is gone.

    Args:
        key: of the path in use, in the mesh as it was; None where nobody knows which it is.
        legacy: what is in the kernel of it.

    Attributes:
        is_over: traffic is on a path of the mesh.
    """

    def __init__(self, context: PairContext, *, key: PathKey | None, legacy: Legacy, now: int) -> None:
        self.key = key
        self.legacy = legacy
        self.is_over = False
        self._context = context
        self._began = now
        self._next_try = now
        self._target: Path | None = None
        self._has_complained = False
        self._has_let_go = False

    @property
    def is_switching(self) -> bool:
        """Whether the kernel is being asked for a change."""
        return self._target is not None and not self.is_over

    def restart(self, now: int) -> None:
        """The mesh is another one again: what was found out about its paths is void."""
        self._began = now
        self._target = None

    def holds(self, now: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Devices and tables that have to stay as they are, while anything passes over them.

        What was given up once stays so: its place is another path's by then, and answers speak for that one.
        """
        self._has_let_go = self._has_let_go or (now - self._began >= PATIENCE_NS and self._is_dead(now))
        return ((), ()) if self._has_let_go else (self.legacy.devices, self.legacy.tables)

    def press(self, now: int) -> Iterator[Output]:
        """Leave as soon as there is somewhere to go."""
        if self._target is not None or now < self._next_try:
            return
        # A node that may put nothing probes no standby, so that none answers: it finds the primary path.
        if not self._context.may_take(self._context.watch.primary):
            yield from self._complain(now, "this daemon may change nothing")
            return
        target = self._find(now)
        if target is None:
            yield from self._complain(now, "no other answers")
            return
        self._target = target
        switch = self._switch(target)
        if switch == Switch():
            yield from self.applied(now)
        else:
            mover = self._context.mover
            yield ApplySwitch(pair=self._context.watch.index, generation=mover.generation, switch=switch)

    def applied(self, now: int) -> Iterator[Output]:
        """The kernel took the change, or there was nothing to change."""
        target = self._target
        if target is None:
            return
        mover = self._context.mover
        mover.active = mover.previous = target
        mover.moved_at = now
        mover.is_pinned = mover.is_pinned and target.key == self.key
        if target.is_primary and not self.legacy.rules:
            # Nothing of this node was on the path that is gone: a leader that it bypassed sees its own traffic arrive.
            mover.step_back()
        self.is_over = True
        yield OverrideRetired(
            pair=self._context.watch.index,
            to_rank=target.rank,
            operations=self._switch(target).render(self._context.settings.kernel.protocol),
            because=(
                f"the mesh has no path over {' and '.join(self.key[1]) if self.key else 'these relays'} as it was",
                f"the path over {' and '.join(target.relays)} answers",
            ),
        )

    def refused(self, error: str, now: int) -> Iterator[Output]:
        """The kernel did not take it; traffic is where it was."""
        self._target = None
        self._next_try = now + RETRY_NS
        yield PlanRefused(pair=self._context.watch.index, reason=error)

    def _switch(self, target: Path) -> Switch:
        return Switch.between(self.legacy.rules, self._context.planner.override(target))

    def _find(self, now: int) -> Path | None:
        paths = self._context.watch.paths
        others = [path for path in paths if not path.is_primary]
        is_late = now - self._began >= PATIENCE_NS
        wanted = [path for path in others if path.key == self.key] + [paths[0]] + (others if is_late else [])
        return next((path for path in wanted if self._is_bystander(path) or self._answers(path)), None)

    def _is_bystander(self, path: Path) -> bool:
        """Whether traffic of others is on this very path, and none of this node's: it has nothing to prove.

        A leader that is gone around would prove its own path, and its word for that would call the others back to it.
        """
        return path.key == self.key and not self._context.planner.probes_path(path)

    def _answers(self, path: Path) -> bool:
        """Whether this node's own probes, sent since the change, speak for a path.

        A standby that this node has no sessions on carries none of its traffic either.
        """
        group = self._context.watch.group(path)
        return group.is_good and not group.is_suspect and group.verified_since(self._began)

    def _is_dead(self, now: int) -> bool:
        """Whether nothing comes back from where this node's real traffic goes.

        A remote leader that the path bypasses has no say where others are asked: it answers by the primary path.
        """
        watch = self._context.watch
        is_bypassed = self.key is None or watch.remote_leader not in self.key[1]
        bypassed = watch.remote_leader if is_bypassed else None
        others = tuple(each for each in watch.effective if each.plan.peer != bypassed)
        asked = others or watch.effective
        return bool(asked) and not watch.is_deaf(now) and all(_is_silent(each, now) for each in asked)

    def _complain(self, now: int, why: str) -> Iterator[Output]:
        if now - self._began >= PATIENCE_NS and not self._has_complained:
            self._has_complained = True
            yield FailoverHeld(
                pair=self._context.watch.index,
                reason=f"the path in use is no part of the mesh any more, and {why}: traffic stays on it",
            )


def _is_silent(session: Session, now: int) -> bool:
    """Whether the latest probes are missed, and that by more than one: at rest seconds may pass between two."""
    first_loss = session.first_loss
    return bool(first_loss) and now - session.last_heard >= SILENT_NS and session.since(first_loss)[1] >= UNHEARD
