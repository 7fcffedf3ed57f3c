"""The cells of `bench-diagnosis`: which fault is tried in which topology, and with what the daemons are set up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from netnslab import faults, state_faults, wg_quick
from netnslab.daemons import Settings
from netnslab.fabric import fabric_of
from netnslab.faults import Fault
from netnslab.lab import Lab
from netnslab.state_faults import StateFault
from netnslab.topology import Node, Topology

TOPOLOGIES = ("flannel-wg", "kilo-flannel")

KUBELET_PORT = 10250
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


# Here is no NAT whose mapping could be lost, and the overlay's black hole is that of fault_plans; there is no standby.
_ELSEWHERE = MappingProxyType(
    {"kilo-flannel": {"keepalive-missing", "overlay-black-hole"}, "flannel-wg": {"standby-mtu-smaller"}}
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
        )
    ]
    found.append(Trial(topology="flannel-wg", fault="wireguard-blocked", make=_of_network("wireguard-blocked", "d1")))
    found.append(Trial(topology="flannel-wg", fault="leader-dead", make=_of_network("leader-dead", "d1")))
    return tuple(sorted(found, key=lambda each: TOPOLOGIES.index(each.topology)))


OF_ONE_PEER = ("fdb-entry-missing", "fdb-entry-wrong", "neighbour-missing", "neighbour-wrong-mac", "pod-route-missing")
OF_THE_DEVICE = ("overlay-device-missing", "overlay-device-down", "overlay-emptied", "pod-route-escaped")
OF_THE_TUNNEL = (
    *("wireguard-key-mismatch", "wireguard-no-handshake", "wireguard-no-data", "wireguard-endpoint-moved"),
    *("allowed-ips-stolen", "one-way-break"),
)

COMPANIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "leader-dead": ("victim", "local-fault"),
        **dict.fromkeys(OF_ONE_PEER, ("others", "overlay-black-hole")),
        **dict.fromkeys(OF_THE_DEVICE, ("others", "overlay-black-hole")),
        **dict.fromkeys(OF_THE_TUNNEL, ("others", "wireguard-blocked")),
    }
)
"""What is said by those who see a fault from its other side, if they name the same culprit.

The dead leader hears nobody. Whose own entries are well knows that nothing comes back through the victim's overlay or
tunnel, and not why: the reason is in the victim's kernel.
"""


def companions_of(fault: str, *, victim: str, nodes: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Node and code of what is right to be said beside a fault's own code."""
    if fault not in COMPANIONS:
        return ()
    who, code = COMPANIONS[fault]
    return tuple((node, code) for node in nodes if (node == victim) == (who == "victim"))


PATIENCE_S = 22.0
"""Time for the right name where the catalogue itself waits for less."""

LONG_PATIENCE_S = 50.0
"""Silence of a tunnel is told after three handshakes in vain, or 15 s without data, by counters read now and then."""


def patience_s(fault: str) -> float:
    """How long to wait for a fault's own name."""
    is_slow = fault in OF_THE_TUNNEL or fault in ("keepalive-missing", "conntrack-invalid", "offload-fault")
    return LONG_PATIENCE_S if is_slow and fault != "one-way-break" else PATIENCE_S


def settings_for(topology: Topology) -> Settings:
    """Overrides of the daemons' configuration: who is asked as a canary, and how far daemons may go.

    Under Kilo they enforce, since only then there are standby links and a verdict has its alternatives; where nobody
    relays there is nothing to enforce but repairs, which would heal what is to be diagnosed.
    """
    is_flat = fabric_of(topology).carries_overlay
    canaries = [canary for node in topology.nodes.values() for canary in _canaries(node, is_flat=is_flat)]
    mode = {"daemon": {"mode": "observe"}} if is_flat else {}
    return {**QUICK, **mode, "probe": {"canary": canaries}}


def _canaries(node: Node, *, is_flat: bool) -> list[Mapping[str, object]]:
    address = wg_quick.address(node) if is_flat else node.node_ip
    common = {"node": node.name, "kind": "tcp", "interval": "500ms"}
    return [
        {"name": f"pod-{node.name}", "address": node.pod_ip, "port": CLOSED_PORT, **common},
        {"name": f"kubelet-{node.name}", "address": address, "port": KUBELET_PORT, **common},
    ]


def _of_state(kind: str) -> Callable[[Lab], StateFault]:
    return lambda lab: state_faults.make(lab, kind)


def _of_network(kind: str, node: str) -> Callable[[Lab], Fault]:
    return lambda lab: faults.make(lab, kind, node, {"memory_s": 60.0})
