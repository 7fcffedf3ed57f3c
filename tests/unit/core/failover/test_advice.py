"""What a daemon says that may change nothing."""

from __future__ import annotations

from meshwatchd.core.failover.advice import ADVICE_PAUSE_NS
from meshwatchd.model.failover_facts import FailoverAdvised, FailoverHeld
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, VerdictChanged
from meshwatchd.model.settings import SECOND, Mode
from tests.support.bench import primary_is_silent, ready
from tests.support.lab_mesh import settings_for


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
