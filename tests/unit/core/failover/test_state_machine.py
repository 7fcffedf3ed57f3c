"""The states of a move, and what it remembers."""

from __future__ import annotations

import pytest

from meshwatchd.core.failover.state_machine import (
    BACK_OFF_NS,
    NOTICE_REPEATS,
    PATIENCE_NS,
    TRANSITIONS,
    Intent,
    MoveInput,
    MoveState,
    MoveStateMachine,
)
from meshwatchd.model.events import CoordinationKind, Reason
from meshwatchd.model.generation import GENERATIONS, MOST_MISSED
from tests.support.lab_mesh import topology_of

IDLE, PROPOSING, APPLYING, VERIFYING = MoveState
PATHS = topology_of("a1").local_paths()


def _mover():
    return MoveStateMachine(PATHS[0], PATHS)


def _intent(rank=1, generation=1, reason=Reason.BROKEN):
    return Intent(target=PATHS[rank], generation=generation, nonce=5, began=0, reason=reason)


@pytest.mark.parametrize(
    ("state", "cause", "following"),
    [
        (IDLE, MoveInput.DECIDED, PROPOSING),
        (IDLE, MoveInput.AGREED, APPLYING),
        (PROPOSING, MoveInput.AGREED, APPLYING),
        (PROPOSING, MoveInput.ABANDONED, IDLE),
        (APPLYING, MoveInput.APPLIED, VERIFYING),
        (APPLYING, MoveInput.FAILED, IDLE),
        (VERIFYING, MoveInput.SETTLED, IDLE),
        (VERIFYING, MoveInput.DECIDED, PROPOSING),
        (VERIFYING, MoveInput.AGREED, APPLYING),
    ],
)
def test_each_transition_leads_where_the_table_says(state, cause, following):
    """The whole table."""
    mover = _mover()
    mover.state = state
    mover._move(cause)

    assert following is mover.state
    assert 9 == sum(len(row) for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "cause"), [(s, c) for s in MoveState for c in MoveInput if c not in TRANSITIONS[s]])
def test_every_other_transition_is_a_bug(state, cause):
    """Two moves at once would leave rules behind that nobody remembers."""
    mover = _mover()
    mover.state = state

    with pytest.raises(KeyError):
        mover._move(cause)


def test_a_proposal_counts_one_generation_further():
    """The generation itself moves only when the kernel has."""
    mover = _mover()
    mover.propose(PATHS[1], 5, Reason.BROKEN, 100)

    assert (PROPOSING, 1, 0) == (mover.state, mover.intent.generation, mover.generation)
    assert mover.is_patient(100 + PATIENCE_NS - 1)
    assert not mover.is_patient(100 + PATIENCE_NS)


def test_a_proposal_comes_after_every_generation_that_was_heard_of():
    """Who was started anew has forgotten its own; an older word changes nothing."""
    mover = _mover()
    mover.hear(7)
    mover.hear(3)

    assert 8 == mover.propose(mover.paths[1], 1, Reason.RESTORED, 0).generation


def test_after_the_last_generation_comes_the_first():
    """Moves go on; the one that was heard of is followed by the next."""
    mover = _mover()
    mover.recount(GENERATIONS)
    mover.hear(2)

    assert mover.is_newer(1, PATHS[0])
    assert not mover.is_newer(GENERATIONS - 1, PATHS[0])
    assert 3 == mover.propose(PATHS[1], 1, Reason.BROKEN, 0).generation


def test_a_generation_that_no_moves_explain_is_neither_heard_nor_followed():
    """However late it claims to be."""
    mover = _mover()
    mover.recount(5)
    for far in (GENERATIONS, GENERATIONS // 2, 6 + MOST_MISSED):
        mover.hear(far)
        assert not mover.is_newer(far, PATHS[0])

    assert 6 == mover.propose(PATHS[1], 1, Reason.BROKEN, 0).generation


def test_an_applied_move_remembers_where_it_came_from():
    """For the way back."""
    mover = _mover()
    mover.agree(_intent(generation=4))
    mover.applied(200, 150)

    assert (PATHS[1], PATHS[0], 4, 200, 350) == (
        mover.active,
        mover.previous,
        mover.generation,
        mover.moved_at,
        mover.next_step,
    )
    assert NOTICE_REPEATS == mover.notices_left
    mover.settled()
    assert (IDLE, None) == (mover.state, mover.intent)


@pytest.mark.parametrize("end", ["abandon", "failed"])
def test_a_failed_attempt_is_followed_by_quiet(end):
    """Nothing has moved, and the next attempt waits."""
    mover = _mover()
    if end == "abandon":
        mover.propose(PATHS[1], 5, Reason.BROKEN, 100)
    else:
        mover.agree(_intent())
    getattr(mover, end)(100)

    assert (IDLE, None, 100 + BACK_OFF_NS, PATHS[0], 0) == (
        mover.state,
        mover.intent,
        mover.quiet_until,
        mover.active,
        mover.generation,
    )
    assert (100 + BACK_OFF_NS if end == "failed" else 0) == mover.refused_until, "a refused proposer follows at once"


def test_a_message_repeats_its_intent():
    """The answer to a proposal bears its nonce; a refusal bears its own reason."""
    intent = _intent(rank=2, generation=7)
    plain = _mover().message(CoordinationKind.GRANT, "b1", intent=intent)
    refusal = _mover().message(CoordinationKind.REFUSE, "b1", intent=intent, reason=Reason.MODE)

    assert (0, 2, 7, 5, "b1", Reason.BROKEN) == (
        plain.pair,
        plain.rank,
        plain.generation,
        plain.nonce,
        plain.target,
        plain.reason,
    )
    assert Reason.MODE is refusal.reason


@pytest.mark.parametrize("reason", [Reason.OPERATOR, Reason.PINNED])
def test_a_pin_that_has_ended_is_not_renewed_by_the_move_under_way(reason):
    """It is applied after the order has ended."""
    mover = _mover()
    mover.agree(_intent(reason=reason))
    mover.unpin()
    mover.applied(0, 0)

    assert PATHS[1] is mover.active
    assert not mover.is_pinned


def test_a_move_for_a_fault_keeps_its_reason_when_a_pin_ends():
    """It has nothing to do with it."""
    mover = _mover()
    mover.agree(_intent(reason=Reason.BROKEN))
    mover.unpin()

    assert mover.intent is not None
    assert Reason.BROKEN is mover.intent.reason


@pytest.mark.parametrize("generation", [0, 1, 2, GENERATIONS])
def test_a_node_that_steps_back_follows_those_who_are_where_it_was_and_calls_none_of_them(generation):
    """The lower rank of two equals would win otherwise; a node that knows of no move stays one."""
    one, other = _mover(), _mover()
    one.generation = other.generation = generation
    other.active = PATHS[1]
    one.step_back()

    assert (generation > 0) is one.is_newer(other.generation, other.active)
    assert generation == 0 or not other.is_newer(one.generation, one.active)
