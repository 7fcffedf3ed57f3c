"""A leader that was promoted breaks as well: who leads then, and how all of it is taken back."""

from __future__ import annotations

from functools import partial

import msgspec

from meshwatchkube.actions import SetMark
from meshwatchkube.leaders import KILO_LEADER, Mark
from meshwatchkube.memory import Phase, decode, encode
from meshwatchkube.promotion import Promotions
from meshwatchkube.settings import Mode
from tests.support.kube import accusing, cluster, look, mesh, node
from tests.unit.meshwatchkube.test_promotion import B2_LEADS, MARKED, SETTINGS, _at_phase, _begun, _play, _reasons

B2_PATHS = (*B2_LEADS[:1], "a1-b3", "a2-b3", "a1-b1", "a2-b1")
b2_leads = partial(mesh, paths=B2_PATHS, leaders=("a1", "b2"))
"""While b2 leads; its neighbours stand by."""
B2_BROKEN = b2_leads(active="a2-b3", reports=accusing("b2"))
B1_CARRIES = b2_leads(active="a1-b1", reports=accusing("b2"))
b3_leads = partial(mesh, paths=("a1-b3", "a1-b2", "a2-b2", "a1-b1", "a2-b1"), leaders=("a1", "b3"))
B3_MARKED = cluster(node("b3", leader="true"))


def _mark(name, value):
    return Mark(node=name, field="annotations", key=KILO_LEADER, value=value)


def _stands():
    """b2 leads in the place of b1."""
    return _at_phase(_begun(Promotions(SETTINGS)), Phase.STANDS)


def _begun_again(seen=B2_BROKEN):
    """A memory in which a change away from b2 has begun at second 1300."""
    promotions, memory = Promotions(SETTINGS), _stands()
    return _play(promotions, look(seen, MARKED, memory, at_s=1000), look(seen, MARKED, memory, at_s=1300))


def test_a_promoted_leader_that_breaks_is_replaced():
    """After the same wait, with the same agreement, and in the same budget."""
    memory, actions = _begun_again()
    (change,) = memory.changes
    assert ("b3", "b2", Phase.DETOUR, False) == (change.leader, change.former, change.phase, change.is_return)
    assert (_mark("b3", "true"), _mark("b2", None)) == change.marks
    assert (("a2", "b3"), 2) == (change.via, len(memory.spent_s))
    assert ["MeshPromotion"] == _reasons(actions)
    assert memory == decode(encode(memory))


def test_where_nobody_can_replace_it_that_is_told_once():
    """All ways around it are bad."""
    seen = b2_leads(active="a2-b3", reports=accusing("b2"), bad=B2_PATHS[1:])
    promotions, memory = Promotions(SETTINGS), _stands()
    after, actions = _play(promotions, look(seen, MARKED, memory, at_s=1000), look(seen, MARKED, memory, at_s=1300))
    assert (memory, ["MeshPromotionRefused"]) == (after, _reasons(actions))
    assert "b2 goes on leading cloud: no other relay" in actions[0].message
    assert [] == _play(promotions, look(seen, MARKED, memory, at_s=1305))[1]


def test_the_budget_bounds_it():
    """Four changes within a day were made already."""
    promotions, memory = Promotions(SETTINGS), msgspec.structs.replace(_stands(), spent_s=(look().now_s,) * 4)
    _, actions = _play(promotions, look(B2_BROKEN, MARKED, memory), look(B2_BROKEN, MARKED, memory, at_s=300))
    assert "4 times within a day" in actions[0].message


def test_a_former_leader_is_not_replaced_by_a_change_that_the_mesh_has_not_followed():
    """b1 leads still and is named still; its change stands, and an operator has been told."""
    promotions, memory = Promotions(SETTINGS), _stands()
    seen = mesh(active="a2-b2", reports=accusing("b1"))
    assert [] == _play(promotions, look(seen, MARKED, memory, at_s=1000), look(seen, MARKED, memory, at_s=1300))[1]


def test_the_way_back_goes_by_both_steps():
    """b2 leads again when it is well, then b1 after a wait of its own, with marks as they were at first."""
    memory, promotions = _begun_again()[0], Promotions(SETTINGS)
    stands = _at_phase(memory, Phase.STANDS, 1400)
    well = b3_leads(active="a1-b3")
    back, _ = _play(promotions, look(well, B3_MARKED, stands, at_s=1400), look(well, B3_MARKED, stands, at_s=3200))
    (change,) = back.changes
    assert ("b2", "b3", True) == (change.leader, change.former, change.is_return)
    assert (_mark("b2", "true"), _mark("b3", None)) == change.marks

    changed, returned = _at_phase(back, Phase.CHANGED, 3220), b2_leads(active="a1-b2")
    first, actions = _play(promotions, look(returned, MARKED, changed, at_s=3255))
    assert ["MeshPromotionReturned"] == _reasons(actions)
    (change,) = first.changes
    assert ("b2", "b1", Phase.STANDS, (_mark("b2", None),)) == (change.leader, change.former, change.phase, change.undo)
    played = (look(returned, MARKED, first, at_s=3260), look(returned, MARKED, first, at_s=5059))
    assert [] == _play(promotions, *played)[1], "b1 has not been well for so long yet"
    last, _ = _play(promotions, look(returned, MARKED, first, at_s=5060))
    assert ("b1", True, None) == (last.changes[0].leader, last.changes[0].is_return, last.changes[0].before)


def test_the_first_leader_takes_the_place_of_the_second_by_the_way_back():
    """b1 is well and carries the traffic: no mark of ours is left on anybody."""
    memory, actions = _begun_again(B1_CARRIES)
    (change,) = memory.changes
    assert ("b1", "b2", True) == (change.leader, change.former, change.is_return)
    assert ((_mark("b2", None),), ("a1", "b1"), 2) == (change.marks, change.via, len(memory.spent_s))
    assert "b1 is to lead cloud instead of b2: new flows die at b2" == actions[1].message

    changed = _at_phase(memory, Phase.CHANGED, 1320)
    over, actions = _play(Promotions(SETTINGS), look(mesh(), cluster(), changed, at_s=1350))
    assert ((), ["MeshPromotionReturned"]) == (over.changes, _reasons(actions))


def test_a_change_that_is_abandoned_leaves_the_one_before_it():
    """b2 recovers while relays move the traffic: it goes on leading in the place of b1, which is not forgotten."""
    memory = _begun_again()[0]
    recovered = b2_leads(active="a2-b3")
    after, actions = _play(Promotions(SETTINGS), look(recovered, MARKED, memory, at_s=1305))
    assert ["MeshPromotionEnded"] == _reasons(actions)
    (change,) = after.changes
    assert ("b2", "b1", Phase.STANDS) == (change.leader, change.former, change.phase)
    assert _stands().changes[0].undo == change.undo


def test_what_is_remembered_of_changes_before_does_not_grow():
    """One is enough."""
    memory = _at_phase(_begun_again()[0], Phase.STANDS, 1400)
    assert memory.changes[0].before is not None
    broken = b3_leads(active="a1-b1", reports=accusing("b3", "b2"))
    promotions = Promotions(SETTINGS)
    after, _ = _play(promotions, look(broken, B3_MARKED, memory, at_s=1400), look(broken, B3_MARKED, memory, at_s=1700))
    (change,) = after.changes
    assert ("b1", "b3") == (change.leader, change.former)
    assert change.before is not None
    assert ("b3", "b2", None) == (change.before.leader, change.before.former, change.before.before)


def test_a_dry_run_asks_for_the_second_change_as_for_a_first():
    """And remembers nothing."""
    promotions, memory = Promotions(msgspec.structs.replace(SETTINGS, mode=Mode.DRY_RUN)), _stands()
    looks = (look(B2_BROKEN, MARKED, memory, at_s=at_s) for at_s in (1000, 1300))
    after, actions = _play(promotions, *looks)
    assert (memory, [True, True]) == (after, [each.is_dry for each in actions[:2]])
    assert ["MeshPromotionDryRun"] == _reasons(actions)


def test_what_was_asked_for_in_an_earlier_change_says_nothing_of_this_one():
    """The same mark, weeks later: this attempt has asked for nothing yet, since the API was cut."""
    promotions = Promotions(SETTINGS)
    led = cluster(node("b1", leader="true"))
    broken = mesh(active="a2-b2", reports=accusing("b1"))
    begun, _ = _play(promotions, look(broken, led), look(broken, led, at_s=300))
    _, asked = _play(promotions, look(broken, led, begun, at_s=330))
    assert ["b2"] == [action.mark.node for action in asked if isinstance(action, SetMark)]

    _play(promotions, look(mesh(), led, at_s=900))
    again, _ = _play(promotions, look(broken, led, at_s=1000), look(broken, led, at_s=1300))
    _, actions = _play(promotions, look(broken, led, again, at_s=1500))
    assert ["b2"] == [action.mark.node for action in actions if isinstance(action, SetMark)]
