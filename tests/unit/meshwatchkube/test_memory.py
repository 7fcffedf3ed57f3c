"""What stands in the Lease is read back as it was written, by another version or another process too."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import DecodeError
from meshwatchkube.leaders import Mark
from meshwatchkube.memory import Change, Memory, Phase, decode, encode

CHANGE = Change(
    location="cloud",
    remote="onprem",
    leader="b2",
    former="b1",
    via=("a2", "b2"),
    marks=(Mark(node="b2", field="annotations", key="k", value="true"),),
    undo=(Mark(node="b2", field="annotations", key="k", value=None),),
    at_s=5,
)


def test_memory_survives_the_annotation():
    """And no annotation is an empty memory."""
    memory = Memory(changes=(CHANGE,), spent_s=(1, 2))
    assert memory == decode(encode(memory))
    assert Memory() == decode("")


@pytest.mark.parametrize("text", ["{", "[]", '{"changes": [{"location": 3}]}', '{"spent_s": [1e400]}'])
def test_what_somebody_else_has_written_is_refused(text):
    """Nothing is done then: an undo that was lost is no reason to begin anew."""
    with pytest.raises(DecodeError):
        decode(text)


def test_a_location_has_one_change():
    """A phase that is entered takes the place of the one before."""
    memory = Memory(spent_s=(1,)).with_change(CHANGE).with_change(CHANGE.entering(Phase.CHANGED, 9))
    assert [(Phase.CHANGED, 9)] == [(change.phase, change.at_s) for change in memory.changes]
    assert Memory(spent_s=(1,)) == memory.without("cloud")
    assert memory == memory.without("onprem")
    assert memory.of("cloud") is not None
    assert memory.of("onprem") is None


def test_a_reversed_change_undoes_what_was_done():
    """Twice reversed it is the same."""
    back = CHANGE.reversed(Phase.DETOUR, 7)
    assert ("b1", "b2", True) == (back.leader, back.former, back.is_return)
    assert (CHANGE.undo, CHANGE.marks) == (back.marks, back.undo)
    assert CHANGE == back.reversed(Phase.DETOUR, 5)


def test_the_budget_is_of_the_last_day():
    """A change that a wrong clock has put into the future counts too."""
    memory = Memory(spent_s=(0, 100, 10**9)).spending(86_450)
    assert (100, 10**9, 86_450) == memory.spent_s
