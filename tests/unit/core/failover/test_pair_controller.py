"""One pair from evidence to action, in order: ready, verdict, decision, held or done or advised."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.failover.damping import FLAP_PENALTY
from meshwatchd.core.failover.pair_controller import REVIEW_NS
from meshwatchd.core.failover.pair_diagnosis import START_GRACE_NS
from meshwatchd.core.failover.state_machine import PATIENCE_NS
from meshwatchd.model.events import CoordinationKind, MeshStirred, SnapshotReceived, Stalled
from meshwatchd.model.failover_facts import FailoverHeld, FailoverProposed, OverrideRetired
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.outputs import ApplySwitch, DaemonReady, VerdictChanged
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.settings import MS, SECOND, Mode
from tests.support.bench import Bench, nothing_is_silent, primary_is_silent, ready
from tests.support.lab_mesh import declared_mesh, led_by, settings_for, snapshot_of


def _faults(bench, since=0):
    return [fact.verdict.fault for fact in bench.said(VerdictChanged, since=since)]


def test_ready_is_told_once_when_every_path_has_answered():
    """Nobody is judged before."""
    bench = Bench("a3")
    bench.run(300 * MS)
    assert not bench.controller.is_ready
    bench.run(5 * SECOND)

    assert [0] == [fact.pair for fact in bench.said(DaemonReady)]


def test_a_standby_that_never_answers_delays_readiness_no_longer_than_the_grace():
    """Its link may still be shaking hands; after that it is reported, and the rest goes on."""
    bench = Bench("a3")
    bench.silent = lambda plan: plan.path == 1
    bench.run(START_GRACE_NS - SECOND)
    assert [] == bench.said(DaemonReady)
    assert [] == _faults(bench)
    bench.run(6 * SECOND)

    assert bench.controller.is_ready
    assert [FaultCode.STANDBY_DOWN] == _faults(bench)


def test_the_deadline_is_never_missed_by_much_and_never_stuck():
    """A review each tenth of a second while nothing happens; after it the next one is due later."""
    bench = ready("a3")
    controller = bench.controller

    assert bench.now < controller.deadline() <= bench.now + REVIEW_NS
    bench.silent = primary_is_silent
    for _ in range(300):
        bench.run(MS)
        assert controller.deadline() > bench.now - MS


def test_held_is_told_once_for_each_reason():
    """Broken, and nowhere to go: an operator needs one line, not ten a second."""
    bench = ready("a2")
    bench.silent = lambda plan: plan.layer in (Layer.RELAY, Layer.EFFECTIVE)
    bench.run(3 * SECOND)

    assert ["the path in use is broken and no other path answers"] == [f.reason for f in bench.said(FailoverHeld)]
    assert [] == bench.said(FailoverProposed)


def test_an_adopted_path_is_the_one_in_use():
    """With a generation of its own, so that others learn of it."""
    bench = ready("b2")
    path = bench.controller.watch.paths[3]
    bench.controller.adopt(path, bench.now)

    assert (0, 3, 1) == (bench.controller.active.pair, bench.controller.active.rank, bench.controller.active.generation)


def test_a_stall_drops_the_suspicion():
    """Half the evidence for a trip, gathered while nobody was listening."""
    bench = ready("a2")
    bench.silent = lambda plan: primary_is_silent(plan) and plan.flow is FlowClass.FRESH
    bench.run(45 * MS)
    bench.feed(Stalled(late_ns=SECOND))
    group = bench.controller.watch.group(bench.controller.watch.primary)

    assert (0.0, False) == (group.nats, group.is_suspect)


@pytest.mark.parametrize("is_stirred", [True, False])
def test_what_was_missed_while_the_mesh_was_rewritten_is_no_doubt_afterwards(is_stirred):
    """b2 takes over from b1, and the standby over b1 missed some answers meanwhile; by themselves they count."""
    bench = ready("a2")
    relays = {"a2", "b1"}
    before = next(path for path in bench.controller.watch.paths if set(path.relays) == relays)
    bench.silent = lambda plan: plan.path == before.number
    while not bench.controller.watch.group(before).is_suspect:
        bench.run(10 * MS)
    bench.silent = lambda _plan: False
    if is_stirred:
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    mesh = declared_mesh()
    led = [
        msgspec.structs.replace(each, leader="b2", standbys=("b1",)) for each in mesh.location if each.name == "cloud"
    ]
    others = [each for each in mesh.location if each.name != "cloud"]
    changed = msgspec.structs.replace(mesh, location=(*led, *others))
    bench.feed(SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a2"), mesh=changed)))
    after = next(path for path in bench.controller.watch.paths if set(path.relays) == relays)

    assert is_stirred is not bench.controller.watch.group(after).is_suspect


def test_a_banned_path_is_asked_for_again_after_the_hold_down():
    """A refusal is not for ever."""
    bench = ready("b2")
    bench.silent = lambda plan: primary_is_silent(plan) or plan.path == 3
    bench.run(PATIENCE_NS + 8 * SECOND)

    assert [1, 1] == [fact.to_rank for fact in bench.said(FailoverProposed)][:2]


def _homeward(bench, since):
    return [m for m in bench.spoken(CoordinationKind.PROPOSE, since=since) if m.rank == 0]


def _away(name="b2"):
    bench = ready(name)
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    return bench


def test_home_is_asked_for_on_the_members_word_only():
    """Nobody speaks for the primary path, or one speaks against it: traffic stays, however clean it is from here."""
    bench = _away()
    since = bench.now
    bench.run(15 * SECOND)
    assert [] == _homeward(bench, since)
    bench.object("a3")
    bench.run(5 * SECOND)
    bench.vouch()
    bench.object("a3")
    bench.run(15 * SECOND)
    assert [] == _homeward(bench, since)
    bench.vouch()
    bench.run(5 * SECOND)

    assert _homeward(bench, since)


def test_home_is_not_asked_for_while_the_mesh_is_rewritten():
    """A leader change may make the primary path good for a moment."""
    bench = _away()
    since = bench.now
    bench.run(8 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.vouch()
    bench.run(2 * SECOND)
    assert [] == _homeward(bench, since)
    bench.run(5 * SECOND)

    assert _homeward(bench, since)


def test_a_broken_path_is_left_while_the_mesh_is_rewritten():
    """Only verdicts wait for its end."""
    bench = ready("b2")
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    since = bench.now
    bench.silent = primary_is_silent
    bench.run(SECOND)

    assert [1] == [fact.to_rank for fact in bench.said(FailoverProposed, since=since)][:1]
    assert {FaultCode.NONE} >= set(_faults(bench, since))


def _shown(name, mesh, rules):
    return msgspec.structs.replace(snapshot_of(name, mesh=mesh, rules=rules), mesh=mesh)


def _led_by(bench, leader):
    controller, began = bench.controller, bench.now
    standing = controller.context.planner.override(controller.mover.active)
    bench.feed(SnapshotReceived(snapshot=_shown(bench.engine.state.node, led_by(leader), standing)))
    bench.run(2 * SECOND)
    return [command.switch for command in bench.said(ApplySwitch, since=began)]


@pytest.mark.parametrize(
    ("name", "rank", "switch"),
    [
        ("a1", 1, None),
        ("a3", 1, None),
        ("b2", 1, None),
        ("b3", 1, None),
        ("b1", 1, Switch(add=(Rule(priority=5460, table=7701),))),
        ("b2", 2, Switch(delete=(Rule(priority=5460, table=7702),))),
    ],
)
def test_traffic_stays_on_its_standby_link_when_another_relay_leads(name, rank, switch):
    """b2 takes over from b1, nothing is retired: a leader that is bypassed has no rule, one that leads no more has."""
    bench = ready(name)
    bench.controller.adopt(bench.controller.watch.paths[rank], bench.now)

    assert ([] if switch is None else [switch]) == _led_by(bench, "b2")
    assert rank == bench.controller.mover.active.rank
    assert bench.controller.parting is None
    assert [] == bench.said(OverrideRetired)


def test_who_may_change_nothing_leaves_the_rules_to_the_change_of_leader():
    """b1 leads no more, and its rule is not added where nothing is."""
    bench = ready("b1", settings=settings_for("b1", mode=Mode.OBSERVE))
    bench.controller.adopt(bench.controller.watch.paths[0], bench.now)

    assert [] == _led_by(bench, "b2")


@pytest.mark.parametrize(
    ("silent", "penalties"),
    [((0, 4), [1, 0, 0, 0, 1]), ((4,), [0, 0, 0, 0, 2]), ((0,), [2, 0, 0, 0, 0])],
    ids=["leaders", "spare", "primary"],
)
def test_each_path_is_punished_for_itself(silent, penalties):
    """A fault of a leader's overlay is one flap of the primary path, and one of the spare link alone is none."""
    bench = ready("a3")
    for _ in range(max(penalties)):
        bench.silent = lambda plan: plan.layer in (Layer.RELAY, Layer.EFFECTIVE) and plan.path in silent
        bench.run(8 * SECOND)
        bench.silent = nothing_is_silent
        bench.run(8 * SECOND)

    assert penalties == [
        round(path.penalty / FLAP_PENALTY) for path in bench.engine.status(bench.now, {}).pairs[0].paths
    ]
