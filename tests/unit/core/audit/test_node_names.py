"""Two nodes of one name are one finding that names both addresses."""

from __future__ import annotations

from meshwatchd.core.audit.node_names import audit_names
from meshwatchd.core.membership.replay_protection import Rival
from meshwatchd.model.fault_codes import FaultCode


def test_both_addresses_are_named_and_which_one_stays():
    """The operator has to know where to go."""
    (finding,) = audit_names([Rival("b1", "10.0.0.1", "10.0.0.2")])

    assert (FaultCode.DUPLICATE_NODE_NAME, "b1", "b1") == (finding.code, finding.subject, finding.culprit)
    assert "b1: the one at 10.0.0.1, and another one at 10.0.0.2" in finding.because[0]


def test_this_node_may_be_the_first():
    """It hears its own name from elsewhere."""
    (finding,) = audit_names([Rival("a1", "", "10.0.0.2")])

    assert "a1: this node, and another one at 10.0.0.2" in finding.because[0]
