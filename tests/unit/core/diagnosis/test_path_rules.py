"""Rules about a broken path: each has its case in `test_classifier`; here, that they are all there is to say of one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.path_rules import BROKEN_PATH, is_alone
from meshwatchd.model.faults import FaultCode
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LEGS

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
