"""The table as a whole: a verdict for whatever is known, and a rule for every fault that probes find."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import Leg, classify
from meshwatchd.core.diagnosis.rules import TABLE
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import NodeName
from meshwatchd.model.path_faults import PATH_FAULTS
from meshwatchd.model.service_faults import SERVICE_FAULTS
from meshwatchd.model.size_faults import SIZE_FAULTS
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LEGS, MEMBER


def test_the_table_is_total():
    """Its last line asks nothing, so there is a verdict whatever is known."""
    unknown: dict[str, Any] = dict.fromkeys(LEGS, Leg.UNKNOWN)
    nothing = replace(HEALTHY, **unknown, is_anything_alive=False)

    assert FaultCode.NONE is TABLE[-1].fault is classify(nothing).fault


def test_every_fault_that_probes_find_but_two_has_a_rule():
    """Two are what becomes of others: where there is nowhere to go, and where a routing daemon's routes still lead."""
    of_paths = {fault.code for fault in (*PATH_FAULTS, *SIZE_FAULTS, *SERVICE_FAULTS)}

    consequences = {FaultCode.ALL_PATHS_DOWN, FaultCode.NEXT_HOP_DEAD}
    of_clusters = {FaultCode.CLUSTERMESH_DATAPATH_CUT, FaultCode.CLUSTER_BACKENDS_UNREACHABLE}
    assert of_paths | of_clusters | {FaultCode.OFFLOAD_FAULT} == {rule.fault for rule in TABLE} | consequences


LOST = replace(HEALTHY, is_active_down=True, lost_in_use=(NodeName("b2"), NodeName("a1")))


def test_a_standby_in_use_that_loses_traffic_is_critical_before_whatever_only_warns():
    """Its relays are the evidence, and why nobody leaves it where that is known."""
    lost = "the path in use by b2 and a1 does not answer here, the primary path does"
    aside = replace(LOST, silent_nodes=("a3",), missing_standbys=((NodeName("b1"), NodeName("a2")),))
    for evidence in (LOST, aside):
        verdict = classify(evidence)
        assert (FaultCode.UNDETERMINED, Severity.CRITICAL, "") == (verdict.fault, verdict.severity, verdict.culprit)
        assert (lost,) == verdict.because
    assert (lost, "no traffic is moved") == classify(replace(LOST, kept_by="no traffic is moved")).because


def test_a_broken_primary_path_is_named_before_a_standby_in_use():
    """What is said of a broken path has the layer; and where the primary path never answered, nothing does."""
    assert (FaultCode.LEADER_DEAD, "b1") == (
        (
            verdict := classify(
                replace(
                    LOST,
                    path=Leg.DEAD,
                    underlay=Leg.DEAD,
                    pinned=Leg.DEAD,
                    overlay=Leg.DEAD,
                    overlay_pinned=Leg.DEAD,
                    own_view_wireguard=Leg.UNKNOWN,
                    neighbours_leader=Leg.UNKNOWN,
                )
            )
        ).fault,
        verdict.culprit,
    )
    assert FaultCode.NONE is classify(replace(LOST, path=Leg.UNKNOWN)).fault


def test_a_missing_standby_says_that_the_path_in_use_is_good_where_it_is():
    """Beside a path in use that is down it does not."""
    missing = replace(HEALTHY, missing_standbys=((NodeName("b2"), NodeName("a1")),))
    rest = ("the standby path by b2 and a1 does not answer",)
    assert ("the path in use is good", *rest) == classify(missing).because
    assert rest == classify(replace(missing, is_active_down=True)).because


def test_a_standby_in_use_that_has_just_missed_answers_is_no_loss_of_all_paths():
    """The primary path answers: no verdict says in one breath that every layer does and that no path is left."""
    young = replace(HEALTHY, is_active_down=True, has_good_standby=False)

    assert (FaultCode.NONE, Severity.OK, ("every layer answers",)) == (
        classify(young).fault,
        classify(young).severity,
        classify(young).because,
    )
    assert FaultCode.ALL_PATHS_DOWN is classify(replace(MEMBER, overlay=Leg.UNKNOWN, has_good_standby=False)).fault
