"""The confirm burst: when, how much, and how seldom."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.failover.confirm_burst import (
    CALL_GAP_NS,
    CALL_ROUNDS,
    EXPLAIN_NS,
    LIGHT_ROUNDS,
    RESERVE,
    SEEK_LIMIT_NS,
    SEEK_PART,
    SLICE,
)
from meshwatchd.core.probing.packet_budget import BURST_BUDGET, MOVES_OF_PAIR
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.events import Banner, CoordinationKind, SnapshotReceived
from meshwatchd.model.failover_facts import FailoverProposed
from meshwatchd.model.ids import FlowClass, Layer, LocationName, NodeName
from meshwatchd.model.outputs import SendProbe, SessionSuspected, SuspicionCleared
from meshwatchd.model.settings import MS, SECOND, ProbeProfile
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.topology import Location
from tests.support.bench import message, primary_is_silent, ready
from tests.support.lab_mesh import declared_mesh, snapshot_of

UNDECIDED_NS = TIMERS[ProbeProfile.DEFAULT].silence_ns - 5 * MS
"""For so long a silent path is doubted and no more: what is condemned is asked about otherwise."""


def _confirms(bench, since):
    return [bench.plans[probe.session] for probe in bench.said(SendProbe, since=since) if probe.is_confirm]


def _is_hard(plan):
    return plan.layer is Layer.RELAY and plan.path == 0 and plan.peer != "b1"


def test_the_first_miss_starts_one_burst():
    """Hard on the path in use, in both classes; lightly on all that could explain or replace it; told once."""
    bench = ready("a1")
    since = bench.now
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(UNDECIDED_NS)
    plans = _confirms(bench, since)
    hard = [plan for plan in plans if _is_hard(plan)]

    assert len(hard) >= SLICE
    assert {(peer, flow) for peer in ("b2", "b3") for flow in FlowClass} == {(p.peer, p.flow) for p in hard}
    assert 1 == len(bench.said(SessionSuspected, since=since))
    fresh = (Layer.RELAY, 1, "b3", FlowClass.FRESH)
    assert LIGHT_ROUNDS == sum(1 for p in plans if (p.layer, p.path, p.peer, p.flow) == fresh)


def _first_miss(bench):
    """One fresh probe of the path in use is lost, and what is sent in the 5 ms after its wait."""
    since = bench.now
    victim = iter(range(1))
    bench.silent = lambda plan: _is_hard(plan) and plan.flow is FlowClass.FRESH and next(victim, None) is not None
    bench.run_until_suspected()
    bench.run(5 * MS)
    return _confirms(bench, since)


def test_one_miss_asks_for_a_way_out_and_not_for_a_reason():
    """Reasons are for what was no chance; a path to go to has to be known good by then."""
    asked = [(plan.layer, plan.path) for plan in _first_miss(ready("a2"))]

    assert {(Layer.RELAY, path) for path in (1, 3)} <= set(asked)
    assert not [layer for layer, _ in asked if layer is Layer.OVERLAY]


def test_who_is_not_the_first_to_decide_asks_slower():
    """All nodes of two locations see a fault at once, and the relays of the next path have to hear their answers."""
    first, second, member = (sum(map(_is_hard, _first_miss(ready(name)))) for name in ("a1", "a2", "a3"))

    assert 1 <= second <= first // 2
    assert 1 <= member <= first // 2


def _first_two_are_silent(plan):
    return primary_is_silent(plan) or (plan.layer is Layer.RELAY and plan.path == 1)


def test_the_second_to_decide_hurries_where_the_next_path_is_broken_too():
    """A leader that dies takes the first standby path with it: the relays of that one will decide nothing."""
    hard = {True: 0, False: 0}
    for seed in range(1, 7):
        for has_next in hard:
            bench = ready("a2", seed=seed)
            since = bench.now
            bench.silent = primary_is_silent if has_next else _first_two_are_silent
            bench.run_until_suspected()
            bench.run(UNDECIDED_NS)
            hard[has_next] += sum(map(_is_hard, _confirms(bench, since)))

    assert hard[True] < hard[False] * 2 // 3


def test_probes_of_a_slice_leave_in_rows():
    """A wake-up costs more than a probe, at both ends: four leave at once, and four more after four gaps."""
    bench = ready("a1")
    since = bench.now
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(SLICE * MS)
    left = Counter(
        at
        for at, output in bench.outputs
        if at >= since and isinstance(output, SendProbe) and output.is_confirm and _is_hard(bench.plans[output.session])
    )
    began = min(left)

    assert [4, 4, 4, 4, 4] == [left[began + place * MS] for place in range(0, SLICE, 4)]


def test_one_slice_follows_the_other_while_the_tests_are_undecided():
    """Every third probe lost is neither health nor death: probes a millisecond apart until it is called one."""
    bench = ready("a1")
    since = bench.now
    count = iter(range(10**9))
    bench.silent = lambda plan: _is_hard(plan) and next(count) % 3 == 0
    bench.run_until_suspected()
    began = bench.now
    group = bench.controller.watch.group(bench.controller.watch.primary)
    while not group.is_down and bench.now < began + SECOND:
        bench.run(5 * MS)

    assert group.is_down
    assert bench.now - began < 400 * MS
    assert len([plan for plan in _confirms(bench, since) if _is_hard(plan)]) > 4 * SLICE


def test_where_only_new_flows_die_most_of_a_slice_is_fresh():
    """The known ones have been answered; what they would say again decides nothing."""
    bench = ready("a2")
    since = bench.now
    bench.silent = lambda plan: _is_hard(plan) and plan.flow is FlowClass.FRESH
    bench.run_until_suspected()
    while not bench.controller.watch.group(bench.controller.watch.primary).is_down:
        bench.run(MS)
    hard = [plan for plan in _confirms(bench, since) if _is_hard(plan)]
    fresh = sum(plan.flow is FlowClass.FRESH for plan in hard)

    assert fresh * 3 >= len(hard) * 2


def _doubt(bench, *peers):
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    for peer in peers:
        bench.banners[peer] = Banner(view_up=up, view_known=known, active=(bench.controller.active,))


def test_a_peer_that_doubts_the_path_starts_a_burst_here():
    """Its fresh probes met the fault first; a slice or a few, and no more of them for the same old doubt."""
    bench = ready("a2")
    _doubt(bench, "b2", "b3")
    since = bench.now
    for _ in range(50):
        bench.hear("b2", None, bench.banners["b2"])
        bench.run(20 * MS)
    early = len([plan for plan in _confirms(bench, since) if _is_hard(plan)])
    bench.run(10 * SECOND)

    assert SLICE <= early <= 8 * SLICE
    assert early == len([plan for plan in _confirms(bench, since) if _is_hard(plan)])
    assert [] == bench.said(SessionSuspected, since=since)


def test_who_is_told_of_a_doubt_waits_no_longer_than_who_has_told():
    """Its own first miss comes a wait after the word, and speaks of the same stall or the same fault."""
    bench = ready("a1")
    timers = TIMERS[ProbeProfile.DEFAULT]
    group = bench.controller.watch.group(bench.controller.mover.active)
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    bench.silent = primary_is_silent
    bench.hear("b2", None, Banner(view_up=up, view_known=known, active=(bench.controller.active,)))
    told = bench.now
    bench.run(timers.silence_ns - 5 * MS)
    assert group.is_suspect
    bench.run(15 * MS)

    assert group.is_down
    assert group.suspect_since - told >= 20 * MS


def test_a_doubt_counts_until_its_peer_takes_it_back():
    """However many packets of others come in between, and once more when it begins to doubt anew."""
    bench = ready("a2")
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    doubt = Banner(view_up=up, view_known=known, active=(bench.controller.active,))
    calm = Banner(active=(bench.controller.active,))
    suspicion = bench.controller.suspicion
    counted = []
    for peer, banner in (("b2", doubt), ("b3", calm), ("b3", doubt), ("b2", calm), ("b3", calm), ("b2", doubt)):
        bench.hear(peer, None, banner)
        counted.append(bool(suspicion.doubted_since(bench.now, besides="")))
        assert counted[-1] is suspicion.has_doubters

    assert [True, True, True, True, False, True] == counted


def test_who_decides_nothing_does_not_burst_for_another():
    """A member follows its relays: its own misses are reason enough, a peer's are not."""
    bench = ready("a3")
    _doubt(bench, "b2", "b3")
    since = bench.now
    bench.run(SECOND)

    assert [] == _confirms(bench, since)


@pytest.mark.parametrize(("doubters", "expected"), [((), True), (("b2",), False)])
def test_a_node_of_a_crowd_leaves_bursts_to_those_who_decide_once_somebody_doubts(doubters, expected):
    """The first to see a fault may be any node; the bursts of forty would be a flood."""
    bench = ready("a3")
    bench.controller.watch.is_close = False
    bench.silent = primary_is_silent
    _doubt(bench, *doubters)
    since = bench.now
    bench.run_until_suspected()
    bench.run(UNDECIDED_NS)

    assert expected is bool([plan for plan in _confirms(bench, since) if _is_hard(plan)])


def test_what_a_proposal_needs_is_asked_though_doubts_have_used_up_the_allowance():
    """A relay of fifty pairs that all lose their leader: the others cannot move before it has looked at their paths."""
    bench = ready("b2")
    bench.engine.state.allowance.left(bench.now)
    bench.engine.state.allowance._level = MOVES_OF_PAIR * 4 // 5
    bench.silent = primary_is_silent
    since = bench.now
    for _ in range(12):
        bench.hear("a1", message(CoordinationKind.PROPOSE, rank=1, target="b2"))
        bench.run(15 * MS)

    asked = [(plan.path, plan.peer) for plan in _confirms(bench, since) if plan.layer is Layer.RELAY]
    assert bench.spoken(CoordinationKind.GRANT, since=since)
    assert {(0, "a3"), (1, "a1"), (1, "a3")} <= set(asked)
    assert 2 * asked.count((1, "a3")) <= 12, "no more often than it may be answered"


@pytest.mark.parametrize(("doubters", "expected"), [(("b3",), False), (("b2", "b3"), True)])
def test_one_peers_doubt_does_not_touch_the_reserve(doubters, expected):
    """Where everyday loss has used up the rest, one miss of somebody else's is everyday loss; two of them are news."""
    bench = ready("a2")
    bench.controller.suspicion._left(bench.now)
    bench.controller.suspicion._budget = RESERVE
    _doubt(bench, *doubters)
    since = bench.now
    bench.run(200 * MS)

    assert expected is bool([plan for plan in _confirms(bench, since) if _is_hard(plan)])


@pytest.mark.parametrize(("budget", "expected"), [(BURST_BUDGET, CALL_ROUNDS), (RESERVE - SLICE, 0)])
def test_one_miss_calls_those_who_will_have_to_agree_while_misses_are_rare(budget, expected):
    """Every relay of either location, on a way that does not cross the suspected leader's overlay."""
    bench = ready("a3")
    bench.controller.suspicion._left(bench.now)
    bench.controller.suspicion._budget = budget
    since = bench.now
    victim = iter(range(1))
    bench.silent = lambda plan: _is_hard(plan) and plan.flow is FlowClass.FRESH and next(victim, None) is not None
    bench.run_until_suspected()
    bench.run(CALL_ROUNDS * CALL_GAP_NS)
    asked = [(plan.layer, plan.path, plan.peer) for plan in _confirms(bench, since)]

    for wanted in ((Layer.UNDERLAY, 65535, "a2"), (Layer.RELAY, 1, "b2"), (Layer.RELAY, 0, "b1")):
        assert (asked.count(wanted) >= CALL_ROUNDS) is bool(expected), asked


def test_a_lone_miss_is_cleared():
    """The burst finds nothing, and says so."""
    bench = ready("a3")
    since = bench.now
    watched = [s.plan for s in bench.controller.watch.group(bench.controller.watch.primary).sessions]
    victim = iter(watched[:1])
    bench.silent = lambda plan: plan in watched and next(victim, None) is not None
    bench.run(SECOND)

    assert 1 == len(bench.said(SessionSuspected, since=since))
    assert [0] == [fact.path for fact in bench.said(SuspicionCleared, since=since)]


def test_bursts_keep_within_their_budget():
    """A tenth of everything is lost for minutes: what is left of the budget is half of it, for a fault."""
    bench = ready("a3")
    count = iter(range(10**9))
    bench.silent = lambda _plan: next(count) % 10 == 0
    bench.run(60 * SECOND)
    since, suspicion = bench.now, bench.controller.suspicion
    saved = suspicion._left(since)
    bench.run(60 * SECOND)
    saved -= suspicion._left(bench.now)

    # What goes with the last slice of a minute is not cut off.
    assert BURST_BUDGET // 4 <= len(_confirms(bench, since)) <= BURST_BUDGET + saved + SLICE
    assert suspicion._left(bench.now) >= BURST_BUDGET // 4


def test_a_leader_looks_at_its_members_when_their_overlay_is_suspect():
    """Its own path may be fine; the others need its word soon."""
    bench = ready("a1")
    since = bench.now
    bench.silent = lambda plan: plan.layer is Layer.OVERLAY
    bench.run(400 * MS)
    asked = {(plan.layer, plan.peer) for plan in _confirms(bench, since)}

    assert {(Layer.OVERLAY, "a2"), (Layer.OVERLAY, "a3"), (Layer.UNDERLAY, "a2")} <= asked
    assert [] == bench.said(SessionSuspected, since=since)


def test_a_leader_whose_member_doubts_the_path_looks_at_its_own_overlay():
    """Its own path does not cross it, and its slow sessions would take seconds."""
    bench = ready("b1")
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    since = bench.now
    bench.hear("b2", None, Banner(view_up=up, view_known=known, active=(bench.controller.active,)))
    bench.run(50 * MS)
    asked = [(plan.layer, plan.peer, plan.flow) for plan in _confirms(bench, since)]

    for peer in ("b2", "b3"):
        assert all(asked.count((Layer.OVERLAY, peer, flow)) >= LIGHT_ROUNDS for flow in FlowClass)


def test_a_way_out_whose_first_answers_are_lost_is_asked_until_it_has_answered():
    """Regular probes come every 200 ms, and a chance miss takes eight answers to outweigh."""
    bench = ready("a1")
    lost: Counter[int] = Counter()

    def silent(plan):
        is_standby = plan.layer is Layer.RELAY and plan.path == 1
        lost.update([plan.session] if is_standby else ())
        return primary_is_silent(plan) or (is_standby and lost[plan.session] < LIGHT_ROUNDS)

    since = bench.now
    bench.silent = silent
    bench.run(400 * MS)
    assert bench.said(FailoverProposed, since=since)


def test_what_could_replace_a_condemned_path_is_sought_ever_more_seldom():
    """With nothing to go to: a fourth of the time that it lasts, and two seconds at most."""
    bench = ready("a2")
    bench.silent = lambda plan: plan.layer is Layer.RELAY
    bench.run(SECOND // 2)
    group = bench.controller.watch.group(bench.controller.watch.primary)
    assert group.is_down
    bench.run(group.down_since + SEEK_LIMIT_NS - SECOND - bench.now)
    since = bench.now
    bench.run(SECOND)
    rounds = [plan for plan in _confirms(bench, since) if plan.path == 1 and plan.peer == "b3"]
    assert 1 < len(rounds) <= SEEK_PART
    since = bench.now
    bench.run(SECOND)
    assert [] == _confirms(bench, since)


def test_a_condemned_path_that_nothing_explains_is_asked_about_for_a_while():
    """The layers below, again and again, but not for ever."""
    bench = ready("a2")
    bench.silent = lambda plan: primary_is_silent(plan) or (plan.layer is Layer.OVERLAY and plan.peer == "a1")
    bench.run(SECOND)
    group = bench.controller.watch.group(bench.controller.watch.primary)
    assert group.is_down
    since = bench.now
    bench.controller.suspicion.explain(bench.now)
    bench.controller.suspicion.explain(bench.now)
    bench.run(50 * MS)
    asked = [plan for plan in _confirms(bench, since) if plan.layer is Layer.UNDERLAY and plan.peer == "a1"]
    assert LIGHT_ROUNDS == len(asked)

    bench.run(EXPLAIN_NS)
    since = bench.now
    bench.controller.suspicion.explain(bench.now)
    bench.run(50 * MS)
    assert [] == [plan for plan in _confirms(bench, since) if plan.layer is Layer.UNDERLAY]


def test_a_path_in_doubt_is_asked_closely_though_each_of_its_sessions_is_good():
    """Misses of each are forgiven sooner than all together, which take sixty answers: at rest, half an hour."""
    bench = ready("a1")
    bench.run(20 * SECOND)
    group = bench.controller.watch.groups[bench.controller.watch.paths[-1].number]
    for session in group.sessions:
        for _ in range(7):
            group.observe(session, Outcome.MISS, bench.now)

    assert group.is_suspect
    assert all(session.is_good for session in group.sessions)
    bench.run(15 * SECOND)
    assert not group.is_suspect


@pytest.mark.parametrize("misses", [1, 3])
def test_a_doubt_about_a_path_that_this_node_does_not_probe_any_more_is_over(misses):
    """It has become the leader, and the path goes around it: nobody would ever answer, and the burst would not end."""
    bench = ready("a2")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.engine.state.use_paths(bench.now)
    bench.run(SECOND)
    lost: list[object] = []

    def silent(plan):
        is_fresh = (plan.layer, plan.path, plan.peer, plan.flow) == (Layer.RELAY, 1, "b3", FlowClass.FRESH)
        is_lost = is_fresh and len(lost) < misses
        lost.extend([plan] if is_lost else [])
        return is_lost

    bench.silent = silent
    group = bench.controller.watch.group(bench.controller.mover.active)
    while not group.is_suspect:
        bench.run(5 * MS)
    mesh = declared_mesh()
    onprem = Location(name=LocationName("onprem"), leader=NodeName("a2"), standbys=(NodeName("a1"),))
    locations = tuple(onprem if each.name == "onprem" else each for each in mesh.location)
    rules = bench.controller.context.planner.override(bench.controller.mover.active)
    changed = msgspec.structs.replace(mesh, location=locations)
    bench.feed(SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a2", rules=rules), mesh=changed)))
    bench.silent = lambda _plan: False
    bench.run(5 * SECOND)

    group = bench.controller.watch.group(bench.controller.mover.active)
    assert ((), False, False) == (group.sessions, group.is_suspect, bench.controller.suspicion.is_raised)
