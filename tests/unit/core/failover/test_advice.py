"""What a daemon says that may change nothing."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.failover.advice import ADVICE_PAUSE_NS
from meshwatchd.model.events import Banner, CoordinationKind, SnapshotReceived
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


@pytest.mark.parametrize("wait_ns", [2 * SECOND, 10 * SECOND])
def test_a_member_that_alone_loses_its_leader_is_advised_nothing(wait_ns):
    """Nothing would be moved in mode enforce either: no path is to blame.

    Its neighbour's word is known at once, the name of the fault only after three seconds.
    """
    bench = ready("b3", settings=settings_for("b3", mode=Mode.ADVISE))
    up, known = encode({(0, View.LEADER_UNDERLAY): Leg.ALIVE, (0, View.RELAY_PATH): Leg.ALIVE})
    bench.banners["b2"] = Banner(view_up=up, view_known=known, active=(bench.controller.active,))
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan)
    bench.run(wait_ns)

    assert 1 == len(bench.said(FailoverHeld))
    assert [] == bench.said(FailoverAdvised)
    bench.run(ADVICE_PAUSE_NS)
    assert [] == bench.said(FailoverAdvised)


def test_a_member_whose_neighbour_has_lost_the_leader_too_is_advised_to_leave_it():
    """Then it is the leader, and the first path without it is said."""
    bench = ready("b3", settings=settings_for("b3", mode=Mode.ADVISE))
    bench.object("b2")
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan)
    bench.run(3 * SECOND)
    (advice,) = bench.said(FailoverAdvised)

    assert FaultCode.LEADER_DEAD is bench.controller.verdicts.current.fault
    assert "b1" not in bench.controller.watch.paths[advice.to_rank].relays


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
