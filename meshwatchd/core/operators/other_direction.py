"""Whether connections of Kubernetes' own fail in the other direction as well, by what the nodes over there report.

a1 --TCP 10250--> b1    fails: kubelet-unreachable at b1, which a1 has seen itself
a1 <--TCP 6443--- b1    apiserver-unreachable is for b1 to see: what does it report?
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.status import PairStatus

_OPPOSITE = MappingProxyType(
    {
        FaultCode.KUBELET_UNREACHABLE: (FaultCode.APISERVER_UNREACHABLE, "API servers"),
        FaultCode.APISERVER_UNREACHABLE: (FaultCode.KUBELET_UNREACHABLE, "kubelets"),
    }
)
"""What the other side would see, and what it would have to ask for that."""


def tell_other_direction(node: NodeName, pair: PairStatus, nodes: Iterable[NodeStatus]) -> str:
    """What is known of the other direction, in one sentence.

    Only a node that is well has nothing to hide: of several faults it names one. Which canaries it has it does not say.

    Returns:
        An empty string where the verdict is about no such connection, or where nobody over there could tell.
    """
    culprit = pair.verdict.culprit
    if pair.verdict.fault not in _OPPOSITE:
        return ""
    opposite, asked = _OPPOSITE[pair.verdict.fault]
    there = sorted(
        (each for each in nodes if each.location == pair.remote_location and each.is_report_fresh),
        key=lambda each: each.name != culprit,
    )
    reports = (fault for each in there for fault in each.faults)
    heard = [
        (fault.reported_by, fault.culprit)
        for fault in reports
        if fault.fault == opposite and fault.towards == pair.location
    ]
    if (culprit, node) in heard:
        return f"{culprit} reports {opposite} at {node}: the other direction is broken as well"
    if heard:
        # Between other nodes it may be another way, or the service: that proves nothing of this one.
        reporter, reported = heard[0]
        return f"{reporter} reports {opposite} at {reported}"
    well = next((each.name for each in there if each.severity == Severity.OK), "")
    if not well:
        return ""
    return (
        f"{well} reports that all is well, and nobody in its location reports {opposite}:"
        f" if {well} has canaries for {asked} here, the break is one way, from {node} to {culprit}"
    )
