"""The rules about a primary path that is broken, and about a node that cannot tell.

Each asks for the *lowest* broken layer first, because whatever is above a broken layer is broken too.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.cluster_rules import UNREACHED_CLUSTER
from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.predicates import (
    deaf_end,
    has_member_lost_leader,
    hears_others,
    inbound_because,
    is_known_to_leader,
    is_path_refuted,
    new_flows_at,
    own_overlay_because,
    own_overlay_lost,
    own_tunnels_blocked,
    own_way_because,
    own_way_lost,
    reflector_because,
    underlay_because,
)
from meshwatchd.core.diagnosis.relay_rules import LOST_BY_LEADERS
from meshwatchd.core.diagnosis.rule import Rule
from meshwatchd.model.faults import FaultCode


def _own(evidence: Evidence) -> str:
    return evidence.own_leader


def _is_broken(evidence: Evidence) -> bool:
    return evidence.path is Leg.DEAD


def is_alone(evidence: Evidence) -> bool:
    """Everything at once is one cause, and it is here: then it is not the paths that are down."""
    return _is_broken(evidence) and not evidence.is_anything_alive


def _leader_overlay_lost(e: Evidence) -> bool:
    """A member's overlay to its leader is dead, and not its own: a neighbour answers, or the leader says so."""
    is_excused = e.neighbours_overlay is Leg.ALIVE or e.own_view_overlay is Leg.DEAD
    return has_member_lost_leader(e) and e.overlay is Leg.DEAD and is_excused


BROKEN_PATH: tuple[Rule, ...] = (
    Rule(
        fault=FaultCode.PROBE_PORT_BLOCKED,
        # With known flows alive the canaries may live on what the network remembers.
        matches=lambda e: (
            _is_broken(e) and e.pinned is Leg.DEAD and e.own_loop is not Leg.DEAD and bool(e.answering_canaries)
        ),
        culprit=deaf_end,
        because=lambda e: (
            "no probe over the primary path is answered, in any flow",
            f"canaries behind it have answered every question since: {', '.join(e.answering_canaries)}",
        ),
    ),
    Rule(
        fault=FaultCode.KEY_MISMATCH,
        matches=lambda e: is_alone(e) and bool(e.mismatched_nodes),
        culprit=lambda e: e.self_name,
        because=lambda e: (
            "no session to any node on any layer answers",
            f"packets of {', '.join(e.mismatched_nodes)} arrive here, signed with another key than this node's",
        ),
    ),
    Rule(
        fault=FaultCode.PROBE_PORT_BLOCKED,
        matches=lambda e: e.own_loop is Leg.DEAD and hears_others(e),
        culprit=lambda e: e.self_name,
        because=reflector_because,
    ),
    Rule(
        fault=FaultCode.LOCAL,
        matches=lambda e: e.own_loop is Leg.DEAD and not hears_others(e),
        culprit=lambda e: e.self_name,
        because=lambda _: (
            "this node's own reflector does not answer it over loopback",
            "loopback probes fail, so verdicts about peers are unreliable",
        ),
    ),
    Rule(
        fault=FaultCode.WIREGUARD_BLOCKED,
        matches=own_tunnels_blocked,
        culprit=lambda e: e.self_name,
        because=lambda _: (
            "no tunnel of this node answers",
            "hosts at the other ends answer outside of the mesh",
        ),
    ),
    Rule(
        fault=FaultCode.LOCAL,
        matches=lambda e: is_alone(e) and not e.mismatched_nodes and not own_tunnels_blocked(e),
        culprit=lambda e: e.self_name,
        because=lambda _: (
            "no session to any other node on any layer answers",
            "everything at once is one cause, and it is here",
        ),
    ),
    Rule(
        fault=FaultCode.NODE_UNREACHABLE,
        matches=own_way_lost,
        culprit=lambda e: e.self_name,
        because=own_way_because,
    ),
    Rule(
        fault=FaultCode.LEADER_DEAD,
        matches=lambda e: (
            has_member_lost_leader(e)
            and e.underlay is Leg.DEAD
            and e.neighbours_leader is not Leg.ALIVE
            and not is_known_to_leader(e)
        ),
        culprit=_own,
        because=lambda e: (
            f"{e.own_leader} answers on neither underlay nor overlay",
            "nothing relayed through it arrives",
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: own_overlay_lost(e) and is_known_to_leader(e),
        culprit=lambda e: e.self_name,
        because=lambda e: (
            "fresh overlay flows between this node and every neighbour die",
            "established flows still pass",
            own_overlay_because(e),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: own_overlay_lost(e) and not is_known_to_leader(e),
        culprit=lambda e: e.self_name,
        because=lambda e: ("no overlay flow between this node and any neighbour is answered", own_overlay_because(e)),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: _leader_overlay_lost(e) and is_known_to_leader(e),
        culprit=_own,
        because=lambda e: (
            *new_flows_at(e.own_leader, "between this node and"),
            underlay_because(e),
            inbound_because(e),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: _leader_overlay_lost(e) and e.overlay_pinned is Leg.DEAD,
        culprit=_own,
        because=lambda e: (
            f"neither fresh nor established overlay flows to {e.own_leader} are answered",
            f"{e.own_leader}'s underlay address answers",
            inbound_because(e),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: e.is_leader and e.members_overlay is Leg.DEAD and e.members_pinned is Leg.ALIVE,
        culprit=lambda e: e.self_name,
        because=lambda e: (
            "fresh overlay flows between this leader and every node of its location die",
            "established flows still pass",
            f"the underlay to them is {e.members_underlay}",
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: e.is_leader and e.members_overlay is Leg.DEAD and e.members_underlay is Leg.ALIVE,
        culprit=lambda e: e.self_name,
        because=lambda _: (
            "no overlay flow between this leader and any node of its location is answered",
            "the underlay to them answers",
        ),
    ),
    Rule(
        fault=FaultCode.NODE_UNREACHABLE,
        matches=is_path_refuted,
        culprit=lambda e: e.self_name,
        because=own_way_because,
    ),
    *UNREACHED_CLUSTER,
    *LOST_BY_LEADERS,
    Rule(
        fault=FaultCode.UNDETERMINED,
        matches=_is_broken,
        because=lambda e: (
            f"flows over the primary path: to the nodes behind {e.remote_leader} {e.path}, to itself {e.path_to_relay}",
            f"own leader: underlay {e.underlay}, overlay {e.overlay}; tunnel {e.wireguard}",
        ),
    ),
)
