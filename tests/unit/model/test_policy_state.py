"""What is kept moves from one clock to another as a whole."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.model.policy_state import Order, OrderKind, PairRecord, PathPenalty, PolicyState


def test_every_instant_is_shifted_and_nothing_else():
    """A boot later all of it is as far away as before."""
    penalty = PathPenalty(relays=(NodeName("b1"), NodeName("a1")), penalty=7.0, at_ns=3)
    record = PairRecord(location="cloud", level=2, level_at_ns=5, jitter=0.5, actions=(1, 4), penalties=(penalty,))
    state = PolicyState(orders=(Order(kind=OrderKind.PIN, name="ann", until_ns=9, rank=1),), pairs=(record,))
    shifted = state.shifted(100)

    assert (109, 105, (101, 104), 103) == (
        shifted.orders[0].until_ns,
        shifted.pairs[0].level_at_ns,
        shifted.pairs[0].actions,
        shifted.pairs[0].penalties[0].at_ns,
    )
    assert state == shifted.shifted(-100)


def test_a_penalty_of_an_earlier_version_is_the_primary_paths():
    """It kept one for all paths with the same relays, and the primary path is what a penalty matters most to."""
    kept = b'{"relays":["b1","a1"],"penalty":7.0,"at_ns":3}'
    expected = PathPenalty(relays=(NodeName("b1"), NodeName("a1")), penalty=7.0, at_ns=3, is_primary=True)

    assert expected == msgspec.json.decode(kept, type=PathPenalty)
