"""The cells of `bench-diagnosis`: which fault is tried in which topology, and with what the daemons are set up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from netnslab import clustermesh, faults, state_faults, wg_quick
from netnslab.cluster_plans import BETWEEN, CLUSTER_PLANS
from netnslab.daemons import Settings
from netnslab.discard import DISCARD_PORT
from netnslab.fabric import fabric_of
from netnslab.faults import Fault
from netnslab.filter_plans import APISERVER_PORT, KUBELET_PORT
from netnslab.form_plans import FORM_PLANS
from netnslab.lab import Lab
from netnslab.native_plans import NATIVE_PLANS
from netnslab.state_faults import StateFault
from netnslab.topology import Node, Topology
from netnslab.underlay_plans import UNDERLAY_PLANS

WITH_ENTRIES = ("flannel-wg", "kilo-flannel", "flannel-native")
"""Whose overlays have entries in the kernel that somebody may damage, and the daemon put back."""

TOPOLOGIES = (*WITH_ENTRIES, clustermesh.NAME)

CLOSED_PORT = 9
"""A refusal is an answer: canaries need nobody who listens."""

# The daemon's restraint against flapping is not what is measured, and would keep the next cell waiting.
QUICK: Settings = MappingProxyType(
    {
        "policy": {
            "hold_down": "100ms",
            "wait_to_restore": "1s",
            "actions_per_minute": 60,
            "actions_per_day": 10_000,
            "half_life": "200ms",
        }
    }
)


OF_NATIVE = (
    *NATIVE_PLANS,
    *("allowed-ips-missing", "allowed-ips-stolen", "wireguard-peer-missing", "wireguard-key-mismatch"),
    *("wireguard-endpoint-moved", "wireguard-no-handshake", "wireguard-no-data", "one-way-break"),
    *("pod-route-diverted", "keepalive-missing", "forwarding-off"),
)
"""What is tried where pods are routed straight into WireGuard: all that has to do with the route and the peers."""

# Kilo's device is not wg-quick's to take down.
# Here is no NAT whose mapping could be lost, and the overlay's black hole is that of fault_plans; there is no standby,
# and wg0's 1420 bytes with all that WireGuard adds fit into 1500: nothing of the mesh is ever cut in pieces there.
# A path MTU is learned on the underlay, which only probes of the same location measure. Pods over wg0 travel inside of
# VXLAN, and AllowedIPs hold none of their prefixes; nobody relays, and what loses all that goes between addresses among
# pods is a black hole of the overlay. Nodes that go by their tunnels' addresses advertise no MAC.
# wireguard-go names the device it sends by, so that the kernel asks by ARP for an end that is locked out. What waits
# for the answer fills its one socket, and all tunnels of the node stand still while anything is sent there (9 s and
# more in flannel-native, where the node then rightly says so of itself); Linux's own WireGuard names none (send4() in
# drivers/net/wireguard/socket.c).
_ELSEWHERE = MappingProxyType(
    {
        "kilo-flannel": {
            *("keepalive-missing", "overlay-black-hole", "wireguard-device-missing"),
            *NATIVE_PLANS,
            *CLUSTER_PLANS,
        },
        "flannel-wg": {
            *("standby-mtu-smaller", "fragments-dropped", "mtu-poisoned", "allowed-ips-missing"),
            *("pod-network-broken", "pod-network-broken-output", "pod-network-broken-relay", "pod-network-broken-way"),
            *FORM_PLANS,
            *NATIVE_PLANS,
            *CLUSTER_PLANS,
            *(set(UNDERLAY_PLANS) - {"neighbour-wrong-gateway", "duplicate-address-router"}),
        },
        "flannel-native": set(state_faults.CATALOGUE) - set(OF_NATIVE),
        clustermesh.NAME: set(state_faults.CATALOGUE) - set(CLUSTER_PLANS),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One fault to try in one topology."""

    topology: str
    fault: str
    make: Callable[[Lab], Fault | StateFault]


def trials() -> tuple[Trial, ...]:
    """Every cell, by topology; faults that need a NAT, or a relay, where there is one."""
    found = [
        Trial(topology=topology, fault=kind, make=_of_state(kind))
        for kind in state_faults.CATALOGUE
        for topology in TOPOLOGIES
        if kind not in _ELSEWHERE[topology]
    ]
    found += [
        Trial(topology="kilo-flannel", fault=kind, make=_of_network(kind, "b1"))
        for kind in (
            *("overlay-new-flows", "overlay-black-hole", "relay-not-forwarding", "leader-dead", "wireguard-blocked"),
            "overlay-some-flows",
        )
    ]
    found.append(Trial(topology="flannel-wg", fault="wireguard-blocked", make=_of_network("wireguard-blocked", "d1")))
    found.append(Trial(topology="flannel-wg", fault="leader-dead", make=_of_network("leader-dead", "d1")))
    return tuple(sorted(found, key=lambda each: TOPOLOGIES.index(each.topology)))


OF_ONE_PEER = (
    *("fdb-entry-missing", "fdb-entry-wrong", "neighbour-missing", "neighbour-wrong-mac", "pod-route-missing"),
    "neighbour-wrong-mac-noarp",
)
OF_THE_TUNNEL = (
    *("wireguard-key-mismatch", "wireguard-no-handshake", "wireguard-no-data", "wireguard-endpoint-moved"),
    *("allowed-ips-stolen", "one-way-break", "wireguard-device-missing", "wireguard-peer-missing"),
    "wireguard-peer-missing-bare",
)

Companion = tuple[str, str, str]
"""Node, code, culprit."""

MOVED = "wireguard-endpoint-moved"
"""Both ends have moved, and whoever finds it later knows of the other end only until then."""

SILENCES = ("wireguard-no-handshake", "wireguard-no-data")
ON_THE_WAY = (*SILENCES, "one-way-break")
"""What a filter between two nodes does: it is at neither, and each end knows of the other only."""

NOT_RELAYED = "pod-network-broken-way"
"""A relay loses the pods of one node. The nodes behind it miss that one; that one misses them, and not the relay.

So it alone can tell the culprit; the others name it, or whom it tells them.
"""

ON_THE_ONLY_WAY = ("wireguard-blocked", "mtu-black-hole", "standby-mtu-smaller")
"""What happens to all of a node's tunnels: a leader of two locations has one, and cannot tell it from the other end's.

Where every node has several, the one that all have in common names itself.
"""

COMPANIONS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("leader-dead", "leader-dead-cable", "duplicate-address", "mac-moved"), (("victim", "local-fault"),)
        ),
        **dict.fromkeys(
            (*OF_ONE_PEER, "pod-route-escaped", "pod-route-escaped-lan"), (("others", "overlay-black-hole"),)
        ),
        **dict.fromkeys(OF_THE_TUNNEL, (("others", "wireguard-blocked"),)),
        "probes-only": (("others", "pod-unreachable"),),
        "pod-network-broken": (("others", "pod-unreachable"),),
        "pod-network-broken-tcp": (("others", "pod-unreachable"), ("victim", "probes-only")),
        "conntrack-full": (("others", "overlay-new-flows"),),
        # Until its agent has been asked again a node knows that nothing of the other cluster answers, and no more.
        "cluster-backends-unreachable": tuple((who, "clustermesh-datapath-cut") for who in ("others", "victim")),
    }
)
"""What is said by those who see a fault from its other side, if they name the same culprit: only where nobody can tell
them the cause.

The dead leader hears nobody. Whose own entries are well knows that nothing comes back through the victim's overlay, and
not why: entries of one peer are told to nobody. Whoever is at the other end of a broken tunnel hears nothing of it
there, and where the table of connections is full a hello may be one of the new flows that are dropped. The pods behind
a middlebox are silent, and where it stands only the node behind it can tell. Canaries are asked more often than the
addresses among pods, and where all of them are TCP's a loss of TCP looks like a middlebox to the node it happens at.
"""


def companions_of(
    fault: str,
    *,
    victim: str,
    peer: str,
    culprit: str,
    nodes: Iterable[str],
    places: Iterable[tuple[str, str]] | None = None,
) -> frozenset[Companion]:
    """Node, code and culprit of what is right to be said beside a fault's own code.

    Args:
        fault: its code.
        victim: the node it was put on.
        peer: the other end, where it is on the way between two.
        culprit: the node that is to be named.
        nodes: all of the topology.
        places: of `places_of`; whoever is relayed for has no other word than its end's.
    """
    found = {
        (node, code, culprit)
        for who, code in COMPANIONS.get(fault, ())
        for node in nodes
        if (node == victim) == (who == "victim")
    }
    if state_faults.FORMS.get(fault, fault) in (*SILENCES, MOVED) and peer:
        found |= {(victim, "wireguard-blocked", peer), (peer, "wireguard-blocked", victim)}
    if fault in SILENCES or state_faults.FORMS.get(fault) == "one-way-break":
        # At which end of the break packets still arrive depends on the form.
        found |= {(node, "wireguard-blocked", end) for node, end in places or ()}
    return frozenset(found)


def places_of(fault: str, *, victim: str, peer: str, topology: Topology) -> frozenset[tuple[str, str]] | None:
    """Which culprits each node may name where a fault is on the way between two, or at two; None where it is at one.

    Each end names the other, and so do the nodes that an end relays for. Two endpoints that have moved at once are at
    both ends.
    """
    is_flat = _is_flat(topology)
    if fault == NOT_RELAYED:
        return frozenset(
            (node, end) for node in topology.nodes for end in (victim, peer) if (node, end) != (peer, peer)
        )
    code = state_faults.FORMS.get(fault, fault)
    if code == MOVED:
        return frozenset((node, end) for node in topology.nodes for end in (victim, peer))
    if code not in ON_THE_WAY and (is_flat or code not in ON_THE_ONLY_WAY):
        return None
    if is_flat:
        return frozenset(((victim, peer), (peer, victim)))
    home = topology.nodes[victim].location
    elsewhere = next(each for each in topology.locations.values() if each.name != home)
    # Standby links that end at the victim begin at the other location's standby and at its leader: whichever is seen
    # first is named.
    others = (*elsewhere.standbys[:1], elsewhere.leader) if fault == "standby-mtu-smaller" else (elsewhere.leader,)
    ends = ((node.name, others if node.location == home else (victim,)) for node in topology.nodes.values())
    return frozenset((node, end) for node, named in ends for end in named)


PATIENCE_S = 22.0
"""Time for the right name where the catalogue itself waits for less."""

LONG_PATIENCE_S = 60.0
"""Silence of a tunnel is told after three handshakes in vain, or 15 s without data, by counters read now and then; of a
closed port of UDP after half a minute and 20 questions."""


SELDOM_LOOKED_AT = ("mtu-poisoned", "fragments-dropped", "standby-mtu-smaller", "pod-network-broken")
"""Sizes of segments and standbys, and closed ports of UDP among pods: twice a minute."""


def patience_s(fault: str) -> float:
    """How long to wait for a fault's own name."""
    slow = (*OF_THE_TUNNEL, *SELDOM_LOOKED_AT, *BETWEEN, "keepalive-missing", "conntrack-invalid", "offload-fault")
    return LONG_PATIENCE_S if fault in slow and fault != "one-way-break" else PATIENCE_S


SAID_BY_CHANCE = ("overlay-some-flows", "mac-moved-loop")
"""Where each node loses other flows, or one some of its frames, they agree once hellos have passed: one in a second."""


def settle_s(kind: str) -> float:
    """How long after the first right name nobody may say anything else, while the picture is still coming together.

    Args:
        kind: of the trial; one fault has several.
    """
    return 6.0 if kind in SAID_BY_CHANCE else 2.0


def settings_for(topology: Topology) -> Settings:
    """Overrides of the daemons' configuration: who is asked as a canary, and how far daemons may go.

    Under Kilo they enforce, since only then there are standby links and a verdict has its alternatives; where nobody
    relays there is nothing to enforce but repairs, which would heal what is to be diagnosed.
    """
    is_flat = _is_flat(topology)
    canaries = [canary for node in topology.nodes.values() for canary in _canaries(node, is_flat=is_flat)]
    masters = [topology.nodes[each.leader] for each in topology.locations.values()]
    canaries += [_of_host(node, "apiserver", APISERVER_PORT, is_flat=is_flat) for node in masters]
    if is_flat:
        canaries += [_outside(node) for node in topology.nodes.values() if node.public_ip is not None]
    mode = {"daemon": {"mode": "observe"}} if is_flat else {}
    return {**QUICK, **mode, "probe": {"canary": canaries}}


def _is_flat(topology: Topology) -> bool:
    """Whether each node is a location by itself; in a Cluster Mesh a cluster is one."""
    return fabric_of(topology).carries_overlay and topology.fabric != clustermesh.NAME


def _canaries(node: Node, *, is_flat: bool) -> list[Mapping[str, object]]:
    where = {"name": f"pod-{node.name}", "address": node.pod_ip, "port": DISCARD_PORT}
    pod = {**where, "node": node.name, "kind": "bulk", "interval": "500ms"}
    return [pod, _of_host(node, "kubelet", KUBELET_PORT, is_flat=is_flat)]


def _of_host(node: Node, what: str, port: int, *, is_flat: bool) -> Mapping[str, object]:
    """A port of Kubernetes' own; the daemon takes its role from that."""
    address = wg_quick.address(node) if is_flat else node.node_ip
    where = {"name": f"{what}-{node.name}", "address": address, "port": port}
    return {**where, "node": node.name, "kind": "tcp", "interval": "500ms"}


def _outside(node: Node) -> Mapping[str, object]:
    """A node's public address, by which no tunnel leads: it lives whatever became of its WireGuard."""
    where = {"name": f"host-{node.name}", "address": node.public_ip, "port": CLOSED_PORT}
    return {**where, "node": node.name, "kind": "tcp", "interval": "500ms"}


def traffic_pairs(topology: Topology) -> list[tuple[str, str]]:
    """Between which pods there is traffic, both ways.

    Where every node speaks for itself, between the two at which faults strike: some show in what those forward only.
    """
    if _is_flat(topology):
        one, other = state_faults.usual_place(topology, "conntrack-invalid")
    else:
        one, other = [members[-1].name for name in topology.locations if (members := topology.members(name))][:2]
    return [(one, other), (other, one)]


def _of_state(kind: str) -> Callable[[Lab], StateFault]:
    return lambda lab: state_faults.make(lab, kind)


def _of_network(kind: str, node: str) -> Callable[[Lab], Fault]:
    return lambda lab: faults.make(lab, kind, node, {"memory_s": 60.0})
