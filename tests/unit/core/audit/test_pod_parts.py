"""What loses a part of a node's pods is not advertised, as long as the node itself answers."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.status import FindingStatus
from tests.support import hellos
from tests.support.example_status import HEALTHY


def _advertised(subject, *, code=FaultCode.POD_ROUTE_DIVERTED, peer="a3"):
    entry = CATALOGUE[code]
    finding = FindingStatus(
        fault=code,
        layer=entry.layer,
        severity=entry.severity,
        device="kilo0",
        subject=subject,
        peer=peer,
        culprit="b1",
        since_ns=0,
        because=(),
        repair="none",
        commands=(),
    )
    known = {str(name): hello for name, hello in hellos.whole_mesh().items()}
    return [
        each.fault
        for each in confess(msgspec.structs.replace(HEALTHY, node="b1", pairs=(), findings=(finding,)), known)
    ]


@pytest.mark.parametrize("part", ["10.244.3.128/25", "10.244.3.17/32"])
def test_what_loses_a_part_of_the_pods_is_not_advertised(part):
    """It may stand for weeks, and others would take it for the reason of whatever they miss behind this node."""
    assert [] == _advertised(part)


@pytest.mark.parametrize(
    ("subject", "peer"),
    [
        ("10.244.3.0/24", "a3"),
        ("10.244.3.0/25", "a3"),
        ("192.168.100.13/32", "a3"),
        ("10.244.3.128/25", "nobody"),
        ("kilo0", ""),
    ],
    ids=["all pods", "with the address that is probed", "the node itself", "of an unknown node", "all nodes"],
)
def test_what_loses_a_node_is_advertised(subject, peer):
    """As before."""
    assert [FaultCode.POD_ROUTE_DIVERTED] == _advertised(subject, peer=peer)


def test_other_findings_are_advertised_whatever_they_are_about():
    """Half of a node's pods that another peer was given: probes of its other addresses may be among them."""
    assert [FaultCode.ALLOWED_IPS_STOLEN] == _advertised("10.244.3.128/25", code=FaultCode.ALLOWED_IPS_STOLEN)
