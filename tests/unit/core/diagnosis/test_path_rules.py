"""Rules about a broken path: each has its case in `test_classifier`; here, that they are all, and how bad that is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import classify
from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.path_rules import BROKEN_PATH, is_alone
from meshwatchd.model.faults import FaultCode, Severity
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LEGS, MEMBER

UNKNOWN: dict[str, Any] = dict.fromkeys(LEGS, Leg.UNKNOWN)
BROKEN = replace(HEALTHY, **UNKNOWN | {"path": Leg.DEAD})


def test_a_broken_path_has_a_verdict_whatever_else_is_known():
    """And names nobody then; one that works has none of these."""
    last = BROKEN_PATH[-1]

    assert FaultCode.UNDETERMINED is next(rule for rule in BROKEN_PATH if rule.matches(BROKEN)).fault is last.fault
    assert "" == last.culprit(BROKEN)
    assert not any(rule.matches(HEALTHY) for rule in BROKEN_PATH)


def test_a_node_to_which_nothing_answers_is_alone():
    """With one voice left it is a path that is down."""
    assert is_alone(replace(BROKEN, is_anything_alive=False))
    assert not is_alone(BROKEN)
    assert not is_alone(replace(HEALTHY, is_anything_alive=False))


@pytest.mark.parametrize("has_good_standby", [True, False])
def test_a_member_that_has_lost_its_own_leader_loses_packets(has_good_standby):
    """Its traffic is lost as long as it is on that path, though nothing but a node is named."""
    alone = replace(MEMBER, underlay=Leg.DEAD, neighbours_leader=Leg.ALIVE, has_good_standby=has_good_standby)
    verdict = classify(alone)

    assert (FaultCode.NODE_UNREACHABLE, "b3", Severity.CRITICAL) == (verdict.fault, verdict.culprit, verdict.severity)
    assert Severity.WARNING is classify(replace(alone, is_active_down=False)).severity
    other = classify(replace(HEALTHY, silent_nodes=("a2",), is_active_down=True))
    assert (FaultCode.NODE_UNREACHABLE, Severity.WARNING) == (other.fault, other.severity)
