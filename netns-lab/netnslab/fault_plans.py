"""What each fault does, as nftables text, and the verdict it deserves. Pure.

Faults of the network strike at the switch side of a leader's cable, where the leader cannot notice: no
counter of its overlay device or NIC moves, no carrier drops.

    leader eth0 ======== b1-eth0 | br-cloud     (wan namespace)
             from_node -->  ingress hook
             to_node   <--  egress hook

Every fault has a table of its own and changes phase in one transaction: each packet meets the network
before the change or after it, never in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from netnslab.errors import LabError
from netnslab.site import WAN
from netnslab.topology import Topology

VXLAN_PORT = 8472

DEFAULT_MEMORY_S = 60.0

DEFAULT_SHARE = 0.3
_SHARE_SEED = 1

_KNOWN_SIZE = 65535
"""Outer source ports are 32768..60999 (udp_flow_src_port()), so two destinations fit."""

_FLOW = "ip saddr . ip daddr . udp sport"

_LOSS_RESOLUTION = 1_000_000

_LEAST_LIMIT_BYTES = 400
"""Smaller packets are what everything else is made of: a limit below is no black hole of large ones."""

Rule = tuple[str, str]
"""A chain and what to do in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedVerdict:
    """What a monitor worth its name says about a fault.

    Attributes:
        fault: its code in the daemon's catalogue.
        layer: underlay, wireguard, overlay or relay.
        node: the culprit.
    """

    fault: str
    layer: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """One fault at one place.

    Attributes:
        kind: its name in `inject KIND`; the verdict's code where there is one.
        node: whom it strikes.
        place: the inhabitant in whose network the table lives.
        chains: `nft` declaration of each base chain, by its name.
        faulty: rules while injected.
        healthy: rules while armed; empty for faults that need no preparation.
        memory_s: seconds a flow is remembered after its last packet; None for faults without memory.
        expected: None for disturbances that are no fault of the catalogue.
    """

    kind: str
    node: str
    place: str
    family: str
    chains: Mapping[str, str]
    faulty: tuple[Rule, ...]
    healthy: tuple[Rule, ...] = ()
    memory_s: float | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    expected: ExpectedVerdict | None = None

    @property
    def table(self) -> str:
        """Family and name of its table, for `nft`; ports of one node are blocked by a table each."""
        port = f"_{round(self.parameters['port'])}" if "port" in self.parameters else ""
        return f"{self.family} fault_{self.kind}_{self.node}{port}".replace("-", "_")

    @property
    def has_memory(self) -> bool:
        """Whether it must be armed, while all is well, to do what it should."""
        return self.memory_s is not None

    def arm_text(self) -> str:
        """The transaction that begins with an empty memory and lets everything pass."""
        return self.remove_text() + self._phase(self.healthy)

    def inject_text(self) -> str:
        """The transaction that starts the fault; what is remembered stays so."""
        return self._phase(self.faulty)

    def heal_text(self) -> str:
        """The transaction that ends the fault; a fault with memory goes on remembering."""
        return self._phase(self.healthy) if self.has_memory else self.remove_text()

    def remove_text(self) -> str:
        """The transaction that leaves nothing; declaring first makes it work when there is nothing."""
        return f"table {self.table} {{ }}\ndelete table {self.table}\n"

    def _phase(self, rules: tuple[Rule, ...]) -> str:
        """Declare what is missing, drop the rules of the phase before, add those of this one."""
        lines = [f"table {self.table} {{", "  counter dropped { }"]
        if self.memory_s is not None:
            lines += [
                "  set known {",
                "    type ipv4_addr . ipv4_addr . inet_service",
                f"    flags dynamic,timeout; timeout {round(self.memory_s * 1000)}ms; size {_KNOWN_SIZE};",
                "  }",
            ]
        lines += [f"  chain {name} {{ {hook} }}" for name, hook in self.chains.items()]
        lines += ["}", f"flush table {self.table}"]
        lines += [f"add rule {self.table} {chain} {action}" for chain, action in rules]
        return "\n".join(lines) + "\n"


def overlay_new_flows(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """The leader's overlay packets die unless their outer 5-tuple was seen in the last `memory_s` seconds.

    A hypervisor's flow table that takes no new entries behaves so: known flows keep themselves alive. With the `port`
    of another overlay both ways: Submariner's gateway takes packets by its own, and sends hardly any.
    """
    memory_s = parameters.get("memory_s", DEFAULT_MEMORY_S)
    of_port = {"port": parameters["port"]} if "port" in parameters else {}
    overlay = f"udp dport {round(of_port.get('port', VXLAN_PORT))}"
    chains = ("from_node", "to_node") if of_port else ("from_node",)
    remember = f"update @known {{ {_FLOW} }}"
    return FaultPlan(
        kind="overlay-new-flows",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, *chains),
        healthy=tuple((chain, f"{overlay} {remember}") for chain in chains),
        faulty=tuple(
            (chain, action)
            for chain in chains
            for action in (f"{overlay} {_FLOW} @known {remember} accept", f"{overlay} counter name dropped drop")
        ),
        memory_s=memory_s,
        parameters={"memory_s": memory_s, **of_port},
        expected=ExpectedVerdict(fault="overlay-new-flows", layer="overlay", node=node),
    )


def overlay_some_flows(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """A share of the leader's overlay flows die, old and new: one link of a bond, or one queue, that is broken.

    Which ones is a matter of the outer source port, so the flow that a probe keeps up may be among them for good.
    """
    share = parameters.get("share", DEFAULT_SHARE)
    if not 0.0 < share < 1.0:
        raise LabError("overlay-some-flows needs a share above 0 and below 1")
    lottery = f"jhash udp sport mod 100 seed {_SHARE_SEED} < {round(share * 100)}"
    return FaultPlan(
        kind="overlay-some-flows",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node"),
        faulty=(("from_node", f"udp dport {VXLAN_PORT} {lottery} counter name dropped drop"),),
        parameters={"share": share},
        expected=ExpectedVerdict(fault="overlay-new-flows", layer="overlay", node=node),
    )


def overlay_black_hole(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """No overlay packet of the leader arrives anywhere; what others send to it does."""
    del parameters
    return FaultPlan(
        kind="overlay-black-hole",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node"),
        faulty=(("from_node", f"udp dport {VXLAN_PORT} counter name dropped drop"),),
        expected=ExpectedVerdict(fault="overlay-black-hole", layer="overlay", node=node),
    )


def relay_not_forwarding(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """As if ip_forward were 0: the leader answers on every layer and passes nothing on.

    Its own pod suffers as well: between a pod and anything but its node, the node forwards.
    """
    del topology, parameters
    return FaultPlan(
        kind="relay-not-forwarding",
        node=node,
        place=node,
        family="ip",
        chains={"transit": "type filter hook forward priority filter - 10; policy accept;"},
        faulty=(("transit", "counter name dropped drop"),),
        expected=ExpectedVerdict(fault="relay-not-forwarding", layer="relay", node=node),
    )


def leader_dead(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """Power off: nothing comes from the node or reaches it, and no other link notices."""
    del parameters
    return FaultPlan(
        kind="leader-dead",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node", "to_node"),
        faulty=(("from_node", "counter name dropped drop"), ("to_node", "counter name dropped drop")),
        expected=ExpectedVerdict(fault="leader-dead", layer="underlay", node=node),
    )


def wireguard_blocked(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """A firewall lost its rule for the mesh's WireGuard port; other ports pass, standby links included."""
    del parameters
    return _port_blocked(
        topology,
        node,
        kind="wireguard-blocked",
        port=topology.wireguard.port,
        expected=ExpectedVerdict(fault="wireguard-blocked", layer="wireguard", node=node),
    )


def udp_port_blocked(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """UDP from and to `port` is lost in both directions: breaks one standby link, say."""
    if "port" not in parameters:
        raise LabError("udp-port-blocked needs the port")
    return _port_blocked(topology, node, kind="udp-port-blocked", port=int(parameters["port"]), expected=None)


def random_loss(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """A share of the node's IP packets is lost, drawn independently, in each direction."""
    ratio = parameters.get("ratio", -1.0)
    if not 0.0 <= ratio <= 1.0:
        raise LabError("random-loss needs a ratio from 0 to 1")
    lottery = f"meta protocol ip numgen random mod {_LOSS_RESOLUTION} < {round(ratio * _LOSS_RESOLUTION)}"
    return FaultPlan(
        kind="random-loss",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node", "to_node"),
        faulty=tuple((chain, f"{lottery} counter name dropped drop") for chain in ("from_node", "to_node")),
        parameters={"ratio": ratio},
    )


def mtu_black_hole(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """Overlay packets of more than `bytes` bytes, outer header included, vanish at the node's cable; nobody is told.

    With `one_way` only those that leave the node.
    """
    if not parameters.get("bytes", 0.0) >= _LEAST_LIMIT_BYTES:
        raise LabError(f"mtu-black-hole needs bytes, at least {_LEAST_LIMIT_BYTES}")
    chains = ("from_node",) if parameters.get("one_way") else ("from_node", "to_node")
    too_long = f"udp dport {VXLAN_PORT} ip length > {round(parameters['bytes'])} counter name dropped drop"
    return FaultPlan(
        kind="mtu-black-hole",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, *chains),
        faulty=tuple((chain, too_long) for chain in chains),
        parameters={"bytes": parameters["bytes"], "one_way": parameters.get("one_way", 0.0)},
        expected=ExpectedVerdict(fault="mtu-black-hole", layer="overlay", node=node),
    )


def fragments_dropped(topology: Topology, node: str, parameters: Mapping[str, float]) -> FaultPlan:
    """No IP fragment enters or leaves the node, the first one included; whole packets pass."""
    del parameters
    is_fragment = "ip frag-off & 0x3fff != 0 counter name dropped drop"
    return FaultPlan(
        kind="fragments-dropped",
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node", "to_node"),
        faulty=(("from_node", is_fragment), ("to_node", is_fragment)),
        expected=ExpectedVerdict(fault="fragments-dropped", layer="underlay", node=node),
    )


PLANS: Mapping[str, Callable[[Topology, str, Mapping[str, float]], FaultPlan]] = MappingProxyType(
    {
        "overlay-new-flows": overlay_new_flows,
        "overlay-some-flows": overlay_some_flows,
        "overlay-black-hole": overlay_black_hole,
        "relay-not-forwarding": relay_not_forwarding,
        "leader-dead": leader_dead,
        "wireguard-blocked": wireguard_blocked,
        "udp-port-blocked": udp_port_blocked,
        "random-loss": random_loss,
        "mtu-black-hole": mtu_black_hole,
        "fragments-dropped": fragments_dropped,
    }
)
"""Every fault the lab can inject, by kind."""


def _port_blocked(
    topology: Topology, node: str, *, kind: str, port: int, expected: ExpectedVerdict | None
) -> FaultPlan:
    both = f"udp sport {port} counter name dropped drop", f"udp dport {port} counter name dropped drop"
    return FaultPlan(
        kind=kind,
        node=node,
        place=WAN,
        family="netdev",
        chains=_switch_chains(topology, node, "from_node", "to_node"),
        faulty=tuple((chain, action) for chain in ("from_node", "to_node") for action in both),
        parameters={"port": float(port)},
        expected=expected,
    )


def _switch_chains(topology: Topology, node: str, *names: str) -> dict[str, str]:
    hooks = {"from_node": "ingress", "to_node": "egress"}
    port = topology.nodes[node].switch_port
    return {name: f'type filter hook {hooks[name]} device "{port}" priority 0; policy accept;' for name in names}
