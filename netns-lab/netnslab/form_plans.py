"""Further forms of faults, as strangers cause them: at a leader instead of a member, by a firewall of the node's own.

Under Kilo alone, where leaders relay: b1 leads, and the peer is a member of its location. In forms that end in
`-member` it is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from netnslab import node_state
from netnslab.fault_plans import VXLAN_PORT
from netnslab.filter_plans import drop_rule, host_hook, node_filter, port_filter
from netnslab.flannel import pod_network_of
from netnslab.ownership import Step
from netnslab.pods import BRIDGE
from netnslab.site import WAN
from netnslab.state_plans import NOBODYS_MAC, STATE_PLANS, STRANGE_PRIORITY, Change, Scene, pod_route
from netnslab.topology import Node
from netnslab.wireguard import generate_keys

AT_LEADERS = (
    *("overlay-device-missing", "overlay-device-down", "overlay-emptied", "overlay-mismatch"),
    *("fdb-entry-missing", "fdb-entry-wrong", "forwarding-off"),
)
"""What the catalogue has at members."""


def overlay_firewall(scene: Scene, *, hook: str) -> Change:
    """A firewall on the leader that knows nothing of VXLAN; on the way out the device counts errors."""
    return node_filter(
        scene, "overlay_firewall", {hook: host_hook(hook)}, ((hook, drop_rule(f"udp dport {VXLAN_PORT}")),)
    )


def overlay_at_port(scene: Scene, *, hook: str) -> Change:
    """A program at the port, as CNIs and clouds attach them: no firewall of the node shows it."""
    return port_filter(scene, "overlay_at_port", hook, drop_rule(f"udp dport {VXLAN_PORT}"))


def forward_policy(scene: Scene) -> Change:
    """What Docker and firewalls do when they start: whatever nobody has allowed is not forwarded."""
    return node_filter(scene, "forward_policy", {"forward": host_hook("forward")}, (("forward", drop_rule("")),))


def forwarding_off_by_device(scene: Scene) -> Change:
    """What a network manager does to the devices it knows: the host forwards, and these do not."""
    keys = [f"net/ipv4/conf/{name}/forwarding" for name in ("eth0", scene.tunnel, scene.flannel.relay_device)]
    return Change(
        do=(scene.step("sysctl", *(f"{key}=0" for key in keys)),),
        undo=(scene.step("sysctl", *(f"{key}=1" for key in keys)),),
    )


def forwarding_off_by_bridge(scene: Scene) -> Change:
    """The same of the bridge: the pods of this node alone send nothing, and everything else is passed on."""
    key = f"net/ipv4/conf/{BRIDGE}/forwarding"
    return Change(do=(scene.step("sysctl", f"{key}=0"),), undo=(scene.step("sysctl", f"{key}=1"),))


def wireguard_firewall(scene: Scene, *, hooks: tuple[str, ...]) -> Change:
    """A firewall on the leader that knows nothing of WireGuard; standby links have ports of their own."""
    ways = {"input": "dport", "output": "sport"}
    rules = [(hook, drop_rule(f"udp {ways[hook]} {scene.lab.topology.wireguard.port}")) for hook in hooks]
    return node_filter(scene, "wireguard_firewall", {hook: host_hook(hook) for hook in hooks}, rules)


def bare_peer(scene: Scene) -> Change:
    """A script that writes AllowedIPs and has none to write: the peer is there, and WireGuard has no use for it."""
    peer = next(iter(node_state.peers(scene.here, scene.tunnel).values()))
    command = f"set {scene.tunnel} peer {peer['key']} allowed-ips"
    return Change(do=(scene.step("wg", f"{command} ''"),), undo=(scene.step("wg", f"{command} {peer['allowed']}"),))


def node_forgotten(scene: Scene) -> Change:
    """A script that writes the prefixes of a location's pods, and of its nodes all but one."""
    far, peer = _far(scene), next(iter(node_state.peers(scene.here, scene.tunnel).values()))
    kept = [each for each in peer["allowed"].split(",") if each != f"{far.node_ip}/32"]
    command = f"set {scene.tunnel} peer {peer['key']} allowed-ips"
    return Change(
        do=(scene.step("wg", f"{command} {','.join(kept)}"),),
        undo=(scene.step("wg", f"{command} {peer['allowed']}"),),
    )


def half_of_the_pods_stolen(scene: Scene) -> Change:
    """A peer that nobody has met is given half of one node's pods: the longer prefix counts, and none is taken away."""
    (thief,) = generate_keys(1)
    command = f"set {scene.tunnel} peer {thief.public}"
    half = f"{scene.peer.pod_cidr.partition('/')[0]}/25"
    return Change(
        do=(scene.step("wg", f"{command} allowed-ips {half}"),), undo=(scene.step("wg", f"{command} remove"),)
    )


def neighbour_without_arp(scene: Scene) -> Change:
    """A wrong MAC in an entry that nobody is ever asked about: `nud noarp`."""
    entry = f"{scene.peer.overlay_ip} lladdr {NOBODYS_MAC} dev {scene.flannel.relay_device}"
    return Change(
        do=(scene.step("ip", f"neighbour replace {entry} nud noarp"),),
        undo=STATE_PLANS["neighbour-wrong-mac"](scene).undo,
    )


def pods_dropped_by_a_rule(scene: Scene) -> Change:
    """A rule of another program drops what comes out of the bridge; no table is looked up for it."""
    rule = f"iif {BRIDGE} to {pod_network_of(scene.lab.topology)} priority {STRANGE_PRIORITY} blackhole"
    return Change(do=(scene.step("ip", f"rule add {rule}"),), undo=(scene.step("ip", f"rule del {rule}"),))


def cable_pulled(scene: Scene) -> Change:
    """No carrier: the leader notices, and nobody else does."""
    port = scene.victim.switch_port
    return Change(
        do=(Step(place=WAN, tool="ip", lines=(f"link set {port} down",)),),
        undo=(Step(place=WAN, tool="ip", lines=(f"link set {port} up",)),),
    )


def node_route(scene: Scene, kind: str = "", way: str = "") -> Change:
    """A script that leads a node elsewhere, in the place of Kilo's route: Kilo would put that back had it been deleted.

    Args:
        scene: a leader that routes to nodes.
        kind: of the route, such as unreachable.
        way: its device.
    """
    prefix = f"{_far(scene).node_ip}/32"
    line = scene.here.run(["ip", "route", "show", prefix], check=True).stdout.strip()
    other = " ".join(word for word in (kind, prefix, way) if word)
    return Change(
        do=(scene.step("ip", f"route replace {other}"),),
        undo=(scene.step("ip", f"route del {other}", f"route add {line}"),),
    )


def pod_route_on_the_lan(scene: Scene) -> Change:
    """Another network manager takes the route over: the peer's pods are looked for on the LAN, in flannel's place."""
    cidr = scene.peer.pod_cidr
    return Change(
        do=(scene.step("ip", f"route replace {cidr} dev eth0"),),
        undo=(scene.step("ip", f"route del {cidr} dev eth0", pod_route(scene)),),
    )


def _far(scene: Scene) -> Node:
    """A member of the location that the victim's tunnel leads to."""
    remote = scene.lab.topology.remote_locations(scene.victim.name)[0]
    return scene.lab.topology.members(remote.name)[-1]


FORM_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        **{f"{kind}-leader": STATE_PLANS[kind] for kind in AT_LEADERS},
        "overlay-black-hole-input": partial(overlay_firewall, hook="input"),
        "overlay-black-hole-output": partial(overlay_firewall, hook="output"),
        "overlay-black-hole-ingress": partial(overlay_at_port, hook="ingress"),
        "overlay-black-hole-egress": partial(overlay_at_port, hook="egress"),
        "overlay-black-hole-member": partial(overlay_at_port, hook="ingress"),
        "relay-not-forwarding-policy": forward_policy,
        "forwarding-off-device": forwarding_off_by_device,
        "forwarding-off-bridge": forwarding_off_by_bridge,
        "leader-dead-cable": cable_pulled,
        "wireguard-peer-missing-bare": bare_peer,
        "allowed-ips-missing-node": node_forgotten,
        "allowed-ips-stolen-pods": half_of_the_pods_stolen,
        "neighbour-wrong-mac-noarp": neighbour_without_arp,
        "pod-route-diverted-rule": pods_dropped_by_a_rule,
        "pod-route-escaped-lan": pod_route_on_the_lan,
        "pod-route-diverted-node": partial(node_route, kind="unreachable"),
        "pod-route-diverted-lan": partial(node_route, way="dev eth0"),
        "wireguard-blocked-firewall": partial(wireguard_firewall, hooks=("input", "output")),
        "one-way-break-input": partial(wireguard_firewall, hooks=("input",)),
        "one-way-break-output": partial(wireguard_firewall, hooks=("output",)),
    }
)
"""By kind: the code of the verdict, and the form."""

FORMS: Mapping[str, str] = MappingProxyType({kind: kind.rpartition("-")[0] for kind in FORM_PLANS})
"""The code that each deserves."""
