"""Faults that filters make: what a switch, a middlebox, a firewall or connection tracking drops, and what it lets pass.

Where a fault is about what WireGuard carries, it has to strike between the overlay device and the tunnel of one node:
further out all is encrypted. Under Kilo the overlay crosses the switch in clear, and it strikes there.

    flannel-wg    pod -- flannel.1 --(here)-- wg0 == eth0 -- switch
    kilo-flannel  pod -- flannel.1 -- eth0 --(here)-- switch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.fault_plans import VXLAN_PORT
from netnslab.flannel import pod_network_of
from netnslab.ownership import Step
from netnslab.site import WAN
from netnslab.state_plans import Change, Scene

KUBELET_PORT, APISERVER_PORT = 10250, 6443

PROBE_PORTS = "18617-18700"
"""All that meshwatchd's reflectors listen to by default, hellos included."""

STANDBY_PORTS = "51830-51860"
"""`standby.port` and the ports of all links behind it, by default."""

INNER_PROTOCOL = "@th,312,8"
"""Of a VXLAN packet: UDP 8, VXLAN 8, Ethernet 14, and the tenth byte of the inner IPv4 header."""

INNER_SOURCE_PORT = "@th,400,16"
INNER_DESTINATION_PORT = "@th,416,16"
"""Behind an inner IPv4 header without options."""

MESSAGE_TYPE = "@th,64,8"
"""The first byte of a WireGuard message: 1 initiation, 2 response, 3 cookie, 4 data (and keepalive)."""

SMALL_BYTES = 1000
"""Handshakes and acknowledgements of TCP are smaller, full segments are bigger."""

BLACK_HOLE_BYTES = 1400
"""The largest IPv4 packet that a path of this kind still carries; WireGuard's full ones have 1480."""

TCP = 6


def offload_fault(scene: Scene) -> Change:
    """Full TCP segments in the overlay are lost as with a broken checksum, datagrams of any size pass."""
    rule = f"udp dport {VXLAN_PORT} {INNER_PROTOCOL} {TCP} ip length > {SMALL_BYTES}"
    return _overlay_filter(scene, "offload_fault", (f"{rule} counter name dropped drop",), is_one_way=True)


def overlay_black_hole(scene: Scene) -> Change:
    """Nothing of the overlay leaves the victim; what others send it arrives."""
    rule = f"udp dport {VXLAN_PORT} counter name dropped drop"
    return _overlay_filter(scene, "overlay_black_hole", (rule,), is_one_way=True)


def probes_only(scene: Scene) -> Change:
    """A middlebox that knows this daemon: its probes pass through the overlay, nothing else does."""
    ours = [
        f"udp dport {VXLAN_PORT} {INNER_PROTOCOL} 17 {port} {PROBE_PORTS} accept"
        for port in (INNER_SOURCE_PORT, INNER_DESTINATION_PORT)
    ]
    rules = (*ours, f"udp dport {VXLAN_PORT} counter name dropped drop")
    return _overlay_filter(scene, "probes_only", rules)


def mtu_black_hole(scene: Scene) -> Change:
    """Big packets of the victim to and from elsewhere vanish, and no ICMP tells."""
    rule = f"udp sport {_port(scene)} ip length > {BLACK_HOLE_BYTES} counter name dropped drop"
    back = rule.replace("sport", "dport")
    return _switch_filter(scene, "mtu_black_hole", from_node=(rule,), to_node=(back,))


def fragments_dropped(scene: Scene) -> Change:
    """Pieces of packets are lost at the victim's switch, as clouds and firewalls do it for good."""
    rule = "ip frag-off & 0x3fff != 0 counter name dropped drop"
    return _switch_filter(scene, "fragments_dropped", from_node=(rule,), to_node=(rule,))


def standby_mtu_smaller(scene: Scene) -> Change:
    """The ways around the victim's tunnel carry less than the tunnel: what works today breaks with a failover.

    Standby links have ports of their own, above those that WireGuard is known by.
    """
    rules = [f"udp {way} {STANDBY_PORTS} ip length > {BLACK_HOLE_BYTES}" for way in ("sport", "dport")]
    counted = tuple(f"{rule} counter name dropped drop" for rule in rules)
    return _switch_filter(scene, "standby_mtu_smaller", from_node=counted, to_node=counted)


def one_way_break(scene: Scene) -> Change:
    """Nothing of the victim reaches the peer; what the peer sends arrives."""
    rule = f"ip daddr {_public(scene)} counter name dropped drop"
    return _switch_filter(scene, "one_way_break", from_node=(rule,), to_node=())


def wireguard_no_handshake(scene: Scene) -> Change:
    """Handshakes between victim and peer are lost, and the keys they had are used up."""
    change = _by_message(scene, "wireguard_no_handshake", "{ 1, 2 }")
    peer = scene.wireguard_peer()
    allowed, keepalive = f"allowed-ips {peer['allowed']}", f"persistent-keepalive {peer['keepalive']}"
    endpoint = f"endpoint {peer['endpoint']}" if peer["endpoint"] else ""
    forgotten = scene.step(
        "wg",
        f"set {scene.tunnel} peer {peer['key']} remove",
        f"set {scene.tunnel} peer {peer['key']} {allowed} {keepalive} {endpoint}",
    )
    return Change(do=(*change.do, forgotten), undo=change.undo)


def wireguard_no_data(scene: Scene) -> Change:
    """Handshakes pass, and what they are made for does not: a filter that knows the protocol by half."""
    return _by_message(scene, "wireguard_no_data", "4")


def no_new_connections(scene: Scene, *, port: int) -> Change:
    """Nobody can call a port of the victim's host any more; what is connected stays so, and the victim calls others."""
    rule = drop_rule(f"tcp dport {port} tcp flags & (fin | syn | rst | ack) == syn")
    return node_filter(scene, f"no_new_connections_{port}", {"in": host_hook("input")}, (("in", rule),))


HOST_HOOKS = ("input", "forward", "output")


def pod_network_broken(scene: Scene, *, what: str = "", hooks: tuple[str, ...] = HOST_HOOKS) -> Change:
    """A firewall that knows the nodes' network and not the pods': what goes from pods to pods is dropped here."""
    network = pod_network_of(scene.lab.topology)
    rule = drop_rule(f"ip saddr {network} ip daddr {network}{what}")
    chains = {name: host_hook(name) for name in hooks}
    return node_filter(scene, "pod_network_broken", chains, [(name, rule) for name in hooks])


def pods_not_relayed(scene: Scene) -> Change:
    """An old rule in the forward chain of a leader: the pods of one node of the other location, and no others."""
    rules = [("forward", drop_rule(f"ip {way} {scene.peer.pod_cidr}")) for way in ("saddr", "daddr")]
    return node_filter(scene, "pods_not_relayed", {"forward": host_hook("forward")}, rules)


def probe_port_blocked(scene: Scene) -> Change:
    """A firewall on the victim closes the ports of its reflectors; traffic is well."""
    return node_filter(
        scene, "probe_port_blocked", {"in": host_hook("input")}, (("in", drop_rule(f"udp dport {PROBE_PORTS}")),)
    )


def conntrack_full(scene: Scene) -> Change:
    """The table of connections is full of others': those known go on, new ones are dropped."""
    chains = {name: host_hook(name) for name in ("prerouting", "output")}
    change = node_filter(
        scene, "conntrack_full", chains, tuple((name, "ct state new counter accept") for name in chains)
    )
    return Change(
        do=(*change.do, scene.step("conntrack", "fill")), undo=(*change.undo, scene.step("conntrack", "flush"))
    )


def conntrack_invalid(scene: Scene) -> Change:
    """The tracker sees one direction only, as with asymmetric routes, and a rule of kube-proxy's drops INVALID."""
    chains = {"raw": "type filter hook prerouting priority raw; policy accept;", "forward": host_hook("forward")}
    rules = (
        ("raw", f"ip saddr {scene.victim.pod_cidr} meta l4proto tcp notrack"),
        ("forward", drop_rule("ct state invalid")),
    )
    change = node_filter(scene, "conntrack_invalid", chains, rules)
    return Change(do=change.do, undo=(*change.undo, scene.step("conntrack", "flush")))


FILTER_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        "offload-fault": offload_fault,
        "overlay-black-hole": overlay_black_hole,
        "probes-only": probes_only,
        "mtu-black-hole": mtu_black_hole,
        "fragments-dropped": fragments_dropped,
        "standby-mtu-smaller": standby_mtu_smaller,
        "one-way-break": one_way_break,
        "wireguard-no-handshake": wireguard_no_handshake,
        "wireguard-no-data": wireguard_no_data,
        "kubelet-unreachable": partial(no_new_connections, port=KUBELET_PORT),
        "apiserver-unreachable": partial(no_new_connections, port=APISERVER_PORT),
        "pod-network-broken": pod_network_broken,
        "pod-network-broken-tcp": partial(pod_network_broken, what=" meta l4proto tcp"),
        "pod-network-broken-udp": partial(
            pod_network_broken, what=f" udp sport != {PROBE_PORTS} udp dport != {PROBE_PORTS}"
        ),
        "pod-network-broken-output": partial(pod_network_broken, hooks=("output",)),
        "pod-network-broken-relay": partial(pod_network_broken, hooks=("forward",)),
        "pod-network-broken-way": pods_not_relayed,
        "probe-port-blocked": probe_port_blocked,
        "conntrack-full": conntrack_full,
        "conntrack-invalid": conntrack_invalid,
    }
)
"""Every fault that a filter makes, by kind."""


def _by_message(scene: Scene, name: str, kinds: str) -> Change:
    """Drop WireGuard messages of some kinds between victim and peer, both ways."""
    other = _public(scene)
    return _switch_filter(
        scene,
        name,
        from_node=(f"ip daddr {other} udp sport {_port(scene)} {MESSAGE_TYPE} {kinds} counter name dropped drop",),
        to_node=(f"ip saddr {other} udp dport {_port(scene)} {MESSAGE_TYPE} {kinds} counter name dropped drop",),
    )


def _overlay_filter(scene: Scene, name: str, rules: tuple[str, ...], *, is_one_way: bool = False) -> Change:
    """Rules about VXLAN where it is in clear, for what leaves the victim and, unless one-way, what comes to it."""
    ways = ("from_node",) if is_one_way else ("from_node", "to_node")
    if not fabric_of(scene.lab.topology).carries_overlay:
        chosen = {way: rules if way in ways else () for way in ("from_node", "to_node")}
        return _switch_filter(scene, name, from_node=chosen["from_node"], to_node=chosen["to_node"])
    hooks = {"from_node": "egress", "to_node": "ingress"}
    chains = {way: _device_hook(hooks[way], scene.tunnel) for way in ways}
    every = tuple((way, rule) for way in ways for rule in rules)
    return _filter(scene.victim.name, f"netdev fault_{name}_{scene.victim.name}", chains, every)


def _switch_filter(scene: Scene, name: str, *, from_node: tuple[str, ...], to_node: tuple[str, ...]) -> Change:
    port = scene.victim.switch_port
    chains = {"from_node": _device_hook("ingress", port), "to_node": _device_hook("egress", port)}
    rules = (*(("from_node", rule) for rule in from_node), *(("to_node", rule) for rule in to_node))
    return _filter(WAN, f"netdev fault_{name}_{scene.victim.name}", chains, rules)


def node_filter(scene: Scene, name: str, chains: Mapping[str, str], rules: Iterable[tuple[str, str]]) -> Change:
    """A firewall of the victim's own: base chains by name, and what each does."""
    return _filter(scene.victim.name, f"ip fault_{name}", chains, rules)


def _filter(place: str, table: str, chains: Mapping[str, str], rules: Iterable[tuple[str, str]]) -> Change:
    """One table with all rules, in one transaction; it is undone by its removal."""
    text = [f"table {table} {{", "  counter dropped { }"]
    text += [f"  chain {chain} {{ {hook} }}" for chain, hook in chains.items()]
    text += ["}", *(f"add rule {table} {chain} {rule}" for chain, rule in rules)]
    return Change(
        do=(Step(place=place, tool="nft", lines=tuple(text)),),
        undo=(Step(place=place, tool="nft", lines=(f"table {table} {{ }}", f"delete table {table}")),),
    )


def port_filter(scene: Scene, name: str, hook: str, rule: str) -> Change:
    """A filter at the victim's port to the LAN, below its firewall and out of its counters' sight.

    Args:
        scene: where.
        name: of the fault.
        hook: `ingress` or `egress`.
        rule: with a counter called `dropped`.
    """
    chain = f"type filter hook {hook} device eth0 priority 0; policy accept;"
    return _filter(scene.victim.name, f"netdev fault_{name}", {hook: chain}, ((hook, rule),))


def drop_rule(what: str) -> str:
    """Drop it, and count it."""
    return f"{what} counter name dropped drop"


def host_hook(name: str) -> str:
    """A base chain's declaration, before the host's own filters."""
    return f"type filter hook {name} priority filter - 10; policy accept;"


def _device_hook(name: str, device: str) -> str:
    return f'type filter hook {name} device "{device}" priority 0; policy accept;'


def _port(scene: Scene) -> int:
    return scene.lab.topology.wireguard.port


def _public(scene: Scene) -> str:
    """The peer's address as the victim's switch sees it.

    Raises:
        LabError: the peer is behind NAT or on the same LAN.
    """
    if scene.peer.public_ip is None or scene.peer.location == scene.victim.location:
        raise LabError(f"{scene.peer.name} has no address of its own in the wide area; choose another peer")
    return scene.peer.public_ip
