"""The rules that the classifier reads from the top: first match wins, and the last one always matches.

Each asks for the *lowest* broken layer first, because whatever is above a broken layer is broken too.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from meshwatchd.core.diagnosis import pod_network, service_canaries
from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.predicates import (
    deaf_end,
    has_bulk_come_round,
    hears_others,
    inbound_because,
    ip6_because,
    is_known_to_leader,
    new_flows_at,
    new_flows_die_beyond,
    offload_culprit,
    outside_because,
    overlay_alone,
    overlay_end,
    overlay_extent,
    own_overlay_because,
    own_overlay_lost,
    own_side_is_fine,
    own_tunnels_blocked,
    probes_only_culprit,
    reflector_because,
    relay_because,
    remote_lost,
    remote_tunnel_blocked,
    serves_probes_only,
    service_because,
    tunnel_carries,
    tunnel_is_silent,
    underlay_because,
)
from meshwatchd.core.pmtu.verdict import SIZE_FAULTS
from meshwatchd.model.canary import CanaryRole
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.service_faults import SERVICE_FAULTS

Culprit = Callable[[Evidence], str]
Because = Callable[[Evidence], tuple[str, ...]]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    fault: FaultCode
    matches: Callable[[Evidence], bool]
    culprit: Culprit
    because: Because


def _nobody(_: Evidence) -> str:
    return ""


def _own(evidence: Evidence) -> str:
    return evidence.own_leader


def _remote(evidence: Evidence) -> str:
    return evidence.remote_leader


def _is_broken(evidence: Evidence) -> bool:
    return evidence.path is Leg.DEAD


def is_alone(evidence: Evidence) -> bool:
    """Everything at once is one cause, and it is here: then it is not the paths that are down."""
    return _is_broken(evidence) and not evidence.is_anything_alive


def _member_lost_leader(e: Evidence) -> bool:
    return not e.is_leader and _is_broken(e)


def _leader_overlay_lost(e: Evidence) -> bool:
    """A member's overlay to its leader is dead, and not its own: a neighbour answers, or the leader says so."""
    is_excused = e.neighbours_overlay is Leg.ALIVE or e.own_view_overlay is Leg.DEAD
    return _member_lost_leader(e) and e.overlay is Leg.DEAD and is_excused


def _beyond_remote(e: Evidence) -> bool:
    """The remote leader itself answers over the path, the nodes behind it do not; the own overlay is innocent."""
    return e.path is Leg.DEAD and e.path_to_relay is Leg.ALIVE and own_side_is_fine(e)


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
        fault=FaultCode.LEADER_DEAD,
        matches=lambda e: _member_lost_leader(e) and e.underlay is Leg.DEAD and not is_known_to_leader(e),
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
        fault=FaultCode.IPIP_BLACK_HOLE,
        matches=lambda e: _member_lost_leader(e) and e.overlay is Leg.ALIVE and e.ipip is Leg.DEAD,
        culprit=_own,
        because=lambda e: (
            f"nothing that goes to {e.own_leader} through the IPIP device is answered",
            f"{e.own_leader} answers on its underlay and on its overlay",
        ),
    ),
    Rule(
        fault=FaultCode.IPIP_BLACK_HOLE,
        matches=lambda e: e.is_leader and e.members_overlay is Leg.ALIVE and e.members_ipip is Leg.DEAD,
        culprit=lambda e: e.self_name,
        because=lambda _: (
            "all nodes of its location that can tell report that their IPIP leg to this leader is dead",
            "the overlay to them answers",
        ),
    ),
    Rule(
        fault=FaultCode.ONE_WAY_BREAK,
        matches=lambda e: tunnel_is_silent(e) and e.inbound is Leg.ALIVE,
        culprit=_remote,
        because=lambda e: (
            f"nothing that is sent through the tunnel to {e.remote_leader} is answered",
            f"what {e.self_name} sends to {e.remote_leader} is lost, what {e.remote_leader} sends arrives",
        ),
    ),
    Rule(
        fault=FaultCode.LEADER_DEAD,
        matches=remote_lost,
        culprit=_remote,
        because=lambda e: (
            f"{e.remote_leader} does not answer through the tunnel",
            "the other nodes do not reach it either"
            if e.is_overlay_direct
            else "its neighbours report that its underlay is silent too",
            outside_because(e),
        ),
    ),
    Rule(
        fault=FaultCode.WIREGUARD_BLOCKED,
        matches=remote_tunnel_blocked,
        culprit=_remote,
        because=lambda e: (
            f"nothing passes the tunnel to {e.remote_leader}",
            f"{e.remote_leader} is alive: its host answers outside of the mesh",
        ),
    ),
    Rule(
        fault=FaultCode.WIREGUARD_BLOCKED,
        matches=lambda e: tunnel_is_silent(e) and e.remote_view_leader is Leg.ALIVE,
        culprit=_remote,
        because=lambda e: (
            f"nothing passes the tunnel to {e.remote_leader}",
            f"{e.remote_leader} is alive: its neighbours hear its underlay",
        ),
    ),
    Rule(
        fault=FaultCode.WIREGUARD_BLOCKED,
        matches=lambda e: (
            _member_lost_leader(e)
            and not tunnel_carries(e)
            and e.path_to_relay is not Leg.ALIVE
            and e.overlay is Leg.ALIVE
            and e.own_view_wireguard is Leg.DEAD
            and e.remote_view_leader is Leg.ALIVE
        ),
        culprit=_remote,
        because=lambda e: (
            f"{e.own_leader} answers on underlay and overlay and reports that its tunnel to {e.remote_leader} is dead",
            f"nothing relayed between {e.own_leader} and {e.remote_leader} arrives",
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: overlay_alone(e) and e.pinned is Leg.ALIVE,
        culprit=overlay_end,
        because=lambda e: (
            f"the tunnel to {e.remote_leader} {'answers' if e.wireguard is Leg.ALIVE else 'loses new flows as well'}",
            overlay_extent(e),
            *new_flows_at(e.remote_leader, "between this node and"),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: overlay_alone(e) and e.pinned is Leg.DEAD,
        culprit=overlay_end,
        because=lambda e: (
            overlay_extent(e),
            f"no overlay flow between this node and {e.remote_leader} is answered",
            f"the tunnel below, to {e.remote_leader}, answers",
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_NEW_FLOWS,
        matches=lambda e: new_flows_die_beyond(e) and not overlay_alone(e),
        culprit=_remote,
        because=lambda e: (
            relay_because(e),
            *new_flows_at(e.remote_leader, "to the nodes behind"),
        ),
    ),
    Rule(
        fault=FaultCode.OVERLAY_BLACK_HOLE,
        matches=lambda e: _beyond_remote(e) and e.pinned is Leg.DEAD and e.remote_view_overlay is Leg.DEAD,
        culprit=_remote,
        because=lambda e: (
            f"{e.remote_leader} answers through the tunnel, the nodes behind it do not, in any flow",
            f"{e.remote_leader} reports that its own overlay to them is dead",
        ),
    ),
    Rule(
        fault=FaultCode.IPIP_BLACK_HOLE,
        matches=lambda e: (
            _beyond_remote(e)
            and e.pinned is Leg.DEAD
            and e.remote_view_overlay is Leg.ALIVE
            and e.remote_view_ipip is Leg.DEAD
        ),
        culprit=_remote,
        because=lambda e: (
            f"{e.remote_leader} answers through the tunnel, the nodes behind it do not, in any flow",
            f"its neighbours report that their IPIP leg to {e.remote_leader} is dead",
            f"{e.remote_leader} reaches them over its overlay",
        ),
    ),
    Rule(
        fault=FaultCode.RELAY_NOT_FORWARDING,
        matches=lambda e: (
            _beyond_remote(e)
            and e.pinned is Leg.DEAD
            and e.remote_view_overlay is Leg.ALIVE
            and e.remote_view_ipip is not Leg.DEAD
        ),
        culprit=_remote,
        because=lambda e: (
            f"{e.remote_leader} answers through the tunnel, the nodes behind it do not, in any flow",
            f"{e.remote_leader} reaches them itself over its overlay",
        ),
    ),
    Rule(
        fault=FaultCode.RELAY_NOT_FORWARDING,
        matches=lambda e: (
            _member_lost_leader(e)
            and not tunnel_carries(e)
            and e.path_to_relay is Leg.DEAD
            and e.overlay is Leg.ALIVE
            and e.ipip is not Leg.DEAD
            and e.own_view_wireguard is Leg.ALIVE
        ),
        culprit=_own,
        because=lambda e: (
            f"{e.own_leader} answers on underlay and overlay and reports that its tunnel is alive",
            "nothing relayed through it arrives, in any flow",
        ),
    ),
    Rule(
        fault=FaultCode.UNDETERMINED,
        matches=_is_broken,
        culprit=_nobody,
        because=lambda e: (
            f"flows over the primary path: to the nodes behind {e.remote_leader} {e.path}, to itself {e.path_to_relay}",
            f"own leader: underlay {e.underlay}, overlay {e.overlay}; tunnel {e.wireguard}",
        ),
    ),
    Rule(
        fault=FaultCode.KEY_MISMATCH,
        matches=lambda e: not _is_broken(e) and bool(e.mismatched_nodes),
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
        culprit=_nobody,
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
        culprit=probes_only_culprit,
        because=lambda e: (
            f"all canaries are silent: {', '.join(name for name, _ in (*e.silent_canaries, *e.beside.silent))}",
            "the probes of every layer between the same nodes are answered",
        ),
    ),
    Rule(
        fault=FaultCode.POD_NETWORK_BROKEN,
        matches=lambda e: bool(e.pod_network.silent) and e.pod_network.is_complete and e.path is Leg.ALIVE,
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
        culprit=_nobody,
        because=lambda e: (
            "the path in use is good",
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
        culprit=_nobody,
        because=lambda _: ("every layer answers",),
    ),
)
