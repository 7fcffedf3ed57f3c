"""Faults of the catalogue as context managers: each knows the verdict it deserves, and healing restores the letter.

    with state_faults.make(lab, "fdb-entry-missing", "c1", peer="d1") as fault:
        ...                                  # pods of c1 do not reach those of d1; nothing tells them why
        assert fault.expected.fault == ...

What undoes a fault is found out before it strikes and written into the lab's record, so another process can heal it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from netnslab import cilium_agent, cluster_plans, conntrack, form_plans, native_plans, ownership, underlay_plans
from netnslab.announce import announce
from netnslab.build import load_nft
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.fault_plans import ExpectedVerdict
from netnslab.filter_plans import FILTER_PLANS
from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab
from netnslab.ownership import FaultRecord, Step
from netnslab.poison import poison
from netnslab.state_plans import STATE_PLANS, Change, Scene
from netnslab.topology import Topology

CATALOGUE: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        **STATE_PLANS,
        **FILTER_PLANS,
        **underlay_plans.UNDERLAY_PLANS,
        **form_plans.FORM_PLANS,
        **native_plans.NATIVE_PLANS,
        **cluster_plans.CLUSTER_PLANS,
    }
)
"""Every fault of this file, by kind, which is the code of the verdict it deserves, or a form of it."""

FORMS: Mapping[str, str] = MappingProxyType(
    {
        "overlay-mismatch-vni": "overlay-mismatch",
        **{f"pod-route-diverted-{form}": "pod-route-diverted" for form in ("unreachable", "bridge", "address")},
        **{f"pod-network-broken-{form}": "pod-network-broken" for form in ("tcp", "udp", "output", "relay", "way")},
        **underlay_plans.FORMS,
        **form_plans.FORMS,
        **native_plans.FORMS,
        **cluster_plans.FORMS,
    }
)
"""The code that a further form of a fault deserves."""

_LAYERS = MappingProxyType(
    {
        "underlay": (
            *underlay_plans.UNDERLAY_PLANS,
            "mtu-poisoned",
            "mtu-black-hole",
            "one-way-break",
            "fragments-dropped",
            "leader-dead",
        ),
        "self": ("conntrack-full", "conntrack-invalid", "clustermesh-control-cut"),
        "relay": (
            "standby-mtu-smaller",
            "rp-filter-strict",
            "forwarding-off",
            "relay-not-forwarding",
            "pod-route-diverted",
            "kubelet-unreachable",
            "apiserver-unreachable",
            "probe-port-blocked",
            "probes-only",
            *("clustermesh-datapath-cut", "cluster-backends-unreachable"),
        ),
        "pod_network": ("pod-network-broken",),
        "wireguard": ("allowed-ips-stolen", "allowed-ips-missing", "keepalive-missing"),
    }
)


class StateFault:
    """One fault in one lab, by one node's state or by a filter."""

    def __init__(self, scene: Scene, kind: str) -> None:
        self.kind = kind
        self.node = scene.victim.name
        self.peer = scene.peer.name
        culprit = "" if kind in cluster_plans.BETWEEN else self.node
        self.expected = ExpectedVerdict(fault=FORMS.get(kind, kind), layer=_layer_of(kind), node=culprit)
        self._scene = scene
        self._lab = scene.lab

    def inject(self) -> int:
        """Break it.

        Returns:
            CLOCK_MONOTONIC in nanoseconds when it was done.
        """
        change = CATALOGUE[self.kind](self._scene)
        with ownership.updating(self._lab.lab_id) as record:
            if any(each.kind == self.kind and each.node == self.node for each in record.faults):
                raise LabError(f"{self.kind} at {self.node} is there already; heal it first")
            record.faults.append(FaultRecord(kind=self.kind, node=self.node, is_injected=True, undo=change.undo))
        _perform(self._lab, change.do)
        return time.monotonic_ns()

    def heal(self) -> int:
        """Restore what was; does nothing when it is not injected.

        Returns:
            CLOCK_MONOTONIC in nanoseconds when it was done.
        """
        for record in ownership.read(self._lab.lab_id).faults:
            if (record.kind, record.node) == (self.kind, self.node):
                heal_record(self._lab, record)
        return time.monotonic_ns()

    def __enter__(self) -> Self:
        try:
            self.inject()
        except BaseException:
            self.heal()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


def make(lab: Lab, kind: str, node: str | None = None, *, peer: str | None = None) -> StateFault:
    """A fault by the name of its kind, at its usual place or at another.

    Raises:
        LabError: there is no such kind or node.
    """
    if kind not in CATALOGUE:
        raise LabError(f"there is no fault {kind!r}; faults: {', '.join(CATALOGUE)}")
    usual_victim, usual_peer = usual_place(lab.topology, kind)
    victim = node or usual_victim
    other = peer or (usual_peer if usual_peer != victim else usual_victim)
    for name in (victim, other):
        lab.node(name)
    return StateFault(Scene(lab=lab, victim=lab.topology.nodes[victim], peer=lab.topology.nodes[other]), kind)


def active(lab: Lab) -> list[FaultRecord]:
    """Faults of this file that are injected in a lab, by whichever process."""
    return [each for each in ownership.read(lab.lab_id).faults if each.undo]


def usual_place(topology: Topology, kind: str) -> tuple[str, str]:
    """Victim and peer where a fault is worth looking at.

    Under Kilo the overlay's entries at a member about its leader, or at a leader about a member where the whole device
    or a filter is at fault; at a leader about a member of the other location where only that one's pods are hit;
    everything else at a leader about the other leader.
    Where every node speaks with every other, two nodes of different locations that both have an address of their own;
    only a keepalive is missed behind the NAT.
    """
    first, last = (list(topology.locations.values())[index] for index in (0, -1))
    if fabric_of(topology).carries_overlay:
        hidden = next((each for each in topology.locations.values() if each.nat_ip is not None), last)
        public = [node.name for node in topology.nodes.values() if node.public_ip is not None]
        return (hidden.leader, public[0]) if kind == "keepalive-missing" else (public[0], public[-1])
    if kind in _OF_PODS:
        return last.leader, topology.members(first.name)[-1].name
    member = topology.members(last.name)[-1].name
    if kind in _OF_MEMBERS:
        return member, last.leader
    return last.leader, member if kind in _OF_LEADERS else first.leader


_OF_PODS = frozenset(("allowed-ips-missing", "allowed-ips-stolen-pods", "pod-route-diverted", "pod-network-broken-way"))
_OF_MEMBERS = frozenset(
    (
        *("overlay-device-missing", "overlay-device-down", "overlay-emptied", "mtu-misconfigured"),
        "mtu-poisoned",
        *(
            "fdb-entry-missing",
            "fdb-entry-wrong",
            "neighbour-missing",
            "neighbour-not-permanent",
            "neighbour-wrong-mac",
        ),
        *("overlay-mismatch", "neighbour-wrong"),
        *("pod-route-missing", "kubelet-unreachable", "probe-port-blocked"),
        *("conntrack-invalid", "overlay-black-hole-member", "neighbour-wrong-mac-noarp", "pod-route-diverted-rule"),
        *("pod-network-broken", "pod-network-broken-tcp", "pod-network-broken-udp", "pod-network-broken-output"),
        *("pod-route-diverted-unreachable", "pod-route-diverted-bridge", "pod-route-diverted-address"),
    )
)
_OF_LEADERS = frozenset(
    (
        *("vtep-mac-changed", "overlay-mismatch-vni", "pod-route-escaped", "offload-fault", "probes-only"),
        "overlay-black-hole",
        *("mac-moved", "mac-moved-loop", "neighbour-wrong-leader", "node-route-blocked-neighbour"),
        *(kind for kind in underlay_plans.UNDERLAY_PLANS if kind.startswith("duplicate-address")),
        *form_plans.FORM_PLANS,
    )
)


def heal_record(lab: Lab, record: FaultRecord) -> None:
    """Undo a fault by what its record says, and strike it off."""
    _perform(lab, record.undo)
    with ownership.updating(lab.lab_id) as kept:
        kept.faults = [each for each in kept.faults if (each.kind, each.node) != (record.kind, record.node)]


def _layer_of(kind: str) -> str:
    for layer, kinds in _LAYERS.items():
        if FORMS.get(kind, kind) in kinds:
            return layer
    return "wireguard" if kind.startswith("wireguard") else "overlay"


def _perform(lab: Lab, steps: Iterable[Step]) -> None:
    for step in steps:
        _TOOLS[step.tool](lab.site.inhabitant(step.place), step.lines)


def _batch(tool: str, place: Inhabitant, lines: tuple[str, ...]) -> None:
    place.batch(tool, lines)


def _nft(place: Inhabitant, lines: tuple[str, ...]) -> None:
    load_nft(place, "\n".join(lines) + "\n")


def _wg(place: Inhabitant, lines: tuple[str, ...]) -> None:
    for line in lines:
        place.run(["wg", *shlex.split(line)], check=True)


def _wg_quick(place: Inhabitant, lines: tuple[str, ...]) -> None:
    """Without the kernel's WireGuard it starts wireguard-go, which ends with its device."""
    for line in lines:
        place.run(["wg-quick", *line.split()], check=True)


def _sysctl(place: Inhabitant, lines: tuple[str, ...]) -> None:
    def write() -> None:
        for line in lines:
            key, _, value = line.partition("=")
            Path("/proc/sys", key).write_text(value, encoding="ascii")

    place.space.call(write)


def _conntrack(place: Inhabitant, lines: tuple[str, ...]) -> None:
    for line in lines:
        {"flush": conntrack.flush, "fill": conntrack.fill}[line](place)


_TOOLS: Mapping[str, Callable[[Inhabitant, tuple[str, ...]], None]] = MappingProxyType(
    {
        "ip": partial(_batch, "ip"),
        "bridge": partial(_batch, "bridge"),
        "nft": _nft,
        "wg": _wg,
        "wg-quick": _wg_quick,
        "sysctl": _sysctl,
        "conntrack": _conntrack,
        "icmp": poison,
        "arp": announce,
        "cilium-agent": cilium_agent.change,
    }
)
