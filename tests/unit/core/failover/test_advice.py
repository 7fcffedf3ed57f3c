"""What a daemon says that may change nothing."""

from __future__ import annotations

import msgspec

from meshwatchd.core.failover.advice import ADVICE_PAUSE_NS
from meshwatchd.model.events import CoordinationKind, SnapshotReceived
from meshwatchd.model.failover_facts import FailoverAdvised, FailoverHeld
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, VerdictChanged
from meshwatchd.model.settings import SECOND, Mode
from meshwatchd.model.snapshot import ForeignObject
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import settings_for, snapshot_of


def test_observe_names_the_fault_and_advises_nothing():
    """Nothing was asked for."""
    bench = ready("b2", settings=settings_for("b2", mode=Mode.OBSERVE))
    bench.silent = primary_is_silent
    bench.run(2 * SECOND)

    assert [FaultCode.ALL_PATHS_DOWN] != [fact.verdict.fault for fact in bench.said(VerdictChanged)]
    assert [] == bench.said(FailoverAdvised)
    assert [] == bench.said(ApplySwitch)
    assert ["daemon.mode is observe: nothing is changed"] == [f.reason for f in bench.said(FailoverHeld)]


def test_advise_says_the_operations_once_a_minute():
    """And does none of them."""
    bench = ready("b2", settings=settings_for("b2", mode=Mode.ADVISE))
    # A black hole on b1's overlay, seen from b2: nothing through it, and nothing from it over the overlay.
    bench.silent = lambda plan: primary_is_silent(plan) or (plan.layer is Layer.OVERLAY and plan.peer == "b1")
    bench.run(3 * SECOND)
    (advice,) = bench.said(FailoverAdvised)
    assert (1, ("ip rule add pref 5460 from all lookup 7701 protocol 117",)) == (advice.to_rank, advice.operations)
    bench.run(ADVICE_PAUSE_NS)

    assert 2 == len(bench.said(FailoverAdvised))
    assert [] == bench.said(ApplySwitch)


def test_what_was_said_while_nothing_could_be_changed_keeps_nobody_from_acting_later():
    """A rule of somebody's own stood in the way when the path broke; it is gone, and a minute is long."""
    foreign = (ForeignObject(what="rule 5410 of somebody", owner_protocol=3, priority=5410),)
    bench = Bench("a1", snapshot=msgspec.structs.replace(snapshot_of("a1"), collisions=foreign))
    bench.run(12 * SECOND)
    bench.silent = primary_is_silent
    bench.run(3 * SECOND)
    (held,) = bench.said(FailoverHeld)
    assert held.reason.startswith("what `meshwatchctl status` names is in the place of this daemon's rules")

    since = bench.now
    bench.feed(SnapshotReceived(snapshot=snapshot_of("a1")))
    bench.run(3 * SECOND)
    assert bench.spoken(CoordinationKind.PROPOSE, since=since)
