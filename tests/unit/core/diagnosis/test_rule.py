"""Sections of the classifier's table."""

from __future__ import annotations

from msgspec.structs import replace

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.rule import Rule, where
from meshwatchd.model.faults import FaultCode
from tests.unit.core.diagnosis.test_classifier import HEALTHY, LEADER


def test_a_rule_of_a_section_matches_where_the_section_holds_and_it_does_itself():
    """Each keeps its own question, and its fault."""
    of_leaders = Rule(fault=FaultCode.LOCAL, matches=lambda e: e.is_leader, because=lambda _: ())
    of_all = Rule(fault=FaultCode.NONE, matches=lambda _: True, because=lambda _: ())
    section = where(lambda e: e.path is Leg.DEAD, (of_leaders, of_all))

    found = [[rule.fault for rule in section if rule.matches(e)] for e in (LEADER, replace(LEADER, is_leader=False))]
    assert [[FaultCode.LOCAL, FaultCode.NONE], [FaultCode.NONE]] == found
    assert not any(rule.matches(replace(HEALTHY, is_leader=True)) for rule in section)
