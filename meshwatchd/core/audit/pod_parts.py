"""Whether a finding is about a part of a node's pods alone, which is nobody else's concern."""

from __future__ import annotations

from collections.abc import Mapping

from meshwatchd.model.discovery import Hello
from meshwatchd.model.fault_codes import FaultCode
from meshwatchd.model.prefixes import holds, is_part
from meshwatchd.model.status import FindingStatus


def loses_few_pods(finding: FindingStatus, hellos: Mapping[str, Hello]) -> bool:
    """Whether a finding concerns a part of a node's pods without the address that the node is probed by.

    No verdict of others comes of that: whatever they miss of the node, or behind this one, has another cause.
    """
    peer = hellos.get(finding.peer)
    if finding.fault is not FaultCode.POD_ROUTE_DIVERTED or peer is None or not peer.view.pod_cidr:
        return False
    view = peer.view
    return is_part(finding.subject, view.pod_cidr) and not holds(finding.subject, view.overlay_ip or view.node_ip)
