"""What the policy is asked about: where the traffic of a pair of locations is, and what speaks for which path."""

from __future__ import annotations

from collections.abc import Mapping

from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.policy import Situation
from meshwatchd.model.policy_state import OrderKind


def is_content(context: PairContext, now: int) -> bool:
    """Whether traffic is at home and nothing speaks for a move: what `decide` comes to then, for much less.

    Asked for each pair ten times a second for as long as all is well.
    """
    active, watch = context.mover.active, context.watch
    return (
        active is watch.primary
        and not watch.group(active).is_down
        and not context.settings.mtu.move
        and context.orders.about(OrderKind.PIN, watch.remote) is None
        and not context.is_drained(active, now)
    )


def describe(context: PairContext, banned: Mapping[int, int], now: int) -> Situation:
    """The situation of a pair; `banned` has until when paths are not to be tried again, by number."""
    watch, mover, active = context.watch, context.mover, context.mover.active
    local = context.planner.topology.local.location
    pin = context.orders.about(OrderKind.PIN, watch.remote)
    pinned = None if pin is None else context.ordered(pin)
    return Situation(
        paths=tuple([path for path in watch.paths if banned.get(path.number, 0) <= now]),
        group=watch.group,
        active=active,
        home=pinned or watch.primary,
        moved_at=mover.moved_at,
        is_pinned=mover.is_pinned,
        is_revertive=pinned is not None or context.settings.policy.revertive,
        wait_to_restore_ns=context.settings.policy.wait_to_restore,
        is_drained=lambda path: context.is_drained(path, now),
        is_suppressed=lambda path: context.damper.is_suppressed(path, now),
        shares_relay=lambda path: path.relay_in(local) == active.relay_in(local),
        is_cramped=context.is_cramped,
        moves_for_size=context.settings.mtu.move and now >= context.sizes.settled_at,
        pause=context.orders.about(OrderKind.PAUSE, watch.remote),
        is_unsettled=context.is_unsettled(now),
        is_vouched_for=lambda: watch.is_vouched_for(active, context.views, now),
        storm_since=context.storm.began(now),
    )
