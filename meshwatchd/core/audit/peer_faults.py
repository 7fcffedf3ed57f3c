"""What nodes tell each other of causes that only a kernel shows.

    b3  flannel.1 is gone --hello--> b1, b2 --hello--> a1, a2, a3      node-unreachable b3 -> overlay-device-missing b3
    b1  ip_forward is 0   --hello--> everybody                        relay-not-forwarding b1 -> forwarding-off b1

Probes of others see the consequence and name the layer; the cause is in the victim's hello. A node tells what it has
found, and passes on what the other nodes of its location say of themselves: who has lost his overlay is heard by his
neighbours alone. Leaders pass on that a leader takes nothing new, or is hidden by its LAN. No word comes back to whom
it is about from those who have it from him, and nobody tells what he was told: so it ends with its cause.

A cause takes the place of a verdict only where probes blame the same node, or the tunnel of one's own leader; a full
table of connections at a relay, one that loses some flows, and one that passes probes only, also where they blame
nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

import msgspec

from meshwatchd.model.discovery import Hello, ToldFault
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.underlay_faults import CARRIER_LOST

_CUT_PODS = (FaultCode.POD_NETWORK_BROKEN, FaultCode.PROBES_ONLY)
"""Addresses among pods are silent. Where an answer leaves by the way its question came, probes pass all the same."""

_OVERLAY_LOST = frozenset(
    (
        *(FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE, FaultCode.RELAY_NOT_FORWARDING),
        *(FaultCode.NODE_UNREACHABLE, FaultCode.POD_UNREACHABLE, FaultCode.ALL_PATHS_DOWN),
        *_CUT_PODS,
    )
)
_TUNNEL_LOST = frozenset((FaultCode.WIREGUARD_BLOCKED, FaultCode.ALL_PATHS_DOWN))
_ALL_LOST = _OVERLAY_LOST | _TUNNEL_LOST | {FaultCode.LEADER_DEAD}
_LOST_ONE_WAY = _ALL_LOST | {FaultCode.ONE_WAY_BREAK}
_NOTHING_NEW = _OVERLAY_LOST | {FaultCode.WIREGUARD_BLOCKED, FaultCode.LEADER_DEAD}
_UNDERLAY_LOST = _NOTHING_NEW | {FaultCode.LOCAL, FaultCode.ONE_WAY_BREAK}
_NOT_PASSED_ON = frozenset((FaultCode.RELAY_NOT_FORWARDING, FaultCode.POD_UNREACHABLE, FaultCode.ALL_PATHS_DOWN))
_CUT_OFF = frozenset((FaultCode.NODE_UNREACHABLE,))
_PODS_LOST = frozenset((FaultCode.POD_UNREACHABLE, *_CUT_PODS))
_TUNNEL_OR_PODS_LOST = _TUNNEL_LOST | _PODS_LOST
_OF_PODS = frozenset(
    (
        *(FaultCode.ALLOWED_IPS_MISSING, FaultCode.ALLOWED_IPS_STOLEN),
        *(FaultCode.POD_ROUTE_DIVERTED, FaultCode.BGP_ROUTE_ESCAPED),
    )
)
_OF_PODS_AND_TUNNEL = _OF_PODS | {FaultCode.OVERLAY_DEVICE_DOWN, FaultCode.OVERLAY_DEVICE_MISSING}
"""Where pods are routed straight into WireGuard, its address is one of theirs, and what loses them loses the tunnel. In
a Cluster Mesh nodes are asked by nothing but the overlay, which goes through Cilium's WireGuard."""
_TOO_BIG = frozenset((FaultCode.MTU_BLACK_HOLE, FaultCode.FRAGMENTS_DROPPED))

EXPLAINS: Mapping[FaultCode, frozenset[FaultCode]] = MappingProxyType(
    {
        FaultCode.OVERLAY_DEVICE_MISSING: _OVERLAY_LOST,
        FaultCode.OVERLAY_DEVICE_DOWN: _OVERLAY_LOST,
        FaultCode.OVERLAY_EMPTIED: _OVERLAY_LOST,
        FaultCode.OVERLAY_MISMATCH: _OVERLAY_LOST,
        FaultCode.VTEP_MAC_CHANGED: _OVERLAY_LOST,
        FaultCode.DUPLICATE_ADDRESS: _UNDERLAY_LOST,
        FaultCode.MAC_MOVED: _UNDERLAY_LOST,
        FaultCode.NEIGHBOUR_WRONG: _UNDERLAY_LOST,
        **dict.fromkeys(CARRIER_LOST, _ALL_LOST),
        FaultCode.FORWARDING_OFF: _NOT_PASSED_ON,
        FaultCode.CONNTRACK_FULL: _NOTHING_NEW,
        # Whoever calls sees an answer to its SYN; what it sends then is the first that a rule against INVALID drops.
        FaultCode.CONNTRACK_INVALID: frozenset((FaultCode.OFFLOAD_FAULT,)),
        FaultCode.CLUSTER_ROUTE_MISSING: _ALL_LOST,
        FaultCode.WIREGUARD_DEVICE_MISSING: _ALL_LOST,
        FaultCode.WIREGUARD_PEER_MISSING: _TUNNEL_LOST,
        FaultCode.WIREGUARD_PEER_DUPLICATE: frozenset((FaultCode.NODE_UNREACHABLE,)),
        FaultCode.WIREGUARD_KEY_MISMATCH: _TUNNEL_LOST,
        FaultCode.ALLOWED_IPS_STOLEN: _TUNNEL_OR_PODS_LOST,
        FaultCode.ALLOWED_IPS_MISSING: _PODS_LOST,
        # The address that the overlay is probed by is among the pods'.
        FaultCode.POD_ROUTE_DIVERTED: _OVERLAY_LOST,
        # The end of a tunnel, which may hear nothing and be heard, or a neighbour, which calls its leader dead then.
        FaultCode.NODE_ROUTE_BLOCKED: _LOST_ONE_WAY,
        FaultCode.BGP_ROUTE_ESCAPED: _PODS_LOST,
        FaultCode.WIREGUARD_ENDPOINT_MOVED: _TUNNEL_LOST,
        FaultCode.WIREGUARD_NO_HANDSHAKE: _TUNNEL_LOST,
        FaultCode.WIREGUARD_NO_DATA: _TUNNEL_LOST,
        FaultCode.ONE_WAY_BREAK: _TUNNEL_LOST,
        FaultCode.MTU_MISCONFIGURED: _TOO_BIG,
        FaultCode.PROBE_PORT_BLOCKED: frozenset((FaultCode.NODE_UNREACHABLE,)),
        FaultCode.POD_NETWORK_BROKEN: frozenset((FaultCode.POD_NETWORK_BROKEN,)),
        FaultCode.PROBES_ONLY: frozenset((FaultCode.PROBES_ONLY, FaultCode.POD_UNREACHABLE)),
        **dict.fromkeys((FaultCode.NEIGHBOUR_MISSING, FaultCode.NEIGHBOUR_WRONG_MAC), _CUT_OFF),
        **dict.fromkeys((FaultCode.FDB_ENTRY_MISSING, FaultCode.FDB_ENTRY_WRONG), _CUT_OFF),
    }
)
"""What is worth telling, and which verdicts of probes it is the cause of: faults of a node as a whole and of the
tunnel. That one entry of one peer is missing concerns nobody else, but where that peer is the own leader, by whose
gateway go the answers to all other locations, or a member of the location that this node leads."""

_IS_BELIEVED: Mapping[FaultCode, frozenset[FaultCode]] = MappingProxyType(
    {
        **EXPLAINS,
        # Flows pass there: the one flow that another node keeps up was among those that do not.
        FaultCode.OVERLAY_NEW_FLOWS: frozenset((FaultCode.OVERLAY_BLACK_HOLE, FaultCode.RELAY_NOT_FORWARDING)),
        # Told by a member of itself, whose overlay to all of its neighbours is dead; others see silence alone.
        FaultCode.OVERLAY_BLACK_HOLE: _CUT_OFF,
        # Told where nobody relays: whoever has seen the host alive knows better than who has nothing but the tunnel.
        FaultCode.WIREGUARD_BLOCKED: frozenset((FaultCode.LEADER_DEAD,)),
    }
)
"""The same, and where probes of others have come through: who has seen nothing pass believes them."""

OF_ONE_PEER = frozenset(fault for fault, verdicts in EXPLAINS.items() if verdicts is _CUT_OFF)
"""Entries of one peer."""

_OF_LAN = frozenset((FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED, FaultCode.NEIGHBOUR_WRONG))
_OF_PATHS = (_UNDERLAY_LOST | {FaultCode.UNDETERMINED}) - {
    *(FaultCode.NODE_UNREACHABLE, FaultCode.POD_UNREACHABLE, FaultCode.LOCAL)
}
"""Verdicts about a path as a whole. Where the LAN loses some frames of a relay, which answers are missing is chance."""

_MISLED = (FaultCode.POD_ROUTE_DIVERTED, FaultCode.NODE_ROUTE_BLOCKED)
CUT_OFF_BY = _OF_LAN | {FaultCode.CONNTRACK_FULL, *_MISLED}
"""What leaves a relay that knows it so few who hear its hellos that they tell others."""

_LED_ASTRAY = frozenset((FaultCode.NODE_UNREACHABLE, FaultCode.RELAY_NOT_FORWARDING))
"""What is said where a relay leads packets to one node elsewhere: the nodes behind it blame that node, and that node
blames its own relay."""

_SEEN_BY_OTHERS = frozenset(
    (
        *(FaultCode.VTEP_MAC_CHANGED, FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED),
        *(FaultCode.POD_NETWORK_BROKEN, FaultCode.OVERLAY_NEW_FLOWS),
    )
)
"""What a node cannot find in its own kernel: what its MAC is to others, its pods cut off, flows of others that pass."""

_SOME_PASS = frozenset((FaultCode.CONNTRACK_FULL, FaultCode.OVERLAY_NEW_FLOWS))
_OF_SOME_RELAY = frozenset((FaultCode.PROBES_ONLY, FaultCode.PROBE_PORT_BLOCKED))
"""Where no pod of the other location answers, or no probe: it may be any relay, and whoever can tell has told which."""

_OF_WHATEVER_WAS_FOUND = frozenset((FaultCode.WIREGUARD_BLOCKED, FaultCode.OVERLAY_BLACK_HOLE, FaultCode.PROBES_ONLY))


def believe(hellos: Mapping[str, Hello], node: str) -> tuple[PeerFault, ...]:
    """What peers have told, without words of other versions, and without what this node has said itself."""
    own = hellos.get(node)
    home = own.home if own is not None else ""
    near = {name for name, hello in hellos.items() if home and hello.home == home}
    leaders = {name for name in near if hellos[name].view.is_leader}
    return tuple(
        PeerFault(
            fault=FaultCode(told.fault),
            culprit=told.culprit,
            source=NodeName(name),
            is_own_leader=name in leaders,
            # A leader does not reach a member: the member blames the leader, and the others the member.
            blamed=told.culprit if told.peer == node else told.peer,
            loses_tunnel_with_pods=told.culprit in hellos and hellos[told.culprit].view.loses_tunnel_with_pods,
        )
        for name, hello in sorted(hellos.items())
        if name != node
        for told in hello.faults
        if told.fault in _IS_BELIEVED and _is_to_be_heard(told, node, is_neighbour=name in near)
        # Who is cut off hears it from its own leader alone.
        if not told.peer
        or (cuts_a_node_off(told) and (told.culprit == name or (told.peer == node and name in leaders)))
        or _may_clear(told, hello.home, hellos)
    )


def cuts_a_node_off(told: ToldFault) -> bool:
    """Whether a tunnel carries one node no more, of which both ends hear nothing."""
    return told.fault == FaultCode.ALLOWED_IPS_MISSING and bool(told.peer)


def _may_clear(told: ToldFault, home: str, hellos: Mapping[str, Hello]) -> bool:
    """Whether a word that takes the blame from a node comes from its own location, and puts it on who leads there.

    Anybody else could put it on any node.
    """
    leader, cleared = hellos.get(told.culprit), hellos.get(told.peer)
    is_of_home = leader is not None and cleared is not None and leader.home == cleared.home == home != ""
    return told.fault in OF_ONE_PEER and is_of_home and leader is not None and leader.view.is_leader


def explain(
    verdict: Verdict, told: Iterable[PeerFault], relays: Container[NodeName] = (), *, node: str = ""
) -> Verdict:
    """The verdict, or the cause that was told.

    Args:
        verdict: what the probes say.
        told: by other nodes.
        relays: of the path that the verdict is about. One of them may be what nothing else names.
        node: whose verdict it is.
    """
    # What a leader says of the other end of its tunnel, such as a break in one direction, is a consequence of the LAN;
    # and that nothing but probes passes, or nothing at all, one of whatever was found at either end.
    every = sorted(told, key=lambda each: (each.fault not in _OF_LAN, each.fault in _OF_WHATEVER_WAS_FOUND))
    cause = next((each for each in every if _is_cause(each, verdict, relays, node)), None) or _outvote(
        verdict, every, relays
    )
    if cause is None:
        return verdict
    return msgspec.structs.replace(
        verdict,
        fault=cause.fault,
        layer=CATALOGUE[cause.fault].layer,
        culprit=cause.culprit,
        because=(
            f"{cause.source} reports {cause.fault} at {cause.culprit}",
            f"the probes of this node alone say {verdict.fault}",
            *verdict.because,
        ),
        told_by=cause.source,
    )


def _outvote(verdict: Verdict, told: Iterable[PeerFault], relays: Container[NodeName]) -> PeerFault | None:
    """The word of most, where this node is alone with its relay.

    Where some flows pass, those of one node to a broken relay may all do, and it blames the next one on their way.
    """
    if verdict.fault is not FaultCode.OVERLAY_NEW_FLOWS:
        return None
    words = [each for each in told if each.fault is verdict.fault and each.culprit in relays]
    count = Counter(each.culprit for each in words)
    culprit = max(count, key=lambda name: (count[name], name), default=NodeName(""))
    if not words or count[culprit] <= 1 + count[NodeName(verdict.culprit)]:
        return None
    return next(each for each in words if each.culprit == culprit)


def has_lost_relay(
    fault: FaultCode, relay: str, verdict: Verdict, relays: Container[NodeName], *, node: str = ""
) -> bool:
    """Whether a verdict is about a path with a relay that is hidden, misled or passes some flows; whoever is named.

    A node that names itself as out of reach (`node` is the one whose verdict it is) has lost its way to that relay.
    """
    is_own_way = verdict.fault is FaultCode.NODE_UNREACHABLE and verdict.culprit == node
    is_led_astray = fault in _MISLED and verdict.fault in _LED_ASTRAY
    # Of which nodes behind it the answers are missing is chance.
    is_picked = fault in _SOME_PASS and verdict.fault is FaultCode.NODE_UNREACHABLE
    is_hidden = fault in _OF_LAN and (verdict.fault in _OF_PATHS or is_own_way)
    return relay in relays and (is_led_astray or is_picked or is_hidden)


def _is_cause(told: PeerFault, verdict: Verdict, relays: Container[NodeName], node: str) -> bool:
    if has_lost_relay(told.fault, told.culprit, verdict, relays, node=node):
        return True
    if verdict.fault is FaultCode.UNDETERMINED and not verdict.culprit:
        # Which of several answers are missing is chance where a relay takes nothing new, or only some: its own word
        # decides, or that of whoever could tell.
        return told.fault in _SOME_PASS and told.culprit in relays
    if verdict.fault is FaultCode.STANDBY_DOWN:
        # The one relay that all standby paths have which do not answer: those of one node may be what it does not pass.
        is_taken = told.fault in _SOME_PASS or FaultCode.RELAY_NOT_FORWARDING in EXPLAINS.get(told.fault, ())
        return is_taken and told.culprit in relays
    if verdict.fault in _OF_SOME_RELAY and not verdict.culprit:
        return told.fault is verdict.fault and told.culprit in relays
    if verdict.fault is FaultCode.POD_NETWORK_BROKEN and told.fault is verdict.fault:
        # No pod of the other location answers: its end or this one, which another node may have told apart. And of one
        # node, whose own probes are answered by a relay and by nobody behind it: the relay passes nothing on.
        return not verdict.culprit or (told.source == verdict.culprit and told.culprit in relays)
    if verdict.fault is FaultCode.POD_NETWORK_BROKEN and not verdict.culprit:
        return told.fault in _OF_PODS and told.culprit in relays
    if told.fault is FaultCode.POD_NETWORK_BROKEN:
        # A canary among pods that does not answer is at either end of what is lost there.
        return verdict.fault is FaultCode.POD_UNREACHABLE and told.culprit in (verdict.culprit, node)
    if _is_own_tunnels_size(told, verdict):
        return True
    if verdict.fault is FaultCode.NODE_UNREACHABLE and told.fault in _OF_LAN and verdict.culprit != told.culprit:
        # A node that was given another's address has lost that one's answers, and its own word tells why; a relay with
        # a wrong entry loses what it relays to one node.
        is_finder = told.fault is FaultCode.DUPLICATE_ADDRESS and verdict.culprit == told.source
        return is_finder or (told.fault is FaultCode.NEIGHBOUR_WRONG and told.culprit in relays)
    if told.blamed:
        # Who is cut off by the other end of the tunnel blames its own relay, and whoever else is behind it that node.
        is_own_loss = told.fault is FaultCode.ALLOWED_IPS_MISSING and told.blamed == told.culprit
        is_relays = is_own_loss and verdict.fault in _LED_ASTRAY and told.culprit in relays
        return is_relays or (verdict.culprit == told.blamed and verdict.fault in _OVERLAY_LOST)
    if verdict.fault not in _explained_by(told):
        return False
    # A member blames the leader at the other end of the tunnel; its own leader has looked at the device.
    is_own_tunnel = told.is_own_leader and verdict.fault is FaultCode.WIREGUARD_BLOCKED
    is_of_tunnel = _IS_BELIEVED[told.fault] in (_TUNNEL_LOST, _TUNNEL_OR_PODS_LOST, _ALL_LOST, _LOST_ONE_WAY)
    # A member misses pods whose packets its own leader does not hand to the tunnel.
    is_own_pods = told.is_own_leader and told.fault in _OF_PODS and verdict.fault in _PODS_LOST
    return verdict.culprit == told.culprit or (is_own_tunnel and is_of_tunnel) or is_own_pods


def _explained_by(told: PeerFault) -> frozenset[FaultCode]:
    is_whole = told.loses_tunnel_with_pods and told.fault in _OF_PODS_AND_TUNNEL
    has_no_peer = told.loses_tunnel_with_pods and told.fault is FaultCode.WIREGUARD_PEER_MISSING
    return _IS_BELIEVED[told.fault] | (_ALL_LOST if is_whole else _CUT_OFF if has_no_peer else frozenset())


def _is_own_tunnels_size(told: PeerFault, verdict: Verdict) -> bool:
    """Whether a member blames the far end for the size of a tunnel whose near end its own leader found too small."""
    is_of_size = verdict.fault in (FaultCode.MTU_MISCONFIGURED, FaultCode.MTU_BLACK_HOLE)
    is_told = told.fault is FaultCode.MTU_MISCONFIGURED and told.is_own_leader
    return is_told and is_of_size and verdict.layer is Layer.WIREGUARD


def _is_to_be_heard(told: ToldFault, node: str, *, is_neighbour: bool) -> bool:
    """Of itself a node hears only what it cannot find in its own kernel.

    An entry of the leader, or one that the leader has of a member, is why other locations hear nothing. Neighbours are
    answered without it, but for that member.
    """
    if is_neighbour and told.fault in OF_ONE_PEER and told.peer != node:
        return False
    return told.culprit != node or told.fault in _SEEN_BY_OTHERS
