"""When leaders change: the waits, the agreement, each step there and back, and everything that ends it."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from meshwatchkube.actions import Remember, RunHook, SetMark, Tell
from meshwatchkube.leaders import KILO_LEADER, Mark
from meshwatchkube.memory import Change, Memory, Phase
from meshwatchkube.mesh import SILENT
from meshwatchkube.promotion import Promotions
from meshwatchkube.settings import LeaderKind, Mode, PromotionSettings
from tests.support.kube import NOW_S, accusing, cluster, look, mesh, node, report

SETTINGS = PromotionSettings(mode=Mode.ENFORCE)
BROKEN = mesh(active="a2-b1", reports=accusing("b1"))
"""b1's overlay is broken; traffic is on a standby that it relays as well, so it has to be moved."""
DETOURED = mesh(active="a2-b2", reports=accusing("b1"))
B2_LEADS = ("a1-b2", "a2-b2", "a1-b1", "a2-b1", "a1-b2")
FOLLOWED = mesh(active="a2-b2", paths=B2_LEADS, leaders=("a1", "b2"))
WELL = mesh(active="a1-b2", paths=B2_LEADS, leaders=("a1", "b2"))
SILENT_B1 = report("b1", by="b3", fault=SILENT, towards="")
MARKED = cluster(node("b2", leader="true"))


def _settings(**changes):
    return msgspec.structs.replace(SETTINGS, **changes)


def _play(promotions, *looks):
    """Decide at each look, with the memory that the one before has left; the actions of the last."""
    memory, actions = Memory(), []
    for each in looks:
        memory = each.memory if each.memory.changes or each.memory.spent_s else memory
        actions = list(promotions.decide(_remembering(each, memory), memory))
        memory = next((action.memory for action in actions if isinstance(action, Remember)), memory)
    return memory, actions


def _remembering(each, memory):
    """The same look with another memory."""
    return look(each.mesh, each.cluster, memory, at_s=each.now_s - NOW_S)


def _reasons(actions):
    return [action.reason for action in actions if isinstance(action, Tell)]


def _begun(promotions):
    """A memory in which the change has begun, and the second at which it did."""
    memory, _ = _play(promotions, look(BROKEN), look(BROKEN, at_s=300))
    assert memory.changes
    return memory


def test_a_failover_that_has_stood_begins_a_change_by_way_of_a_path_around_both_leaders():
    """Both sides name b1 for five minutes: b2, which relays the traffic, is to lead."""
    promotions = Promotions(SETTINGS)
    memory, actions = _play(promotions, look(BROKEN), look(BROKEN, at_s=299))
    assert ([], Memory()) == (actions, memory)

    memory, actions = _play(promotions, look(BROKEN, at_s=300))
    (change,) = memory.changes
    assert ("cloud", "onprem", "b2", "b1") == (change.location, change.remote, change.leader, change.former)
    assert ("a2", "b2") == change.via
    assert (Mark(node="b2", field="annotations", key=KILO_LEADER, value="true"),) == change.marks
    assert (Mark(node="b2", field="annotations", key=KILO_LEADER, value=None),) == change.undo
    assert (NOW_S + 300,) == memory.spent_s
    assert ["MeshPromotion"] == _reasons(actions)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (mesh(active="a1-b1", reports=accusing("b1")), "traffic is on the primary path"),
        (mesh(active="a1-b2", reports=accusing("b1"), culprit=""), "this side's verdict names nobody"),
        (mesh(active="a1-b2", reports=accusing("b1"), troubled=("a1", "a2", "a3")), "the other side is well"),
        (mesh(active="a1-b2", reports=accusing("b1"), troubled=("a3", "b1")), "it alone is in trouble there"),
        (mesh(active="a1-b2", reports=accusing("b1"), silent=("b2", "b3")), "what the other side says is old"),
        (mesh(active="a1-b2", reports=(report("b1", by="a3"), report("a1", by="b3"))), "each names another one"),
        (mesh(active="a1-b2", reports=accusing("b3")), "who is named does not lead"),
        (mesh(active="a1-b2", reports=accusing("b1", "b1")), "it names itself, and nobody beside it does"),
        (mesh(active="a1-b2", reports=(report("b1", by="b3", age_s=91),)), "the word of who has seen it is old"),
        (mesh(active="a1-b2", reports=(report("b1", by="b3", towards="x"),)), "another location's traffic is meant"),
        (mesh(active="a1-b2", reports=accusing("b1"), culprit="a1"), "this side names its own leader"),
        (mesh(active="a1-b2", reports=(report("b1", by="b3", fault="standby-down"),)), "it is no fault of the path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_agreement_of_both_sides_nothing_begins(seen, why):
    """However long it stands."""
    _, actions = _play(Promotions(SETTINGS), look(seen), look(seen, at_s=3600))
    assert [] == actions, why


def test_a_writer_beside_the_broken_leader_needs_the_other_side_too():
    """It has seen the fault itself; nodes of the other side say no more than that something is wrong."""
    seen = mesh(at="b3", active="a1-b2", reports=accusing("b1"))
    memory, _ = _play(Promotions(SETTINGS), look(seen), look(seen, at_s=300))
    assert ("cloud", "onprem") == (memory.changes[0].location, memory.changes[0].remote)
    alone = mesh(at="b3", active="a1-b2", reports=accusing("b1"), troubled=("b2", "b3"))
    assert [] == _play(Promotions(SETTINGS), look(alone), look(alone, at_s=300))[1]


def test_a_break_in_what_stands_begins_the_wait_anew():
    """The leader was well for one look."""
    promotions = Promotions(SETTINGS)
    memory, _ = _play(promotions, look(BROKEN), look(mesh(), at_s=200), look(BROKEN, at_s=300))
    assert () == memory.changes
    memory, _ = _play(promotions, look(BROKEN, at_s=600))
    assert 1 == len(memory.changes)


def test_time_without_knowledge_is_no_wait():
    """The API was away, or the daemon: what stood before counts no more."""
    promotions = Promotions(SETTINGS)
    _play(promotions, look(BROKEN))
    promotions.forget()
    memory, _ = _play(promotions, look(BROKEN, at_s=300))
    assert () == memory.changes


@pytest.mark.parametrize(
    ("known", "seen", "words"),
    [
        (cluster(node("b2", last_seen="1")), BROKEN, "no other relay"),
        (cluster(node("b2", key="")), BROKEN, "no other relay"),
        (
            cluster(),
            mesh(
                active="a1-b2",
                reports=(*accusing("b1"), report("b2", by="b2", towards="", fault="overlay-device-down")),
            ),
            "no other relay",
        ),
        (cluster(), mesh(active="a1-b2", reports=accusing("b1"), silent=("b2",)), "no other relay"),
        (cluster(node("b0")), mesh(active="a1-b2", reports=accusing("b1"), bad=("a1-b2", "a2-b2")), "no other relay"),
        (cluster(node("b3", leader="")), BROKEN, "by the annotations b3 leads"),
        (cluster(*(node(name, last_seen="1") for name in ("b1", "b3"))), BROKEN, "by the annotations b2 leads"),
    ],
)
def test_a_change_that_cannot_be_made_well_is_refused_with_its_reason_once(known, seen, words):
    """Kilo must count the successor, nobody may name it, and Kilo must believe in the leader that the mesh has."""
    promotions = Promotions(SETTINGS)
    memory, actions = _play(promotions, look(seen, known), look(seen, known, at_s=300))
    assert () == memory.changes
    assert ["MeshPromotionRefused"] == _reasons(actions)
    assert words in actions[0].message
    assert ([], []) == tuple(_play(promotions, look(seen, known, at_s=at_s))[1] for at_s in (302, 900))


def test_a_successor_that_is_unschedulable_is_none():
    """Somebody is about to take it away."""
    gone = node("b2")
    gone = msgspec.structs.replace(gone, spec=msgspec.structs.replace(gone.spec, unschedulable=True))
    _, actions = _play(Promotions(SETTINGS), look(BROKEN, cluster(gone)), look(BROKEN, cluster(gone), at_s=300))
    assert ["MeshPromotionRefused"] == _reasons(actions)


def test_a_broken_leader_that_finds_its_neighbours_silent_accuses_nobody():
    """All of its own overlay is gone; b2 may lead all the same."""
    seen = mesh(active="a1-b2", reports=(*accusing("b1"), report("b2", by="b1", fault=SILENT, towards="")))
    memory, _ = _play(Promotions(SETTINGS), look(seen), look(seen, at_s=300))
    assert "b2" == memory.changes[0].leader


def test_the_budget_of_a_day_is_kept():
    """Four changes, there and back; a change that is a day old counts no more."""
    spent = Memory(spent_s=(NOW_S - 80_000, NOW_S - 3000, NOW_S - 2000, NOW_S - 1000))
    _, actions = _play(Promotions(SETTINGS), look(BROKEN, memory=spent), look(BROKEN, memory=spent, at_s=300))
    assert "4 times within a day" in actions[0].message

    older = msgspec.structs.replace(spent, spent_s=(NOW_S - 86_400, *spent.spent_s[1:]))
    memory, _ = _play(Promotions(SETTINGS), look(BROKEN, memory=older), look(BROKEN, memory=older, at_s=300))
    assert 1 == len(memory.changes)
    assert 4 == len(memory.spent_s)


def test_a_dry_run_asks_the_api_once_and_remembers_nothing():
    """So that permissions and admission are tried as well."""
    promotions = Promotions(_settings(mode=Mode.DRY_RUN))
    memory, actions = _play(promotions, look(BROKEN), look(BROKEN, at_s=300))
    mark, told = actions
    assert isinstance(mark, SetMark)
    assert mark.is_dry
    assert "MeshPromotionDryRun" == told.reason
    assert Memory() == memory
    assert [] == _play(promotions, look(BROKEN, at_s=302))[1]


def test_off_is_off():
    """Nothing is decided."""
    assert [] == _play(Promotions(_settings(mode=Mode.OFF)), look(BROKEN), look(BROKEN, at_s=900))[1]


def test_traffic_that_goes_around_the_leader_already_is_not_moved_before():
    """A move from one standby to another would cost some flows; relays hold it where it is."""
    promotions, seen = Promotions(SETTINGS), mesh(active="a1-b2", reports=accusing("b1"))
    memory, _ = _play(promotions, look(seen), look(seen, at_s=300))
    assert ("a1", "b2") == memory.changes[0].via
    assert [] == _play(promotions, look(seen, memory=memory, at_s=314))[1], "relays read the Lease first"
    (action,) = _play(promotions, look(seen, memory=memory, at_s=315))[1]
    assert isinstance(action, SetMark)


def test_marks_are_set_when_traffic_is_on_the_detour_and_not_before():
    """Relays pin it there meanwhile."""
    promotions = Promotions(SETTINGS)
    memory = _begun(promotions)
    assert [] == _play(promotions, look(BROKEN, memory=memory, at_s=302))[1]

    after, (action,) = _play(promotions, look(DETOURED, memory=memory, at_s=320))
    assert SetMark(mark=memory.changes[0].marks[0], version="7") == action
    assert Phase.DETOUR is after.changes[0].phase, "the Node shows the mark first"

    after, _ = _play(promotions, look(DETOURED, MARKED, memory, at_s=322))
    assert (Phase.CHANGED, NOW_S + 322) == (after.changes[0].phase, after.changes[0].at_s)


def test_where_traffic_cannot_be_moved_first_the_change_is_made_all_the_same():
    """No daemon would obey; half a minute is enough."""
    promotions = Promotions(SETTINGS)
    memory = _begun(promotions)
    assert [] == _play(promotions, look(BROKEN, memory=memory, at_s=329))[1]
    (action,) = _play(promotions, look(BROKEN, memory=memory, at_s=330))[1]
    assert isinstance(action, SetMark)


def test_marks_are_set_one_after_the_other_and_a_location_is_never_without_candidate():
    """b1 was made leader by hand: b2 gets the mark before b1 loses it."""
    promotions, known = Promotions(SETTINGS), cluster(node("b1", leader=""))
    memory, _ = _play(promotions, look(BROKEN, known), look(BROKEN, known, at_s=300))
    (first,) = _play(promotions, look(DETOURED, known, memory, at_s=320))[1]
    assert ("b2", "true") == (first.mark.node, first.mark.value)

    known = cluster(node("b1", leader=""), node("b2", leader="true"))
    (second,) = _play(promotions, look(DETOURED, known, memory, at_s=322))[1]
    assert ("b1", None) == (second.mark.node, second.mark.value)
    assert [("b1", ""), ("b2", None)] == [(mark.node, mark.value) for mark in memory.changes[0].undo]


def test_nothing_is_done_where_the_reason_goes_before_anything_was_done():
    """b1 recovers while relays move the traffic."""
    promotions = Promotions(SETTINGS)
    memory = _begun(promotions)
    after, actions = _play(promotions, look(mesh(active="a2-b2"), memory=memory, at_s=302))
    assert () == after.changes
    assert ["MeshPromotionEnded"] == _reasons(actions)


def test_a_change_stands_when_the_mesh_has_followed_and_was_left_alone_for_a_while():
    """The last daemon takes the new mesh over ten seconds after the first one: until then traffic is held."""
    promotions = Promotions(SETTINGS)
    changed = _at_phase(_begun(promotions), Phase.CHANGED)
    assert [] == _play(promotions, look(FOLLOWED, MARKED, changed, at_s=329))[1]
    assert [] == _play(promotions, look(DETOURED, MARKED, changed, at_s=345))[1]

    after, actions = _play(promotions, look(FOLLOWED, MARKED, changed, at_s=345))
    assert Phase.STANDS is after.changes[0].phase
    assert ["MeshPromoted"] == _reasons(actions)
    assert not actions[1].is_warning


def test_a_mesh_that_does_not_follow_is_reported_and_held_no_longer():
    """Kilo's agent of that node may be dead."""
    promotions = Promotions(SETTINGS)
    changed = _at_phase(_begun(promotions), Phase.CHANGED)
    after, actions = _play(promotions, look(DETOURED, MARKED, changed, at_s=360))
    assert Phase.STANDS is after.changes[0].phase
    assert "has not followed" in actions[1].message
    assert actions[1].is_warning


def _at_phase(memory: Memory, phase: Phase, at_s: int = 300) -> Memory:
    return memory.with_change(memory.changes[0].entering(phase, NOW_S + at_s))


def test_the_former_leader_leads_again_after_the_wait_with_marks_as_they_were():
    """Half an hour in which nobody says anything of the two locations."""
    promotions = Promotions(SETTINGS)
    stands = _at_phase(_begun(promotions), Phase.STANDS)
    assert [] == _play(promotions, look(WELL, MARKED, stands, at_s=400), look(WELL, MARKED, stands, at_s=2199))[1]

    back, actions = _play(promotions, look(WELL, MARKED, stands, at_s=2200))
    (change,) = back.changes
    assert ("b1", "b2", True, Phase.DETOUR) == (change.leader, change.former, change.is_return, change.phase)
    assert ("a2", "b2") == change.via
    assert 2 == len(back.spent_s)

    pinned = mesh(active="a2-b2", paths=B2_LEADS, leaders=("a1", "b2"))
    (action,) = _play(promotions, look(pinned, MARKED, back, at_s=2215))[1]
    assert Mark(node="b2", field="annotations", key=KILO_LEADER, value=None) == action.mark

    changed, _ = _play(promotions, look(pinned, cluster(), back, at_s=2217))
    over, actions = _play(promotions, look(mesh(active="a2-b2"), cluster(), changed, at_s=2250))
    assert () == over.changes
    assert 2 == len(over.spent_s), "the budget remembers both"
    assert ["MeshPromotionReturned"] == _reasons(actions)


@pytest.mark.parametrize(
    "seen",
    [
        mesh(active="a1-b2", paths=B2_LEADS, leaders=("a1", "b2"), bad=("a2-b1",)),
        mesh(active="a1-b2", paths=B2_LEADS, leaders=("a1", "b2"), silent=("b1",)),
        mesh(
            active="a1-b2",
            paths=B2_LEADS,
            leaders=("a1", "b2"),
            reports=(report("", by="a1", fault="standby-down"),),
        ),
        mesh(active="a2-b2", paths=B2_LEADS, leaders=("a1", "b2")),
        mesh(active="a1-b2", paths=B2_LEADS, leaders=("a1", "b2"), reports=(SILENT_B1,)),
    ],
    ids=["a standby by way of it is bad", "it is silent", "a standby is reported", "traffic is away", "its overlay"],
)
def test_a_former_leader_that_is_not_well_does_not_lead_again(seen):
    """Nobody names a broken node that leads nobody; its standbys tell."""
    promotions = Promotions(SETTINGS)
    stands = _at_phase(_begun(promotions), Phase.STANDS)
    assert [] == _play(promotions, look(seen, MARKED, stands, at_s=400), look(seen, MARKED, stands, at_s=9000))[1]


def test_no_return_without_the_wish_or_the_budget():
    """`demote_after = "0s"` leaves it to people."""
    for settings, spent in ((_settings(demote_after=0), ()), (SETTINGS, tuple(range(NOW_S, NOW_S + 4)))):
        promotions = Promotions(settings)
        stands = msgspec.structs.replace(_at_phase(_begun(promotions), Phase.STANDS), spent_s=spent or (NOW_S,))
        played = _play(promotions, look(WELL, MARKED, stands, at_s=400), look(WELL, MARKED, stands, at_s=9000))
        assert [] == played[1]


def test_a_return_is_given_up_where_the_former_leader_breaks_again_first():
    """b2 goes on leading, and the wait begins anew."""
    promotions = Promotions(SETTINGS)
    stands = _at_phase(_begun(promotions), Phase.STANDS)
    back, _ = _play(promotions, look(WELL, MARKED, stands, at_s=400), look(WELL, MARKED, stands, at_s=2200))
    broken = mesh(active="a1-b2", paths=B2_LEADS, leaders=("a1", "b2"), reports=(report("b1", by="b3"),))
    after, actions = _play(promotions, look(broken, MARKED, back, at_s=2202))
    (change,) = after.changes
    assert ("b2", "b1", False, Phase.STANDS) == (change.leader, change.former, change.is_return, change.phase)
    assert stands.changes[0].marks == change.marks
    assert ["MeshPromotionEnded"] == _reasons(actions)


def test_an_operator_who_changes_the_marks_ends_our_part():
    """Or a program that applies its own idea of the Nodes."""
    promotions = Promotions(SETTINGS)
    stands = _at_phase(_begun(promotions), Phase.STANDS)
    after, actions = _play(promotions, look(WELL, cluster(), stands, at_s=400))
    assert () == after.changes
    assert ["MeshPromotionEnded"] == _reasons(actions)


def test_one_location_at_a_time():
    """A leader of the other side that breaks meanwhile has to wait."""
    promotions = Promotions(SETTINGS)
    changed = _at_phase(_begun(promotions), Phase.CHANGED)
    other = mesh(active="a2-b2", reports=(report("a1", by="a2"),))
    after, actions = _play(promotions, look(other, MARKED, changed, at_s=301), look(other, MARKED, changed, at_s=328))
    assert ([], 1) == (actions, len(after.changes))


def test_a_writer_of_a_third_location_leaves_a_change_alone():
    """It does not see how it goes."""
    change = Change(location="x", remote="y", leader="x2", former="x1", at_s=NOW_S)
    memory = Memory(changes=(change,))
    assert [] == _play(Promotions(SETTINGS), look(memory=memory, at_s=9000))[1]


def test_a_hook_is_called_where_no_api_has_the_leader():
    """And the change is written down after it, so that a hook that fails is called again."""
    promotions = Promotions(_settings(kind=LeaderKind.HOOK, hook="/usr/bin/true"))
    memory, _ = _play(promotions, look(BROKEN), look(BROKEN, at_s=300))
    assert () == memory.changes[0].marks
    hook, remember = _play(promotions, look(DETOURED, memory=memory, at_s=320))[1]
    assert RunHook(location="cloud", former="b1", leader="b2") == hook
    assert Phase.CHANGED is remember.memory.changes[0].phase


def _live(promotions, seconds, *, apply):
    """Looks each five seconds on b1 broken and traffic detoured, at Nodes as `apply` leaves them; all that was done."""
    known, memory, done = cluster(node("b1", leader="")), Memory(), []
    for at_s in range(0, seconds, 5):
        for action in promotions.decide(look(DETOURED, known, memory, at_s), memory):
            done.append((at_s, action))
            if isinstance(action, RunHook):
                break  # a hook that fails: what comes after it waits
            memory = action.memory if isinstance(action, Remember) else memory
            known = apply(known, action.mark) if isinstance(action, SetMark) else known
    return memory, done


def _kept(known, mark):
    """A controller that puts the mark of b1 back before anybody has looked."""
    return cluster(node("b1", leader=""), node("b2", leader="true")) if mark.node == "b2" else known


def _stripped(known, _):
    """A webhook that lets the request pass, without the mark."""
    return known


def test_an_attempt_that_a_controller_undoes_ends():
    """It puts the mark of b1 back each time. What is set stays as it is, and relays may let go of the traffic."""
    memory, done = _live(Promotions(SETTINGS), 410, apply=_kept)
    marks = [(at_s, action.mark.node) for at_s, action in done if isinstance(action, SetMark)]
    assert [(315, "b2"), *((at_s, "b1") for at_s in (320, 335, 350, 365, 380))] == marks
    assert ((), 1) == (memory.changes, len(memory.spent_s))
    told = [action for _, action in done if isinstance(action, Tell)]
    assert ["MeshPromotion", "MeshPromoted", "MeshPromotionEnded"] == _reasons(told)
    assert "has not followed" in told[1].message


def test_a_writer_that_has_asked_for_nothing_yet_gives_nothing_up():
    """The API was cut in the middle of the marks, or another process was the writer: nobody has refused anything."""
    led = cluster(node("b1", leader="true"))
    half = cluster(node("b1", leader="true"), node("b2", leader="true"))
    memory, _ = _play(Promotions(SETTINGS), look(BROKEN, led), look(BROKEN, led, at_s=300))
    after, actions = _play(Promotions(SETTINGS), look(BROKEN, half, memory, at_s=300 + 200))

    assert (memory, ["b1"]) == (after, [action.mark.node for action in actions if isinstance(action, SetMark)])
    assert 1 == len(actions)


def test_an_attempt_of_which_nothing_is_left_ends():
    """A webhook takes the mark out of each request."""
    memory, done = _live(Promotions(SETTINGS), 410, apply=_stripped)
    told = [action for _, action in done if isinstance(action, Tell)]
    assert ((), ["MeshPromotion", "MeshPromotionEnded"]) == (memory.changes, _reasons(told))
    assert "b1 goes on leading cloud: no mark could be set for 1.5 min" == told[1].message


def test_a_hook_that_fails_each_time_is_called_no_more_after_a_while():
    """The change is not made, and everybody is told."""
    memory, done = _live(Promotions(_settings(kind=LeaderKind.HOOK, hook="/usr/bin/false")), 410, apply=_kept)
    called = [at_s for at_s, action in done if isinstance(action, RunHook)]
    assert [315, 330, 345, 360, 375] == called
    told = [action for _, action in done if isinstance(action, Tell)]
    assert ((), ["MeshPromotion", "MeshPromotionEnded"]) == (memory.changes, _reasons(told))
    assert "b1 goes on leading cloud: the hook has not succeeded for 1.5 min" == told[1].message


@pytest.mark.parametrize("apply", [_kept, _stripped])
def test_a_new_attempt_waits_anew_and_spends_the_budget(apply):
    """In a whole day there are no more attempts than changes."""
    memory, done = _live(Promotions(SETTINGS), 86_400, apply=apply)
    began = [at_s for at_s, action in done if isinstance(action, Tell) and action.reason == "MeshPromotion"]
    assert ((), 4) == (memory.changes, len(began))
    assert all(later - earlier >= 300 + 90 for earlier, later in itertools.pairwise(began))
    assert sum(isinstance(action, SetMark) for _, action in done) <= 4 * 6


def test_a_return_that_cannot_be_made_is_given_up_and_tried_later():
    """The mark of b2 stays whatever is asked for: b2 goes on leading, and b1 has to be well anew."""
    promotions = Promotions(SETTINGS)
    stands = _at_phase(_begun(promotions), Phase.STANDS)
    back, _ = _play(promotions, look(WELL, MARKED, stands, at_s=400), look(WELL, MARKED, stands, at_s=2200))
    (action,) = _play(promotions, look(WELL, MARKED, back, at_s=2289))[1]
    assert isinstance(action, SetMark)
    after, actions = _play(promotions, look(WELL, MARKED, back, at_s=2290))
    (change,) = after.changes
    assert ("b2", False, Phase.STANDS) == (change.leader, change.is_return, change.phase)
    assert ["MeshPromotionEnded"] == _reasons(actions)
    assert [] == _play(promotions, look(WELL, MARKED, after, at_s=2295), look(WELL, MARKED, after, at_s=4094))[1]
    again, _ = _play(promotions, look(WELL, MARKED, after, at_s=4095))
    assert (True, 3) == (again.changes[0].is_return, len(again.spent_s))


def test_the_words_of_the_verdict_go_with_the_event():
    """A person reads `kubectl describe node`."""
    _, actions = _play(Promotions(SETTINGS), look(BROKEN), look(BROKEN, at_s=300))
    assert "b2 is to lead cloud instead of b1: new flows die at b1" == actions[1].message


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.DRY_RUN])
def test_a_change_that_nobody_is_to_go_on_with_is_ended(mode):
    """The part was switched off meanwhile: relays would hold the traffic there for ever, whoever ends their pins."""
    memory = _begun(Promotions(SETTINGS))
    switched = _settings(mode=mode)
    after, actions = _play(Promotions(switched), look(DETOURED, memory=memory, at_s=320))
    assert ((), ["MeshPromotionEnded"]) == (after.changes, _reasons(actions))

    changed = _at_phase(memory, Phase.CHANGED)
    after, actions = _play(Promotions(switched), look(FOLLOWED, MARKED, changed, at_s=330))
    assert (Phase.STANDS, ["MeshPromoted"]) == (after.changes[0].phase, _reasons(actions))


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.DRY_RUN])
def test_nobody_leads_again_by_a_dry_run(mode):
    """It changes nothing: neither a change of before it was one is taken back, nor is it forgotten."""
    stands = _at_phase(_begun(Promotions(SETTINGS)), Phase.STANDS)
    promotions = Promotions(_settings(mode=mode))
    looks = [look(WELL, known, stands, at_s=at_s) for known in (MARKED, cluster()) for at_s in (400, 2200, 4000)]
    assert [] == [action for each in looks for action in _play(promotions, each)[1]]
