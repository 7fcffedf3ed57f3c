"""The rules about a primary path that is broken, and about a node that cannot tell.

Each asks for the *lowest* broken layer first, because whatever is above a broken layer is broken too.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.cluster_rules import UNREACHED_CLUSTER
from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.predicates import (
    carrier_is_silent,
    deaf_end,
    hears_others,
    inbound_because,
    is_known_to_leader,
    new_flows_at,
    new_flows_die_beyond,
    outside_because,
    overlay_alone,
    overlay_end,
    overlay_extent,
    own_overlay_because,
    own_overlay_lost,
    own_side_is_fine,
    own_tunnels_blocked,
    reflector_because,
    relay_because,
    remote_lost,
    remote_tunnel_blocked,
    tunnel_carries,
    tunnel_is_silent,
    underlay_because,
    way_to,
)
from meshwatchd.core.diagnosis.rule import Rule
from meshwatchd.model.faults import FaultCode


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
    return e.path is Leg.DEAD and e.path_to_relay is Leg.ALIVE and own_side_is_fine(e) and not e.is_clustered


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
    *UNREACHED_CLUSTER,
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
            f"{e.remote_leader} does not answer through the tunnel"
            if e.beside.has_tunnel
            else f"{way_to(e)} is silent",
            "the other nodes do not reach it either"
            if e.is_overlay_direct
            else "its neighbours report that its underlay is silent too",
            outside_because(e),
        ),
    ),
    Rule(
        fault=FaultCode.NODE_UNREACHABLE,
        matches=lambda e: carrier_is_silent(e) and not e.beside.has_tunnel,
        culprit=_remote,
        because=lambda e: (
            f"{way_to(e)} does not answer, neither by its own address nor by that among its pods",
            "other nodes hear it" if e.remote_view_leader is Leg.ALIVE else "",
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
            f"{way_to(e)} {'answers' if e.wireguard is Leg.ALIVE else 'loses new flows as well'}",
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
            f"the layer below, {way_to(e)}, answers",
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
        because=lambda e: (
            f"flows over the primary path: to the nodes behind {e.remote_leader} {e.path}, to itself {e.path_to_relay}",
            f"own leader: underlay {e.underlay}, overlay {e.overlay}; tunnel {e.wireguard}",
        ),
    ),
)
