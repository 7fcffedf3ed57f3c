"""From sessions to legs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.legs import is_lossy, leg
from meshwatchd.core.session.cusum import MISS_NATS

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN


def _counting(hits, misses, *, nats=0.0, is_proven=True):
    return SimpleNamespace(since=lambda _: (hits, misses), cusum=SimpleNamespace(nats=nats), is_proven=is_proven)


@pytest.mark.parametrize(
    ("hits", "misses", "expected"),
    [
        *[(0, 0, UNKNOWN), (1, 0, UNKNOWN), (2, 0, UNKNOWN), (3, 0, ALIVE), (0, 1, UNKNOWN), (0, 2, DEAD)],
        *[(1, 2, DEAD), (2, 2, UNKNOWN), (3, 1, UNKNOWN), (4, 1, ALIVE), (7, 2, UNKNOWN), (8, 2, ALIVE)],
        # Half of the flows remembered, a quarter of them dead, everyday loss.
        *[(10, 9, DEAD), (15, 5, UNKNOWN), (18, 2, ALIVE)],
    ],
)
def test_while_suspected_a_leg_needs_more_than_luck(hits, misses, expected):
    """One of six new flows survives the fault: three answers on four probes each are no accident."""
    assert expected is leg((_counting(hits, misses),), 1)


def test_sessions_of_a_leg_are_counted_together():
    """Two members, three answers in all; a session that was never up has no say."""
    assert ALIVE is leg((_counting(2, 0), _counting(1, 0)), 1)
    assert UNKNOWN is leg((_counting(0, 9, is_proven=False),), 1)


@pytest.mark.parametrize(
    ("nats", "expected"),
    [([], UNKNOWN), ([0.0, 30.0], ALIVE), ([3 * MISS_NATS] * 2, DEAD), ([1.5 * MISS_NATS] * 2, UNKNOWN)],
)
def test_with_nothing_suspected_standing_states_decide(nats, expected):
    """One calm session makes a leg alive, all of them disturbed make it dead."""
    assert expected is leg(tuple(_counting(0, 0, nats=value) for value in nats), 0)


@pytest.mark.parametrize(
    ("hits", "misses", "expected"),
    [
        (0, 0, False),
        (0, 1, True),
        (5, 1, True),
        (6, 1, False),
        (32, 0, False),
        (29, 3, False),
        (27, 5, False),
        (23, 9, True),
    ],
)
def test_a_leg_is_lossy_where_its_outcomes_speak_more_for_a_broken_quarter_than_for_everyday_loss(
    hits, misses, expected
):
    """Of 32 probes three are missed where 5 % of all packets are lost, nine where 15 % are."""
    assert expected is is_lossy((_counting(hits, misses),), 1)
    assert not is_lossy((_counting(hits, misses, is_proven=False),), 1)
