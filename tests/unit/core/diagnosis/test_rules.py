"""The table as a whole: a verdict for whatever is known, and a rule for every fault that probes find."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import Leg, classify
from meshwatchd.core.diagnosis.rules import TABLE
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.path_faults import PATH_FAULTS
from meshwatchd.model.service_faults import SERVICE_FAULTS
from meshwatchd.model.size_faults import SIZE_FAULTS
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LEGS


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
