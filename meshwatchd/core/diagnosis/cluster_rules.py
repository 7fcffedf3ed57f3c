"""The rules about a cluster of which no node answers, where each node reaches those of other clusters by itself.

    hosts    neighbours       control plane
    answer   miss it too      -               what is lost is the overlay between the two clusters
    answer   reach it         -               the overlay of this node, towards that cluster
    silent   reach it         -               this node's way
    silent   miss it too      connected       packets between nodes are lost, while the cluster lives
    silent   miss it too      cut as well     nothing of it is reached, and the agent goes on listing its backends

Source of what the agent does: cilium pkg/clustermesh/common; cilium#20547, #22923, #20729, #19217.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.predicates import tunnel_carries
from meshwatchd.core.diagnosis.rule import Rule, where
from meshwatchd.model.faults import FaultCode


def _is_missed(e: Evidence) -> bool:
    """No node of another cluster is reached in the overlay, and this node's overlay is not to blame."""
    return e.neighbours_overlay is Leg.ALIVE


def _is_only_here(e: Evidence) -> bool:
    return e.neighbours_path is Leg.ALIVE


def _is_known(e: Evidence) -> bool:
    """What neighbours see is known, and whether hosts of the other cluster answer."""
    return _is_missed(e) and e.neighbours_path is not Leg.UNKNOWN and e.wireguard is not Leg.UNKNOWN


def _self_if_alone(e: Evidence) -> str:
    return e.self_name if _is_only_here(e) else ""


def _is_abandoned(e: Evidence) -> bool:
    """Nothing of a cluster is reached: neither its nodes from this cluster, nor its control plane from this node."""
    is_silent = _is_known(e) and e.wireguard is Leg.DEAD and not tunnel_carries(e) and not _is_only_here(e)
    return is_silent and e.control is not None and not e.control.is_connected


def _is_own_overlay(e: Evidence) -> bool:
    """Hosts of another cluster answer, and other nodes of this one reach it in the overlay."""
    return _is_known(e) and e.wireguard is Leg.ALIVE and _is_only_here(e) and not tunnel_carries(e)


def _is_cut(e: Evidence) -> bool:
    return _is_known(e) and not (tunnel_carries(e) or _is_own_overlay(e) or _is_abandoned(e))


def _extent(e: Evidence) -> str:
    if _is_only_here(e):
        return f"other nodes of this cluster reach {e.remote}: it is lost at this node, or on its way alone"
    return f"no other node of this cluster is known to reach {e.remote}"


def _hosts(e: Evidence) -> str:
    if e.wireguard is Leg.ALIVE:
        return f"hosts of {e.remote} answer at their own addresses"
    return f"hosts of {e.remote} do not answer at their own addresses either"


def _control(e: Evidence) -> str:
    """What the agent says, which is late: it may be minutes until it misses a control plane."""
    if e.control is None:
        return f"nothing is known here of the control plane of {e.remote}"
    state = "connected: that is about the control plane, not about packets" if e.control.is_connected else "not ready"
    return f"Cilium's agent reports {e.remote} as {state}"


def _listed(e: Evidence) -> str:
    if e.control is None or not e.control.nodes:
        return ""
    return f"the agent still lists {e.control.nodes} nodes of {e.remote}: backends there are given new connections"


_OF_EACH: tuple[Rule, ...] = (
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: (
            Leg.DEAD is e.neighbours_overlay is e.pinned and Leg.ALIVE in (e.members_underlay, e.wireguard)
        ),
        culprit=lambda e: e.self_name,
        because=lambda e: (
            f"no overlay flow between this node and any node of its cluster or of {e.remote} is answered",
            "other nodes' hosts answer",
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: _is_missed(e) and tunnel_carries(e) and e.neighbours_path is not Leg.UNKNOWN,
        culprit=_self_if_alone,
        because=lambda e: (
            f"fresh overlay flows between this node and every node of {e.remote} die",
            "established flows still pass",
            _extent(e),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=_is_own_overlay,
        culprit=lambda e: e.self_name,
        because=lambda e: (
            f"no overlay flow between this node and any node of {e.remote} is answered",
            _hosts(e),
            _extent(e),
        ),
    ),
    Rule(
        fault=FaultCode.CLUSTER_BACKENDS_UNREACHABLE,
        matches=_is_abandoned,
        because=lambda e: (
            f"no node of {e.remote} answers, neither in the overlay nor by its host",
            _control(e),
            _listed(e),
        ),
    ),
    Rule(
        fault=FaultCode.CLUSTERMESH_DATAPATH_CUT,
        matches=_is_cut,
        culprit=_self_if_alone,
        because=lambda e: (
            f"no node of {e.remote} answers in the overlay",
            _hosts(e),
            _extent(e),
            _control(e),
        ),
    ),
    Rule(
        fault=FaultCode.UNDETERMINED,
        matches=lambda _: True,
        because=lambda e: (
            f"no node of {e.remote} answers in the overlay",
            f"hosts of {e.remote}: {e.wireguard}; overlay of this cluster: {e.neighbours_overlay}",
            f"the way of its other nodes to {e.remote}: {e.neighbours_path}",
        ),
    ),
)

UNREACHED_CLUSTER = where(lambda e: e.path is Leg.DEAD and not e.remote_relay, _OF_EACH)
