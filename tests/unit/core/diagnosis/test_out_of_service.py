"""A node that is drained and off is left out of what is silent, so that the next one in the list is named."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from meshwatchd.core.diagnosis.classifier import classify
from meshwatchd.core.diagnosis.evidence import ServiceTrouble
from meshwatchd.core.diagnosis.out_of_service import without
from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import Layer, NodeName
from tests.unit.core.diagnosis.test_classifier import HEALTHY


def _asking(port: int) -> tuple[Canary, ...]:
    return tuple(
        Canary(name=f"of-{node}", address="192.168.100.13", port=port, node=NodeName(node), kind=CanaryKind.TCP)
        for node in ("a2", "a3")
    )


TROUBLES = tuple(
    ServiceTrouble(canary="shop", node=node, fault=FaultCode.POLICY_OR_BACKEND, meaning="it is wrong")
    for node in ("a2", "a3")
)
LISTS: dict[FaultCode, dict[str, Any]] = {
    FaultCode.POD_UNREACHABLE: {"silent_canaries": (("web-2", "a2"), ("web-3", "a3"))},
    FaultCode.APISERVER_UNREACHABLE: {"silent_services": _asking(6443)},
    FaultCode.KUBELET_UNREACHABLE: {"silent_services": _asking(10250)},
    FaultCode.POLICY_OR_BACKEND: {"services": TROUBLES},
    FaultCode.ADDRESS_FAMILY_BROKEN: {"silent_ip6": ((Layer.UNDERLAY, "a2"), (Layer.RELAY, "a3"))},
}


@pytest.mark.parametrize("fault", LISTS)
def test_who_is_out_of_service_hides_nobody(fault):
    """a2 is the first in each list, and drained: a3 is named; with both drained nobody is."""
    silent = LISTS[fault]
    evidence = replace(HEALTHY, answering_canaries=("lead",), **silent)
    everybody = classify(without(evidence, lambda _: False))
    others = classify(without(evidence, lambda name: name == "a2"))
    assert [(fault, "a2"), (fault, "a3")] == [(each.fault, each.culprit) for each in (everybody, others)]
    assert FaultCode.NONE is classify(without(evidence, lambda _: True)).fault


def test_a_silent_pod_of_a_drained_node_does_not_hide_anothers_kubelet():
    """A kubelet is looked at only while no pod is silent."""
    evidence = replace(HEALTHY, silent_canaries=(("web", "a2"),), silent_services=_asking(10250)[1:])
    verdict = classify(without(evidence, lambda name: name == "a2"))
    assert (FaultCode.KUBELET_UNREACHABLE, "a3") == (verdict.fault, verdict.culprit)


def test_a_fault_of_discovery_is_told_whichever_node_its_canary_stands_for():
    """That node has no part in it."""
    trouble = replace(TROUBLES[0], fault=FaultCode.DNS_UNREACHABLE)
    verdict = classify(without(replace(HEALTHY, services=(trouble, TROUBLES[1])), lambda name: name == "a2"))
    assert (FaultCode.DNS_UNREACHABLE, "") == (verdict.fault, verdict.culprit)
