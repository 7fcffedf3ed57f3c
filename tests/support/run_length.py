"""How seldom and how soon the sequential test trips: what its thresholds are chosen by."""

from __future__ import annotations

from meshwatchd.core.session.cusum import ARMS, TRIP_NATS, Arm

_NEGLIGIBLE = 1e-6
"""Share of the trips that excursions which have lasted for long may still add."""


def probes_to_trip(loss_ratio: float) -> float:
    """Mean number of probes until the first arm trips, from a sum of zero; an upper bound within a few percent.

    Args:
        loss_ratio: share of probes that are missed, each independently of the others; above 0, at most 1.
    """
    return min(mean_run_length(arm, loss_ratio) for arm in ARMS)


def probes_between_false_trips(loss_ratio: float) -> float:
    """Mean number of probes between two trips of any arm at a loss that is no fault; a lower bound.

    Arms trip together as often as each alone at most; where one of them dominates, the bound is exact.

    Args:
        loss_ratio: as in `probes_to_trip`.
    """
    return 1 / sum(1 / mean_run_length(arm, loss_ratio) for arm in ARMS)


def mean_run_length(arm: Arm, loss_ratio: float) -> float:
    """Mean number of probes until one arm trips: exact, by the renewal argument (Page 1954).

    Each time the sum is at zero everything begins anew. So the mean is that of the probes between two such instants,
    over the probability that it trips between them. Within such an excursion the sum follows from how many misses and
    probes it holds, so a few dozen states at each step are the whole chain.
    """
    cycle_probes, trip_ratio = 1.0, 0.0
    states = {1: loss_ratio}
    probes = 1
    while sum(states.values()) > _NEGLIGIBLE * trip_ratio:
        cycle_probes += sum(states.values())
        probes += 1
        following: dict[int, float] = {}
        for misses, weight in states.items():
            if (misses + 1) * arm.miss_nats + (probes - misses - 1) * arm.hit_nats >= TRIP_NATS:
                trip_ratio += weight * loss_ratio
            else:
                following[misses + 1] = following.get(misses + 1, 0.0) + weight * loss_ratio
            if misses * arm.miss_nats + (probes - misses) * arm.hit_nats > 0:
                following[misses] = following.get(misses, 0.0) + weight * (1 - loss_ratio)
        states = following
    return cycle_probes / trip_ratio
