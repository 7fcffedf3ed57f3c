"""Questions to the evidence that the classifier's table asks: which end is at fault, who is lost, what passes still."""

from __future__ import annotations

from meshwatchd.core.diagnosis.evidence import OF_OTHERS, Evidence, Leg
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryRole
from meshwatchd.model.faults import Direction
from meshwatchd.model.ids import Layer


def overlay_alone(e: Evidence) -> bool:
    """The overlay stands on the tunnel, which answers: what is lost is lost between the two."""
    return e.is_node_to_node and e.path is Leg.DEAD and (e.wireguard is Leg.ALIVE or tunnel_carries(e))


def hears_others(e: Evidence) -> bool:
    """Other nodes answer new flows of this one: whoever does not hear itself is not deaf for that.

    A filter that has closed the reflector's ports takes the answers to known flows as well, whose source ports are
    among them, so that the path may be condemned.
    """
    return Leg.ALIVE in (e.path, e.path_to_relay, e.wireguard if e.is_leader else e.underlay)


def tunnel_carries(e: Evidence) -> bool:
    """Known flows pass, and so the tunnel below does, whatever becomes of new flows through it.

    A full table of connections lets nothing new in, be it for the nodes behind or for the tunnel's own address.
    """
    return e.pinned is Leg.ALIVE


def is_known_to_leader(e: Evidence) -> bool:
    """Known flows to the own leader, or through it, are answered: it is alive, whatever becomes of new ones."""
    return Leg.ALIVE in (e.overlay_pinned, e.pinned)


def has_member_lost_leader(e: Evidence) -> bool:
    """The path is broken, and this node's own leader is on it."""
    return not e.is_leader and e.path is Leg.DEAD


def own_way_lost(e: Evidence) -> bool:
    """A member misses its leader's host, all of its answers or a part, while neighbours reach it: the fault is here."""
    is_missed = e.underlay is Leg.DEAD or e.is_leader_missed
    return has_member_lost_leader(e) and is_missed and e.neighbours_leader is Leg.ALIVE


def is_path_refuted(e: Evidence) -> bool:
    """A member alone finds the path broken: all neighbours have looked and find it good."""
    return has_member_lost_leader(e) and e.neighbours_path is e.neighbours_leader is Leg.ALIVE


def own_overlay_lost(e: Evidence) -> bool:
    """A member's overlay is dead to all neighbours, and its leader reaches others over its own: the fault is here."""
    is_cut_off = not e.is_leader and Leg.DEAD is e.path is e.overlay is e.neighbours_overlay
    return is_cut_off and e.underlay is Leg.ALIVE and e.own_view_overlay is Leg.ALIVE


def own_side_is_fine(e: Evidence) -> bool:
    """Nothing is lost before the tunnel."""
    return e.is_leader or e.overlay is Leg.ALIVE


def overlay_end(e: Evidence) -> str:
    """Which of the two ends: where this node's overlay is dead to all locations at once, it is this one."""
    return e.self_name if e.beside.overlays is Leg.DEAD else e.remote_leader


def deaf_end(e: Evidence) -> str:
    """Who takes no probes while traffic passes: the other end, where this node's probes come through everywhere else.

    Where others relay, the way of a probe has four ends, and whoever does not hear itself tells.
    """
    return e.remote_leader if e.is_node_to_node and e.beside.tunnels is Leg.ALIVE else ""


def overlay_extent(e: Evidence) -> str:
    """The sentence that tells so."""
    return "overlay flows to all other nodes die as well" if e.beside.overlays is Leg.DEAD else ""


def way_to(e: Evidence) -> str:
    """What is below the overlay, in a sentence about the remote leader."""
    return f"the tunnel to {e.remote_leader}" if e.beside.has_tunnel else f"{e.remote_leader}'s host"


def tunnel_is_silent(e: Evidence) -> bool:
    """Nothing comes through a leader's own tunnel, in whatever flow."""
    return e.beside.has_tunnel and carrier_is_silent(e)


def carrier_is_silent(e: Evidence) -> bool:
    """Nothing comes through a leader's own tunnel, or from the other host where there is none, in whatever flow."""
    return e.is_leader and e.path is Leg.DEAD and e.wireguard is Leg.DEAD and not tunnel_carries(e)


def own_tunnels_blocked(e: Evidence) -> bool:
    """No tunnel of this node answers, and hosts at the far ends live: packets pass, WireGuard's do not."""
    is_outside_alive = Leg.ALIVE in (e.beside.outside, e.beside.outside_elsewhere)
    return tunnel_is_silent(e) and e.beside.tunnels is Leg.DEAD and is_outside_alive


def remote_tunnel_blocked(e: Evidence) -> bool:
    """One tunnel of this node does not answer, and the host at its other end lives, whatever others say."""
    is_lone = tunnel_is_silent(e) and e.beside.tunnels is not Leg.DEAD
    return is_lone and e.remote_view_leader is not Leg.ALIVE and e.beside.outside is Leg.ALIVE


def remote_lost(e: Evidence) -> bool:
    """All who speak of the remote leader miss it, and so does who asks outside of the tunnel, where anybody does."""
    is_missed = e.path is Leg.DEAD and e.path_to_relay is not Leg.ALIVE and e.remote_view_leader is Leg.DEAD
    return is_missed and not tunnel_carries(e) and (e.beside.outside is Leg.DEAD or not e.beside.has_outside)


def outside_because(e: Evidence) -> str:
    """How sure it is that a silent node is dead; where nobody asks it outside of the tunnel, what else it may be."""
    if not e.is_node_to_node or not e.beside.has_tunnel:
        return ""
    if e.beside.outside is Leg.DEAD:
        return "its address outside of the mesh, where it used to answer, is silent as well"
    return "no canary asks it outside of the tunnel: were only the tunnel's port blocked, it would look the same"


def serves_probes_only(e: Evidence) -> bool:
    """One silent pod is that pod's fault; all canaries of a location on several nodes at once are not.

    Where every node is a location of its own, those of all locations count. What others' packets prove to pass between
    addresses among pods is lost to these canaries for another reason.
    """
    if e.pod_network.passing & OF_OTHERS:
        return False
    nodes = {node for _, node in (*e.silent_canaries, *e.beside.silent)}
    is_any_answering = e.answering_canaries or e.beside.answering
    return bool(e.silent_canaries) and len(nodes) > 1 and not is_any_answering and e.path is Leg.ALIVE


def has_lost_pods(e: Evidence) -> bool:
    """Addresses among pods are silent while the path works, and it is known what passes there."""
    return bool(e.pod_network.silent) and e.pod_network.is_complete and e.path is Leg.ALIVE


def passes_probes_only(e: Evidence) -> bool:
    """The same as `serves_probes_only`, by what is asked between addresses among pods, with no canary."""
    return e.pod_network.is_probes_only and has_lost_pods(e)


def probes_only_culprit(e: Evidence) -> str:
    """What passes probes only: where every node is a location of its own, this node is what all pods have in common.

    Else the remote leader, if its own pod answers and those behind it do not. Where not even that one does, it may be
    the own leader as well: whoever is better placed tells (`core.audit.peer_faults`).
    Where nobody stands between, each node on either side may be what lets probes pass alone.
    """
    if e.is_node_to_node:
        return e.self_name
    return e.remote_relay if e.remote_relay in e.answering_nodes else ""


def has_bulk_come_round(e: Evidence) -> bool:
    """Every service that full segments go to has got some, or has not, since the first began to get none.

    Until then whoever is found first looks like the only one, and like the culprit.
    """
    return not e.bulk.awaited and not e.beside.bulk.awaited


def offload_culprit(e: Evidence) -> str:
    """Whom full segments do not get past.

    Nobody's anywhere: where every node is a location of its own, this node. Those behind the remote leader only, and
    its own pass: its overlay. One alone: that node. Else it may be this side or that.
    """
    lost = list(dict.fromkeys(node for _, node in e.bulk.lost))
    carried = {node for _, node in e.bulk.carried}
    if e.beside.bulk.lost and not e.beside.bulk.carried:
        return e.self_name
    is_behind_nobody = e.is_node_to_node or not e.remote_relay
    if len(lost) == 1 and (is_behind_nobody or carried - {e.remote_relay}):
        return lost[0]
    return e.remote_relay if e.remote_relay in carried else ""


def ip6_because(evidence: Evidence) -> tuple[str, ...]:
    """Who is silent by IPv6, layer by layer."""
    layers: dict[Layer, list[str]] = {}
    for layer, peer in evidence.silent_ip6:
        layers.setdefault(layer, []).append(peer)
    return (
        *(f"silent by IPv6 on layer {layer.name.lower()}: {', '.join(peers)}" for layer, peers in layers.items()),
        "by IPv4 the same nodes answer on the same layers",
        "no traffic is moved: standby routes are IPv4",
    )


def service_because(canary: Canary) -> str:
    """Which way connections to a kubelet or an API server fail; its node may well reach this one."""
    what = "API server" if canary.resolved_role is CanaryRole.APISERVER else "kubelet"
    asked = f"{canary.kind.upper()} {canary.port}"
    # With "service" a refused connection is silence too, and an answer.
    result = "takes no connection" if canary.expect is CanaryExpect.SERVICE else "is not answered"
    return f"the {what} of {canary.node} cannot be reached from here: {asked} {result} (canary {canary.name})"


def reflector_because(_: Evidence) -> tuple[str, ...]:
    """A node that hears others and not itself."""
    return (
        "this node's own reflector does not answer it, not even over loopback",
        "what other nodes answer comes in: only the ports of the reflector are closed here",
    )


def new_flows_die_beyond(e: Evidence) -> bool:
    """The own side is innocent, known flows pass the remote leader, and new ones do not.

    Where new flows to that leader die as well they die in its tunnel, by the word of who holds the other end: a member
    whose overlay to its own leader seems to be alive may have been lucky.
    """
    tunnel = e.wireguard if e.is_leader else e.own_view_wireguard
    is_beyond = e.path_to_relay is Leg.ALIVE or tunnel is Leg.DEAD
    return e.path is Leg.DEAD and own_side_is_fine(e) and tunnel_carries(e) and is_beyond


def new_flows_at(name: str, direction: str) -> tuple[str, ...]:
    """What a node does to the overlay that takes known flows only."""
    return (
        f"fresh flows {direction} {name} over the overlay die",
        f"established flows to {name} still pass",
    )


def underlay_because(e: Evidence) -> str:
    """What a leader whose overlay takes no new flows does with those of the underlay."""
    if e.underlay is Leg.ALIVE:
        return f"{e.own_leader}'s underlay address answers"
    return f"new flows to {e.own_leader}'s underlay address die as well" if e.underlay is Leg.DEAD else ""


def own_way_because(e: Evidence) -> tuple[str, ...]:
    """Why it is neither the leader nor the path."""
    if e.underlay is Leg.DEAD:
        missed = f"{e.own_leader}'s host does not answer this node"
    elif e.is_leader_missed:
        missed = f"{e.own_leader}'s host leaves some probes of this node unanswered"
    else:
        missed = (
            f"this node's flows over the primary path: {e.path}; own leader: underlay {e.underlay}, overlay {e.overlay}"
        )
    return missed, f"neighbours report that {e.own_leader} answers them, and nothing against the path"


def own_overlay_because(e: Evidence) -> str:
    """Why it is not the leader's."""
    return f"{e.own_leader}'s underlay address answers, and it reaches other nodes over its overlay"


def relay_because(e: Evidence) -> str:
    """What the remote leader does with new flows to itself, while those to the nodes behind it die."""
    if e.path_to_relay is Leg.ALIVE:
        return f"{e.remote_leader} itself answers through the tunnel"
    return f"new flows to {e.remote_leader} itself die as well" if e.path_to_relay is Leg.DEAD else ""


def direction(e: Evidence) -> Direction:
    """Which way packets die: what a silent peer's own probes tell that still arrive here."""
    if e.path is not Leg.DEAD:
        return Direction.UNKNOWN
    if e.inbound is Leg.ALIVE:
        return Direction.OUTBOUND
    return Direction.INBOUND if e.inbound is Leg.DEAD else Direction.UNKNOWN


def inbound_because(evidence: Evidence) -> str:
    """Whether probes of the own leader arrive here, while it does not answer."""
    if evidence.inbound is Leg.ALIVE:
        return f"probes of {evidence.own_leader} still arrive here: packets die on the way to it"
    if evidence.inbound is Leg.DEAD:
        return f"no fresh probe of {evidence.own_leader} arrives here any more"
    return ""
