"""The rules that the classifier reads from the top: first match wins, and the last one always matches.

Those about a broken path come first, then a standby that traffic is lost on, then those about what is wrong while
the path in use works.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis import pod_network, service_canaries
from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.path_rules import BROKEN_PATH
from meshwatchd.core.diagnosis.predicates import (
    has_bulk_come_round,
    has_lost_pods,
    ip6_because,
    offload_culprit,
    passes_probes_only,
    probes_only_culprit,
    serves_probes_only,
    service_because,
)
from meshwatchd.core.diagnosis.rule import Rule
from meshwatchd.core.pmtu.verdict import SIZE_FAULTS
from meshwatchd.model.canary import CanaryRole
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.service_faults import SERVICE_FAULTS


def _about_size(fault: FaultCode) -> Rule:
    """A line for a fault that only large packets meet; `core.pmtu.verdict` has found it."""
    return Rule(
        fault=fault,
        matches=lambda e: e.sizes is not None and e.sizes.fault is fault,
        culprit=lambda e: e.sizes.culprit if e.sizes is not None else "",
        because=lambda e: e.sizes.because if e.sizes is not None else (),
    )


def _about_service(fault: FaultCode, role: CanaryRole) -> Rule:
    """A line for a port of Kubernetes' own that takes no connections from here while the mesh and its pods answer."""
    return Rule(
        fault=fault,
        matches=lambda e: (
            e.path is Leg.ALIVE
            and not e.silent_canaries
            and any(each.resolved_role is role for each in e.silent_services[:1])
        ),
        culprit=lambda e: e.silent_services[0].node,
        because=lambda e: (*map(service_because, e.silent_services), "every layer of the mesh below answers"),
    )


def _about_answer(fault: FaultCode) -> Rule:
    """A line for a service whose own protocol says what is wrong, while every layer of the mesh below answers."""
    return Rule(
        fault=fault,
        matches=lambda e: e.path is Leg.ALIVE and bool(e.services) and e.services[0].fault is fault,
        culprit=service_canaries.culprit,
        because=service_canaries.because,
    )


TABLE: tuple[Rule, ...] = (
    *BROKEN_PATH,
    Rule(
        # Not a standby that is missing: then traffic would flow.
        fault=FaultCode.UNDETERMINED,
        matches=lambda e: e.path is Leg.ALIVE and e.is_active_down and bool(e.lost_in_use),
        because=lambda e: (
            f"the path in use by {' and '.join(e.lost_in_use)} does not answer here, the primary path does",
            e.kept_by,
        ),
    ),
    Rule(
        fault=FaultCode.KEY_MISMATCH,
        matches=lambda e: e.path is not Leg.DEAD and bool(e.mismatched_nodes),
        culprit=lambda e: e.mismatched_nodes[0],
        because=lambda e: (
            f"{', '.join(e.mismatched_nodes)} answers nothing, but its packets arrive here",
            "they are signed with another key than this node's: one of the two has missed a step of a rotation",
            "nothing proves who sends them: if the node is off, somebody else speaks in its name",
        ),
    ),
    Rule(
        fault=FaultCode.UNDETERMINED,
        matches=lambda e: e.is_unproven,
        because=lambda e: (f"the path to {e.remote_leader} has not answered since this daemon started",),
    ),
    _about_size(FaultCode.MTU_BLACK_HOLE),
    Rule(
        fault=FaultCode.NODE_UNREACHABLE,
        matches=lambda e: bool(e.silent_nodes),
        culprit=lambda e: e.silent_nodes[0],
        because=lambda e: (f"{', '.join(e.silent_nodes)} silent while other nodes answer over the same path",),
    ),
    Rule(
        fault=FaultCode.ADDRESS_FAMILY_BROKEN,
        matches=lambda e: bool(e.silent_ip6),
        culprit=lambda e: e.silent_ip6[0][1],
        because=ip6_because,
    ),
    Rule(
        fault=FaultCode.PROBES_ONLY,
        matches=serves_probes_only,
        culprit=lambda e: probes_only_culprit(e) or (pod_network.culprit(e) if passes_probes_only(e) else ""),
        because=lambda e: (
            f"all canaries are silent: {', '.join(name for name, _ in (*e.silent_canaries, *e.beside.silent))}",
            "the probes of every layer between the same nodes are answered",
        ),
    ),
    Rule(
        fault=FaultCode.PROBES_ONLY,
        matches=passes_probes_only,
        culprit=pod_network.culprit,
        because=pod_network.because,
    ),
    Rule(
        fault=FaultCode.POD_NETWORK_BROKEN,
        matches=lambda e: has_lost_pods(e) and not e.pod_network.is_probes_only,
        culprit=pod_network.culprit,
        because=pod_network.because,
    ),
    _about_service(FaultCode.APISERVER_UNREACHABLE, CanaryRole.APISERVER),
    _about_service(FaultCode.KUBELET_UNREACHABLE, CanaryRole.KUBELET),
    Rule(
        fault=FaultCode.POD_UNREACHABLE,
        matches=lambda e: bool(e.silent_canaries) and e.path is Leg.ALIVE and not serves_probes_only(e),
        culprit=lambda e: e.silent_canaries[0][1],
        because=lambda e: (
            *(f"canary {name} on {node} does not answer" for name, node in e.silent_canaries),
            *map(service_because, e.silent_services),
            "every layer of the mesh below answers",
        ),
    ),
    *(_about_answer(fault) for fault in (*(each.code for each in SERVICE_FAULTS), FaultCode.POD_UNREACHABLE)),
    Rule(
        fault=FaultCode.STANDBY_DOWN,
        matches=lambda e: bool(e.missing_standbys),
        because=lambda e: (
            "" if e.is_active_down else "the path in use is good",
            *(f"the standby path by {' and '.join(relays)} does not answer" for relays in e.missing_standbys),
        ),
    ),
    *(_about_size(fault) for fault in SIZE_FAULTS if fault is not FaultCode.MTU_BLACK_HOLE),
    Rule(
        fault=FaultCode.OFFLOAD_FAULT,
        matches=lambda e: bool(e.bulk.lost) and has_bulk_come_round(e) and e.path is Leg.ALIVE,
        culprit=offload_culprit,
        because=lambda e: (
            *(f"{name} on {node} accepts connections, and no full segment gets there" for name, node in e.bulk.lost),
            "the probes of every layer are answered, and no size was found too big",
        ),
    ),
    Rule(
        fault=FaultCode.NONE,
        matches=lambda _: True,
        because=lambda _: ("every layer answers",),
    ),
)
