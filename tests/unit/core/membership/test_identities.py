"""Which identity a name has, and the steps from the keys of the mesh to the key of a pair."""

from __future__ import annotations

from meshwatchd.core.membership.identities import GRACE_NS, HOLD_NS, MAX_PINS, REFUSED_NS, Identities, Pin, Step
from meshwatchd.model.identity import PublicIdentity
from meshwatchd.model.settings import SECOND

FORGET_NS = 1000 * SECOND
FIRST = PublicIdentity(signing=b"1" * 32, exchange=b"2" * 32)
SECOND_ONE = PublicIdentity(signing=b"3" * 32, exchange=b"4" * 32)


def _introduced(now=0):
    pins = Identities(FORGET_NS)
    assert pins.hear("b1", FIRST, None, now)
    return pins


def test_a_name_belongs_to_its_first_identity():
    """Neither another one nor none may speak for it, and who tries is named for a while."""
    pins = _introduced()

    assert pins.accepts("b1", FIRST, b"", 1)
    assert not pins.accepts("b1", SECOND_ONE, b"", 1)
    assert not pins.accepts("b1", None, b"", 1)
    assert not pins.accepts("b1", PublicIdentity(signing=FIRST.signing, exchange=SECOND_ONE.exchange), b"", 1)
    assert ("b1",) == pins.refused(2)
    assert () == pins.refused(1 + REFUSED_NS)


def test_a_name_without_an_identity_is_believed_until_it_has_one():
    """Versions differ while a mesh is upgraded."""
    pins = Identities(FORGET_NS)

    assert pins.accepts("b1", None, b"", 0)
    assert pins.accepts("b1", FIRST, b"", 0)


def test_the_former_identity_vouches_for_the_next():
    """No other one does, and afterwards the former speaks for nobody."""
    pins = _introduced()

    assert not pins.accepts("b1", SECOND_ONE, b"9" * 32, 1)
    assert pins.accepts("b1", SECOND_ONE, FIRST.signing, 1)
    assert pins.hear("b1", SECOND_ONE, None, 1)
    assert not pins.accepts("b1", FIRST, b"", 2)


def test_an_operator_and_time_forget():
    """A node that was reinstalled without its state comes back by either."""
    pins = _introduced()
    assert pins.forget("b1", 1)
    assert not pins.forget("b1", 1)
    assert pins.accepts("b1", SECOND_ONE, b"", 1)

    pins = _introduced()
    assert not pins.accepts("b1", SECOND_ONE, b"", FORGET_NS - 1)
    assert pins.accepts("b1", SECOND_ONE, b"", FORGET_NS)


def test_a_node_that_others_hear_is_not_forgotten():
    """It may greet nobody here for days. A late word takes nothing back, and none makes a stranger known."""
    pins = _introduced()
    pins.hear_of("b1", FORGET_NS - 1)
    pins.hear_of("b1", 5)
    pins.hear_of("b2", 5)

    assert not pins.accepts("b1", SECOND_ONE, b"", FORGET_NS)
    assert pins.find("b2", 6) is None
    assert pins.accepts("b1", SECOND_ONE, b"", 2 * FORGET_NS)


def test_names_without_end_push_out_nobody():
    """They are a member's that has gone bad; what is silent for long enough makes room."""
    pins = _introduced()
    for number in range(MAX_PINS):
        pins.hear(f"n{number}", SECOND_ONE, None, 1)
    assert not pins.accepts("b1", SECOND_ONE, b"", 2)
    assert MAX_PINS == len(list(pins.pins()))
    assert pins.accepts("late", SECOND_ONE, b"", 2)

    pins.hear("late", FIRST, None, 2 + FORGET_NS)
    assert ["late"] == [name for name, _ in pins.pins()]


def test_each_step_is_due_when_it_is_taken():
    """At once: accept. Ten seconds later: say so. At the peer's word: sign. A minute after its last: refuse others."""
    pins = _introduced()
    pin = pins.find("b1", 0)
    assert pin is not None
    assert (("b1",), ()) == (pins.take_due(0), pins.take_due(0))
    assert not pin.is_held(HOLD_NS - 1)
    assert pin.is_held(HOLD_NS)
    assert HOLD_NS == pins.deadline()
    assert ("b1",) == pins.take_due(HOLD_NS)
    assert pins.deadline() is None

    began = 20 * SECOND
    for step, at_ns in ((Step.HOLDS, began), (Step.SIGNS, began + 1)):
        assert not pins.hear("b1", FIRST, step, at_ns)
        assert ("b1",) == pins.take_due(at_ns)
    pin = pins.find("b1", began)
    assert pin is not None
    assert began + 1 + GRACE_NS == pins.deadline()
    assert not pin.is_alone(began + GRACE_NS)
    assert pin.is_alone(began + 1 + GRACE_NS)


def test_a_peer_that_repeats_itself_starts_nothing_anew():
    """It says so every half minute; silence about it says nothing."""
    pins = _introduced()
    for at_ns, step in ((0, Step.SIGNS), (30 * SECOND, Step.SIGNS), (60 * SECOND, None)):
        pins.hear("b1", FIRST, step, at_ns)
    pins.take_due(GRACE_NS)

    pin = pins.find("b1", GRACE_NS)
    assert pin is not None
    assert pin.is_alone(GRACE_NS)
    assert pins.deadline() is None


def test_a_peer_that_has_forgotten_is_met_where_it_is():
    """It says less than before, and what it signs with the keys of the mesh counts again."""
    pins = _introduced()
    pins.hear("b1", FIRST, Step.SIGNS, 0)
    pins.hear("b1", FIRST, Step.HOLDS, 2 * GRACE_NS)

    pin = pins.find("b1", 3 * GRACE_NS)
    assert pin is not None
    assert not pin.is_alone(3 * GRACE_NS)


def test_what_an_earlier_process_knew_is_held_at_once():
    """It is on the disk; a grace goes on from where it was."""
    pins = Identities(FORGET_NS)
    for name, since_ns in (("b1", -GRACE_NS), ("b2", -GRACE_NS // 2)):
        kept = Pin(identity=FIRST, step=Step.SIGNS, since_ns=since_ns, pinned_ns=0, heard_ns=-5 * SECOND)
        pins.restore(name, kept, 0)

    b1, b2 = pins.find("b1", 0), pins.find("b2", 0)
    assert b1 is not None
    assert b2 is not None
    assert (True, True) == (b1.is_held(0), b2.is_held(0))
    assert (True, False) == (b1.is_alone(0), b2.is_alone(0))
    assert {"b1", "b2"} == set(pins.take_due(0))
    assert GRACE_NS // 2 == pins.deadline()
    assert pins.accepts("b1", SECOND_ONE, b"", FORGET_NS - 5 * SECOND)
