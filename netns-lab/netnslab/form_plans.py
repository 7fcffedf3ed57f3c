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
from netnslab.ownership import Step
from netnslab.pods import BRIDGE
from netnslab.site import WAN
from netnslab.state_plans import STATE_PLANS, Change, Scene, pod_route

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
    remote = scene.lab.topology.remote_locations(scene.victim.name)[0]
    prefix = f"{scene.lab.topology.members(remote.name)[-1].node_ip}/32"
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
