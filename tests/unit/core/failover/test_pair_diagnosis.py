"""When a fault is named: at once where a path was condemned, seldom in a burst, and not where nobody looks."""

from __future__ import annotations

from meshwatchd.core.diagnosis.verdict_hold import SETTLE_NS
from meshwatchd.core.failover.pair_diagnosis import DIAGNOSIS_GAP_NS, MOVE_NS, START_GRACE_NS
from meshwatchd.core.failover.topology_change_hold import CHANGE_NS
from meshwatchd.model.canary import Canary
from meshwatchd.model.events import Banner, MeshStirred, OperatorRequested, OperatorVerb, PeerFault, PeersTold
from meshwatchd.model.failover_facts import FailoverProposed
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import VerdictChanged
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import settings_for, with_canaries

CANARIES = tuple(
    Canary(name=f"web-{node}", address=f"10.244.{number}.9", port=80, node=NodeName(node))
    for number, node in ((2, "a2"), (3, "a3"))
)


def test_a_path_that_never_answered_is_no_health():
    """Long after the start, `every layer answers` would be a lie; yet nobody is accused and nothing is moved."""
    bench = Bench("a2")
    bench.silent = primary_is_silent
    bench.run(START_GRACE_NS + 2 * SECOND)

    assert [FaultCode.UNDETERMINED] == [fact.verdict.fault for fact in bench.said(VerdictChanged)]
    assert [] == bench.said(FailoverProposed)
    assert not bench.controller.is_ready


def test_the_cause_of_what_was_said_may_be_told_while_nobody_looks():
    """An audit takes half a minute to be sure; by then traffic has long moved, and the mesh rests."""
    bench = ready("a3")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.silent = primary_is_silent
    bench.run(30 * SECOND)
    assert (FaultCode.UNDETERMINED, False) == (
        bench.controller.verdicts.current.fault,
        bench.controller.attention.is_awake(bench.now),
    )
    word = PeerFault(fault=FaultCode.CONNTRACK_FULL, culprit=NodeName("b1"), source=NodeName("b1"))
    bench.feed(PeersTold(faults=(word,)))
    bench.run(2 * SECOND)

    assert (FaultCode.CONNTRACK_FULL, "b1") == (
        bench.controller.verdicts.current.fault,
        bench.controller.verdicts.current.culprit,
    )
    assert not bench.controller.attention.is_awake(bench.now)


def test_what_is_put_off_is_looked_at_when_it_is_due():
    """Two reviews of a burst, a millisecond apart: the second names nothing, and asks for a third."""
    bench = ready("a3")
    bench.run(SECOND)
    diagnosis, began = bench.controller.diagnosis, bench.now + SECOND
    assert [] == list(diagnosis.review(began))
    assert 0 == diagnosis.again_at
    assert [] == list(diagnosis.review(began + MS))
    assert began + DIAGNOSIS_GAP_NS == diagnosis.again_at
    assert [] == list(diagnosis.review(began + DIAGNOSIS_GAP_NS))
    assert 0 == diagnosis.again_at


def test_a_standby_is_missing_once_links_have_had_time_to_shake_hands():
    """Not a second earlier."""
    bench = Bench("a3")
    bench.silent = lambda plan: plan.path == 1
    bench.run(START_GRACE_NS - SECOND)
    assert () == bench.controller.diagnosis.evidence(bench.now).missing_standbys
    bench.run(6 * SECOND)
    assert (("b2", "a1"),) == bench.controller.diagnosis.evidence(bench.now).missing_standbys


def test_a_node_that_is_silent_over_every_standby_takes_none_of_them_down():
    """Behind b2 there is nobody but b3 whom a path goes around to; over other standbys b2 answers, and b3 does not."""
    bench = ready("a1")
    behind_b2 = {path.number for path in bench.controller.watch.paths if "b2" in path.relays}
    bench.run(START_GRACE_NS)
    bench.silent = lambda plan: plan.path > 0 and plan.peer == "b3"
    bench.run(90 * SECOND)
    assert {True} == {bench.controller.watch.groups[number].is_missing for number in behind_b2}
    assert () == bench.controller.diagnosis.evidence(bench.now).missing_standbys

    bench.silent = lambda plan: plan.path > 0 and (plan.peer == "b3" or plan.path in behind_b2)
    bench.run(90 * SECOND)
    assert bench.controller.diagnosis.evidence(bench.now).missing_standbys, "b2 does not answer over its own either"

    bench.silent = lambda plan: plan.path in behind_b2
    bench.run(90 * SECOND)
    assert ["b2"] == sorted({relays[0] for relays in bench.controller.diagnosis.evidence(bench.now).missing_standbys})


def test_what_was_said_before_the_path_died_is_not_what_it_died_of():
    """It died while the mesh's own agent was at work, when nothing is named, and traffic has left it since."""
    bench = ready("a3")
    bench.run(START_GRACE_NS)
    bench.silent = lambda plan: plan.path == 1
    bench.run(90 * SECOND)
    assert FaultCode.STANDBY_DOWN is bench.controller.verdicts.current.fault

    bench.silent = lambda plan: plan.path == 1 or primary_is_silent(plan)
    for _ in range(4):
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
        bench.run(SECOND)
    bench.controller.adopt(bench.controller.watch.paths[2], bench.now)
    bench.run(CHANGE_NS)
    assert bench.controller.watch.group(bench.controller.watch.primary).is_down
    assert FaultCode.STANDBY_DOWN is not bench.controller.verdicts.current.fault


def _standby_in_use_is_silent(bench: Bench) -> int:
    """Traffic is on a standby that dies; returns when that was condemned."""
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.run(SECOND)
    bench.silent = lambda plan: plan.path == 1
    group = bench.controller.watch.group(bench.controller.mover.active)
    while not group.is_down:
        bench.run(5 * MS)
    return group.down_since


def test_a_standby_in_use_that_dies_is_told_once_a_move_would_have_left_it():
    """Much sooner than a standby that carries nothing; and the pause of this node is told with it."""
    bench = ready("a3")
    bench.feed(OperatorRequested(request=1, verb=OperatorVerb.PAUSE, name="ann"))
    down_since = _standby_in_use_is_silent(bench)
    bench.run(down_since + MOVE_NS + SETTLE_NS - 50 * MS - bench.now)
    assert FaultCode.NONE is bench.controller.verdicts.current.fault

    bench.run(300 * MS)
    verdict = bench.controller.verdicts.current
    assert (FaultCode.UNDETERMINED, Severity.CRITICAL) == (verdict.fault, verdict.severity)
    assert (
        "the path in use by b2 and a1 does not answer here, the primary path does",
        "no traffic is moved: paused by ann: no reason given",
    ) == verdict.because


def test_a_node_that_has_just_followed_a_move_tells_of_no_lost_path():
    """It may have seen that path down for long, and is about to follow the next move."""
    bench = ready("a3")
    _standby_in_use_is_silent(bench)
    bench.run(SECOND)
    assert ("b2", "a1") == bench.controller.diagnosis.evidence(bench.now).lost_in_use
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    assert () == bench.controller.diagnosis.evidence(bench.now).lost_in_use
    bench.run(MOVE_NS)
    assert ("b2", "a1") == bench.controller.diagnosis.evidence(bench.now).lost_in_use


def test_a_relay_of_the_standby_in_use_that_says_what_is_wrong_is_named():
    """The relays of the primary path are not what this is about."""
    for culprit, expected in (("b2", FaultCode.CONNTRACK_FULL), ("b1", FaultCode.UNDETERMINED)):
        bench = ready("a3")
        _standby_in_use_is_silent(bench)
        word = PeerFault(fault=FaultCode.CONNTRACK_FULL, culprit=NodeName(culprit), source=NodeName(culprit))
        bench.feed(PeersTold(faults=(word,)))
        bench.run(2 * SECOND)
        assert expected is bench.controller.verdicts.current.fault


def test_what_is_silent_at_a_drained_peer_is_left_out_unless_traffic_is_lost():
    """A path in use that is down may be lost at whatever it was left on."""
    bench = Bench("b3", settings=with_canaries(settings_for("b3"), *CANARIES))
    bench.banners["a2"] = Banner(is_admin_down=True)
    bench.silent = lambda plan: plan.layer is Layer.POD
    bench.run(60 * SECOND)
    assert (("web-a3", "a3"),) == bench.controller.diagnosis.evidence(bench.now).silent_canaries
    bench.silent = lambda plan: plan.layer is Layer.POD or primary_is_silent(plan)
    bench.run(5 * SECOND)
    evidence = bench.controller.diagnosis.evidence(bench.now)
    assert evidence.is_active_down
    assert (("web-a2", "a2"), ("web-a3", "a3")) == evidence.silent_canaries
