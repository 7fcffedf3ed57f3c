"""What a node passes on of what others say of themselves; the rest of what it tells is in `test_peer_faults`."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import ready
from tests.support.example_status import HEALTHY, finding


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def _mesh(**changed):
    return {str(name): hello for name, hello in hellos.whole_mesh().items()} | changed


CUT_OFF = ToldFault(FaultCode.ALLOWED_IPS_MISSING, NodeName("b1"), NodeName("a3"))
"""What b1 says of itself: its tunnel carries a3 no more."""


def test_who_is_cut_off_by_the_far_end_of_a_tunnel_hears_why_from_its_own_leader():
    """Not a word of b1 reaches a3, which would blame a1."""
    told = confess(ready("a1").engine.status(0, {}), _mesh(b1=hellos.hello("b1", faults=(CUT_OFF,))))
    word = believe(_mesh(a1=hellos.hello("a1", faults=told)), "a3")
    relays = (NodeName("a1"), NodeName("b1"))
    named = explain(_verdict(FaultCode.RELAY_NOT_FORWARDING, "a1"), word, relays)

    assert (CUT_OFF,) == told
    assert (FaultCode.ALLOWED_IPS_MISSING, "b1") == (named.fault, named.culprit)


@pytest.mark.parametrize(("source", "node"), [("a2", "a3"), ("a1", "a2"), ("b2", "a3")])
def test_nobody_else_puts_the_blame_on_the_far_end_of_a_tunnel(source, node):
    """Not a member, not somebody of elsewhere, and of others' silence the leader says nothing."""
    assert () == believe(_mesh(**{source: hellos.hello(source, faults=(CUT_OFF,))}), node)


@pytest.mark.parametrize(("severity", "told"), [(Severity.WARNING, []), (Severity.CRITICAL, ["b1"])])
def test_what_loses_some_pods_of_a_node_is_told_to_nobody(severity, told):
    """It may stand for weeks, and others would take it for the reason of whatever they miss behind this node."""
    found = finding(
        FaultCode.POD_ROUTE_DIVERTED,
        device="kilo0",
        subject="10.244.3.128/25",
        peer="a3",
        culprit="b1",
        severity=severity,
    )
    status = msgspec.structs.replace(HEALTHY, node="b1", pairs=(), findings=(found,))

    assert told == [each.culprit for each in confess(status, _mesh())]
