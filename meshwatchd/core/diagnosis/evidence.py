"""What one node knows about one pair of locations at one instant: what the classifier judges by."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.core.pmtu.verdict import SizeFinding
from meshwatchd.model.canary import Canary
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.fault_codes import FaultCode
from meshwatchd.model.ids import Layer, NodeName


class Leg(StrEnum):
    """What is known of one leg right now."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class BulkPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Names and nodes of canaries in bulk that were ever carried.

    Attributes:
        lost: connections are accepted there, and no full segment gets through.
        carried: full segments got there several times since the loss began.
        awaited: they may have, or not: the next questions will tell.
    """

    lost: tuple[tuple[str, str], ...] = ()
    carried: tuple[tuple[str, str], ...] = ()
    awaited: tuple[tuple[str, str], ...] = ()


class ServiceTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A canary of kind dns, tls or http that gets no good answer.

    Attributes:
        fault: its name, as `meshwatchctl service` has it.
        meaning: one sentence.
        proof: what that rests on, as sentences.
    """

    canary: str
    node: str
    fault: FaultCode
    meaning: str
    proof: tuple[str, ...] = ()


class PodTraffic(StrEnum):
    """What is asked between addresses among pods: by probes of ours, by TCP, and by UDP as others send it."""

    PROBES = "probes"
    TCP = "tcp"
    UDP = "udp"


OF_OTHERS = frozenset((PodTraffic.TCP, PodTraffic.UDP))


class PodNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """What addresses among pods answer to this node's own; empty while those of the other location answer.

    Attributes:
        silent: nodes of the other location that answered before and do not any more, while their own addresses do.
        lost: what none of them answers.
        passing: what one of them has answered since it was first silent.
        answering: the other location's that answer.
        silent_elsewhere, answering_elsewhere: the same of all other locations, this node's own among them.
        is_complete: none of those that answer has begun to miss answers as well, and what else passes is known.
    """

    silent: tuple[str, ...] = ()
    lost: frozenset[PodTraffic] = frozenset()
    passing: frozenset[PodTraffic] = frozenset()
    answering: tuple[str, ...] = ()
    silent_elsewhere: tuple[str, ...] = ()
    answering_elsewhere: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def is_probes_only(self) -> bool:
        """Whether our probes pass and nothing else does."""
        return self.lost >= OF_OTHERS and PodTraffic.PROBES not in self.lost


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What a node knows beside one pair, where the overlay stands on the tunnel; elsewhere nothing.

    `diagnosis.full_mesh` gathers it.

    Attributes:
        outside: the remote leader's host without the tunnel, by canaries at an address outside of the mesh.
        has_outside: whether such a canary has ever answered, so that its word is worth waiting for.
        outside_elsewhere: the same of all other nodes: alive where one of them is.
        has_tunnel: there is one below the overlay; else what is said of tunnels is about the other nodes' hosts.
        tunnels, overlays: this node's own to all other locations: alive where one of them is, dead where all are.
        silent: names and nodes of the canaries behind other nodes' overlays that do not answer.
        answering: names of those that do.
        bulk: the canaries in bulk behind the other nodes, since this pair loses full segments.
    """

    outside: Leg = Leg.UNKNOWN
    has_outside: bool = False
    outside_elsewhere: Leg = Leg.UNKNOWN
    has_tunnel: bool = True
    tunnels: Leg = Leg.UNKNOWN
    overlays: Leg = Leg.UNKNOWN
    silent: tuple[tuple[str, str], ...] = ()
    answering: tuple[str, ...] = ()
    bulk: BulkPlaces = BulkPlaces()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What one node knows about one pair of locations.

    Attributes:
        is_leader: whether this node leads its location.
        own_leader, remote_leader: the relays of the primary path on the two sides.
        remote_relay: the remote leader, if packets to its location pass it or end there, so that it may be what loses
            them all; empty where each node there is sent its own.
        path: fresh flows over the primary path to the nodes beyond the remote relay.
        path_to_relay: fresh flows over the primary path to the remote leader itself.
        pinned: old flows over the primary path to nodes that fresh flows do not reach.
        underlay, overlay, overlay_pinned: this node to its own leader (members only).
        members_overlay, members_underlay: this leader to all nodes of its location (leaders only).
        neighbours_overlay: this node's overlay to neighbours that do not lead; alive where nobody is asked,
            dead where there is none by its kind (Submariner). Of a cluster, to any of a few neighbours.
        own_view_overlay: what the own leader says of its overlay to its members (members only).
        own_loop: this node to itself over loopback.
        ipip: this node to its own leader through the IPIP device (members of a mesh that has one).
        members_ipip: what this leader's members say of the same leg (leaders only).
        wireguard: this leader to the remote leader's tunnel address, or its host's without a tunnel (leaders only).
            Of a cluster a few hosts, one of which is enough.
        own_view_wireguard: what the own leader says of its tunnel (members only).
        remote_view_overlay: what the remote leader says of its overlay to its members.
        remote_view_leader: what the remote leader's neighbours say of its underlay; where it has none, whether other
            leaders say that their tunnels to it are alive.
        is_node_to_node: one node at each end, and nobody relays: the path crosses the overlay, which stands on the
            tunnel, and what is lost to all others at once is lost here.
        remote: the name of the other location.
        neighbours_path: what the other nodes of this location say of the same path.
        neighbours_leader: alive where a neighbour that finds the path well says that the own leader's host answers
            (members only).
        is_leader_missed: whether the own leader's host leaves more of this node's probes unanswered than everyday loss
            explains (members only).
        control: the control plane of the other cluster, as this node's agent sees it; None where it says nothing.
        remote_view_ipip: what they say of their IPIP leg to it.
        is_anything_alive: whether any session to anybody is up.
        mismatched_nodes: silent peers in whose name packets arrive that are signed with another key than ours.
        is_unproven: whether the primary path has never answered, long after the start.
        is_active_down, has_good_standby: the paths beside the primary.
        missing_standbys: the relays of those that do not answer.
        lost_in_use: the relays of the standby in use, where it has lost traffic for longer than a move takes while the
            primary path answers; empty otherwise.
        kept_by: why nobody leaves that standby, where this node knows.
        silent_ip6: layers and peers that do not answer by IPv6 while they do by IPv4, the lowest layer first.
        silent_canaries: names and nodes of the canaries that ask a pod and get no answer.
        silent_services: the canaries that ask an API server or a kubelet and get no answer, API servers first.
        services: the canaries that ask for a service by its own protocol and get no good answer.
        answering_canaries: names of those that have answered every question since the suspicion, several of them.
        answering_nodes: the nodes of the canaries whose pods are up, the remote leader's own pod among them.
        bulk: the canaries in bulk.
        pod_network: what addresses among pods answer.
        log_likelihood: of the primary path's test.
        beside: what other pairs and the world outside of the tunnel tell.
        sizes: what the measured sizes say; None where all are as they should be.
    """

    pair: int
    is_leader: bool
    self_name: str
    own_leader: str
    remote_leader: str
    remote_relay: str
    path: Leg
    path_to_relay: Leg
    pinned: Leg
    underlay: Leg
    overlay: Leg
    overlay_pinned: Leg
    own_loop: Leg
    ipip: Leg
    members_ipip: Leg
    members_overlay: Leg
    members_underlay: Leg
    members_pinned: Leg
    wireguard: Leg
    own_view_wireguard: Leg
    remote_view_overlay: Leg
    remote_view_leader: Leg
    remote_view_ipip: Leg
    is_anything_alive: bool
    is_active_down: bool
    is_unproven: bool
    missing_standbys: tuple[tuple[NodeName, ...], ...]
    has_good_standby: bool
    silent_nodes: tuple[str, ...]
    silent_ip6: tuple[tuple[Layer, str], ...]
    silent_canaries: tuple[tuple[str, str], ...]
    mismatched_nodes: tuple[str, ...]
    inbound: Leg
    log_likelihood: float
    is_node_to_node: bool = False
    remote: str = ""
    neighbours_path: Leg = Leg.UNKNOWN
    neighbours_leader: Leg = Leg.UNKNOWN
    is_leader_missed: bool = False
    control: ClusterControl | None = None
    neighbours_overlay: Leg = Leg.UNKNOWN
    own_view_overlay: Leg = Leg.UNKNOWN
    silent_services: tuple[Canary, ...] = ()
    services: tuple[ServiceTrouble, ...] = ()
    answering_canaries: tuple[str, ...] = ()
    answering_nodes: tuple[str, ...] = ()
    bulk: BulkPlaces = BulkPlaces()
    pod_network: PodNetwork = PodNetwork()
    beside: Beside = Beside()
    sizes: SizeFinding | None = None
    lost_in_use: tuple[NodeName, ...] = ()
    kept_by: str = ""

    @property
    def relay_of_missing(self) -> frozenset[NodeName]:
        """The relay that all missing standbys have in common; empty where they have none."""
        return frozenset.intersection(*map(frozenset, self.missing_standbys)) if self.missing_standbys else frozenset()
