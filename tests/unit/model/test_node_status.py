"""What is known of a node."""

from __future__ import annotations

import pytest

from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import FRESH_NS, NodeStatus


@pytest.mark.parametrize(("age_ns", "is_fresh"), [(None, False), (0, True), (FRESH_NS, True), (FRESH_NS + 1, False)])
def test_a_report_is_of_the_present_until_three_hellos_were_missed(age_ns, is_fresh):
    """Of a node that has said nothing, nothing is known."""
    assert is_fresh is NodeStatus(name=NodeName("b1"), report_age_ns=age_ns).is_report_fresh
