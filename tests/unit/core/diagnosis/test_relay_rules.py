"""Rules about leaders: each has its case in `test_classifier`; here, where none of them is read."""

from __future__ import annotations

from msgspec.structs import replace

from meshwatchd.core.diagnosis.relay_rules import LOST_BY_LEADERS
from tests.unit.core.diagnosis.test_classifier import CASES


def test_no_leader_is_blamed_where_each_node_is_sent_its_own():
    """Whatever else is known: which node goes by the name of a leader says nothing of the way that packets take."""
    blamed = [evidence for _, evidence, _ in CASES if any(rule.matches(evidence) for rule in LOST_BY_LEADERS)]

    assert len(LOST_BY_LEADERS) == len(blamed)
    assert not any(rule.matches(replace(each, remote_relay="")) for each in blamed for rule in LOST_BY_LEADERS)
