"""Faults of meshes whose pods are routed straight into WireGuard, as strangers cause them: one route, a peer a node.

Under flannel's wireguard backend alone (K3s `wireguard-native`), where flannel looks at none of it again. A pod prefix
that a peer has lost, or that another one has, is in `state_plans`: here are their further forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from netnslab import native_wireguard, node_state
from netnslab.flannel import pod_network_of
from netnslab.native_wireguard import endpoint_of
from netnslab.state_plans import Change, Scene, endpoints_moved


def cluster_route(scene: Scene, *, damage: str) -> Change:
    """The one route to the pods of all others: deleted, or replaced by one that leads elsewhere or nowhere."""
    line = native_wireguard.route_line(scene.lab.topology, scene.tunnel)
    network = pod_network_of(scene.lab.topology)
    return Change(
        do=(scene.step("ip", damage.format(network=network, device=scene.tunnel)),),
        undo=(scene.step("ip", line.replace("route add", "route replace")),),
    )


def device_down(scene: Scene) -> Change:
    """`ip link set flannel-wg down`: its route goes with it, and does not come back with the device."""
    line = native_wireguard.route_line(scene.lab.topology, scene.tunnel)
    return Change(
        do=(scene.step("ip", f"link set {scene.tunnel} down"),),
        undo=(scene.step("ip", f"link set {scene.tunnel} up", line.replace("route add", "route replace")),),
    )


def narrower_route(scene: Scene, *, route: str) -> Change:
    """A longer prefix than flannel's: the pods of one node are led elsewhere, and those of all others are not."""
    line = route.format(pods=scene.peer.pod_cidr)
    return Change(do=(scene.step("ip", f"route add {line}"),), undo=(scene.step("ip", f"route del {line}"),))


def half_a_prefix(scene: Scene) -> Change:
    """A script that has halved the prefixes: the node's own address is not in what is left."""
    peer = scene.wireguard_peer()
    command = f"set {scene.tunnel} peer {peer['key']} allowed-ips"
    return Change(
        do=(scene.step("wg", f"{command} {_half(scene, 1)}"),), undo=(scene.step("wg", f"{command} {peer['allowed']}"),)
    )


def half_stolen(scene: Scene) -> Change:
    """A third node's peer is given half of the peer's pods: the longer prefix counts, and both keep their own."""
    peer = scene.wireguard_peer()
    every = node_state.peers(scene.here, scene.tunnel).values()
    thief = next(each for each in every if each["key"] != peer["key"])
    command = f"set {scene.tunnel} peer {thief['key']} allowed-ips"
    return Change(
        do=(scene.step("wg", f"{command} {thief['allowed']},{_half(scene, 0)}"),),
        undo=(scene.step("wg", f"{command} {thief['allowed']}"),),
    )


def endpoints_swapped(scene: Scene) -> Change:
    """Either end calls the other where a third node is, which knows neither's key."""
    topology = scene.lab.topology
    other = Scene(lab=scene.lab, victim=scene.peer, peer=scene.victim)
    return endpoints_moved(*((each, endpoint_of(topology, each.victim, scene.third())) for each in (scene, other)))


def _half(scene: Scene, number: int) -> str:
    """Half of a /24 of the peer's pods; its own address is in the first, and its lab pod's too."""
    network, _, _ = scene.peer.pod_cidr.partition("/")
    return f"{network.rpartition('.')[0]}.{128 * number}/25"


NATIVE_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        "cluster-route-missing": partial(cluster_route, damage="route del {network} dev {device}"),
        "cluster-route-missing-blackhole": partial(cluster_route, damage="route replace blackhole {network}"),
        "cluster-route-missing-elsewhere": partial(cluster_route, damage="route replace {network} dev eth0 scope link"),
        "overlay-device-down-native": device_down,
        "pod-route-diverted-hole": partial(narrower_route, route="blackhole {pods}"),
        "pod-route-diverted-narrower": partial(narrower_route, route="{pods} dev eth0 scope link"),
        "allowed-ips-missing-half": half_a_prefix,
        "allowed-ips-stolen-half": half_stolen,
        "wireguard-endpoint-moved-swapped": endpoints_swapped,
    }
)
"""By kind: the code of the verdict, and the form."""

FORMS: Mapping[str, str] = MappingProxyType(
    {kind: kind.rpartition("-")[0] for kind in NATIVE_PLANS if kind != "cluster-route-missing"}
)
"""The code that each form deserves."""
