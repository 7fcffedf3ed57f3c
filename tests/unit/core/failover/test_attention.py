"""Who asks at full pace, and until when."""

from __future__ import annotations

from meshwatchd.core.diagnosis.pair_evidence import RECENT_NS
from meshwatchd.core.failover.attention import AWAKE_NS, HEARD_NS
from meshwatchd.core.failover.topology_change_hold import CHANGE_NS
from meshwatchd.model.events import ActivePath, Banner, MeshStirred
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.outputs import SendProbe
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import ready

RESTED_NS = 15 * SECOND


def _resting(name="a3"):
    bench = ready(name)
    bench.run(RESTED_NS)
    assert not _is_awake(bench)
    return bench


def _is_awake(bench):
    return bench.controller.attention.is_awake(bench.now)


def _word(bench, peer, *, is_alarmed):
    active = ActivePath(pair=0, rank=0, generation=0, relays=bench.controller.watch.relays_print, is_alarmed=is_alarmed)
    bench.hear(peer, None, Banner(active=(active,)))


def _sent(bench, since, **wanted):
    plans = [bench.plans[probe.session] for probe in bench.said(SendProbe, since=since)]
    return sum(all(getattr(plan, name) == value for name, value in wanted.items()) for plan in plans)


def _is_call(bench, probe):
    return probe.is_confirm and bench.plans[probe.session].layer is Layer.UNDERLAY


def test_a_mesh_in_health_rests():
    """A member asks for a second what it used to ask for in a tenth of it."""
    bench = _resting()
    since = bench.now
    bench.run(10 * SECOND)

    assert _sent(bench, since) < 200


def test_a_lost_answer_wakes_nobody():
    """One in twenty is everyday loss: a burst is what it earns."""
    bench = _resting()
    lost = iter([True])
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 0 and next(lost, False)
    bench.run(2 * SECOND)

    assert next(lost, True), "one was lost"
    assert not _is_awake(bench)


def test_a_path_that_dies_wakes_all_who_ask_about_it_and_they_say_so():
    """Long before anybody can condemn it the standbys are asked closely, and the neighbours are told at once."""
    bench = _resting()
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 0
    bench.run(500 * MS)
    since = bench.now
    bench.run(SECOND)

    assert _is_awake(bench)
    assert bench.controller.active.is_alarmed
    assert _sent(bench, since, layer=Layer.RELAY, path=1, flow=FlowClass.PINNED, peer="b3") >= 4


def test_a_standby_that_dies_is_noticed_by_its_relay_and_by_whoever_hears_of_it():
    """The relays ask each other every few intervals; a member hears of it and looks itself."""
    relay, member = _resting("a2"), _resting("a3")
    relay.silent = lambda plan: plan.layer is Layer.RELAY and plan.path in (2, 3)
    since = relay.now
    relay.run(4 * SECOND)
    called = {relay.plans[probe.session].peer for probe in relay.said(SendProbe, since=since) if _is_call(relay, probe)}
    since = member.now
    _word(member, "a2", is_alarmed=relay.controller.active.is_alarmed)
    member.run(SECOND)

    assert relay.controller.active.is_alarmed
    assert {"a1", "a3"} == called
    assert _is_awake(member)
    assert not member.controller.active.is_alarmed, "what was heard is not passed on"
    for flow in FlowClass:
        assert _sent(member, since, layer=Layer.RELAY, path=2, flow=flow, peer="b3") >= 3


def test_a_word_of_rest_wakes_nobody():
    """It comes with every packet."""
    bench = _resting()
    _word(bench, "a2", is_alarmed=False)

    assert not _is_awake(bench)


def test_who_was_woken_rests_as_soon_as_who_was_alarmed():
    """The alarm itself lasts for ten seconds, and its word would carry it on for as long again."""
    bench = _resting()
    for _ in range(10):
        _word(bench, "a2", is_alarmed=True)
        bench.run(SECOND)
    assert _is_awake(bench)
    bench.run(HEARD_NS)

    assert not _is_awake(bench)


def test_answers_that_are_missing_while_the_mesh_s_agent_works_alarm_nobody():
    """Six nodes that ask at full pace for ten seconds would be in the way of its next change."""
    bench = _resting("a1")
    bench.feed(MeshStirred(what="kilo0 was made or brought up", is_rebuilding=True))
    bench.silent = lambda plan: plan.layer is Layer.WIREGUARD
    bench.run(CHANGE_NS - 100 * MS)
    assert not _is_awake(bench)

    bench.run(2 * SECOND)
    assert _is_awake(bench), "what lasts is seen"


def test_everybody_rests_again_when_nothing_has_been_wrong_for_a_while():
    """And not before: the path may fail again, as it has."""
    bench = _resting()
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 0
    bench.run(500 * MS)
    bench.silent = lambda _plan: False
    bench.run(AWAKE_NS // 2)
    assert _is_awake(bench)
    bench.run(AWAKE_NS + 5 * SECOND)

    assert not _is_awake(bench)


def test_a_standby_that_has_been_dead_for_long_lets_the_others_rest():
    """It may be so for weeks, and `status` says it; the path in use would be told."""
    bench = _resting("a2")
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 3
    bench.run(5 * SECOND)
    assert _is_awake(bench)
    bench.run(100 * SECOND)

    assert not _is_awake(bench)
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path in (0, 3)
    bench.run(2 * SECOND)
    assert _is_awake(bench)


def test_a_path_that_comes_up_again_wakes_whoever_sees_it():
    """Home is to be known before traffic goes there, and what others think of it with it."""
    bench = _resting("a2")
    group = bench.controller.watch.groups[3]
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 3
    bench.run(100 * SECOND)
    assert group.is_down
    assert not _is_awake(bench)
    bench.silent = lambda _plan: False
    for _ in range(600):
        if not group.is_down:
            break
        assert not _is_awake(bench)
        bench.run(100 * MS)
    bench.run(2 * SECOND)

    assert not group.is_down
    assert _is_awake(bench)


def test_who_could_not_look_has_not_looked():
    """While the mesh's own agent is at work little is asked: three seconds count from its end."""
    bench = _resting()
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 0
    bench.run(2 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.run(CHANGE_NS - 100 * MS)
    assert not bench.controller.attention.has_looked(bench.now)
    bench.run(RECENT_NS - SECOND)
    assert not bench.controller.attention.has_looked(bench.now)
    bench.run(2 * SECOND)

    assert bench.controller.attention.has_looked(bench.now)
