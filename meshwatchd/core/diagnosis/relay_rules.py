"""The rules about what leaders lose of what others send by them: on the way to the own leader, between both, or beyond.

Each asks for the *lowest* broken layer first. They are read where packets to another location pass its leader or end
there; elsewhere `cluster_rules` are.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.predicates import (
    carrier_is_silent,
    has_member_lost_leader,
    new_flows_at,
    new_flows_die_beyond,
    outside_because,
    overlay_alone,
    overlay_end,
    overlay_extent,
    own_side_is_fine,
    relay_because,
    remote_lost,
    remote_tunnel_blocked,
    tunnel_carries,
    tunnel_is_silent,
    way_to,
)
from meshwatchd.core.diagnosis.rule import Rule, where
from meshwatchd.model.faults import FaultCode


def _remote(evidence: Evidence) -> str:
    return evidence.remote_relay


def _beyond_remote(e: Evidence) -> bool:
    """The remote leader itself answers over the path, the nodes behind it do not; the own overlay is innocent."""
    return e.path is Leg.DEAD and e.path_to_relay is Leg.ALIVE and own_side_is_fine(e)


_OF_LEADERS: tuple[Rule, ...] = (
    Rule(
        fault=FaultCode.IPIP_BLACK_HOLE,
        matches=lambda e: has_member_lost_leader(e) and e.overlay is Leg.ALIVE and e.ipip is Leg.DEAD,
        culprit=lambda e: e.own_leader,
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
            if e.is_node_to_node
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
            has_member_lost_leader(e)
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
            has_member_lost_leader(e)
            and not tunnel_carries(e)
            and e.path_to_relay is Leg.DEAD
            and e.overlay is Leg.ALIVE
            and e.ipip is not Leg.DEAD
            and e.own_view_wireguard is Leg.ALIVE
        ),
        culprit=lambda e: e.own_leader,
        because=lambda e: (
            f"{e.own_leader} answers on underlay and overlay and reports that its tunnel is alive",
            "nothing relayed through it arrives, in any flow",
        ),
    ),
)

LOST_BY_LEADERS = where(lambda e: bool(e.remote_relay), _OF_LEADERS)
