"""Faults of a Cluster Mesh, as its issues have them: between two clusters, in one node's peers, and at agents' etcd.

clustermesh-datapath-cut         a firewall between the networks knows nothing of UDP 51871        cilium#20547
cluster-backends-unreachable     the other cluster is off, and agents notice                       cilium#20729, #19217
clustermesh-control-cut          the agents of one cluster lose the etcd of the other              cilium#22923
allowed-ips-missing-host         a peer loses its node's own address in an update                  cilium#35644
wireguard-peer-missing-cluster   a peer is never written                                           cilium#20925
wireguard-peer-duplicate         a node made anew has a peer for each of its lives                 cilium#31921
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from netnslab.clustermesh import DEVICE, allowed_ips
from netnslab.ownership import Step
from netnslab.site import WAN
from netnslab.state_plans import Change, Scene
from netnslab.topology import Location, Node
from netnslab.wireguard import generate_keys

BETWEEN = ("clustermesh-datapath-cut", "cluster-backends-unreachable", "clustermesh-control-cut")
"""At no node."""

FORMS: Mapping[str, str] = MappingProxyType(
    {
        "allowed-ips-missing-host": "allowed-ips-missing",
        "wireguard-peer-missing-cluster": "wireguard-peer-missing",
    }
)
"""The code that each form deserves."""


def datapath_cut(scene: Scene) -> Change:
    """UDP of Cilium's WireGuard is dropped between the networks; all else passes."""
    return _between_networks("datapath", f"udp dport {scene.lab.topology.wireguard.port} ")


def cluster_gone(scene: Scene) -> Change:
    """Nothing passes between the networks, and each cluster's agents report that they do not hear the other one."""
    cut = _between_networks("cluster", "")
    lost = [_control(scene, location) for location in scene.lab.topology.locations.values()]
    return Change(
        do=(*cut.do, *(step for each in lost for step in each.do)),
        undo=(*cut.undo, *(step for each in lost for step in each.undo)),
    )


def control_cut(scene: Scene) -> Change:
    """The agents of the victim's cluster report that they do not reach the control plane of the other."""
    return _control(scene, scene.lab.topology.location_of(scene.victim.name))


def allowed_ips_lost(scene: Scene) -> Change:
    """The peer goes on shaking hands, and may carry none of its host's packets."""
    key, own = _key(scene), allowed_ips(scene.peer)
    command = f"set {DEVICE} peer {key} allowed-ips"
    return Change(
        do=(scene.step("wg", f"{command} {','.join(own[1:])}"),), undo=(scene.step("wg", f"{command} {','.join(own)}"),)
    )


def peer_lost(scene: Scene) -> Change:
    """The agent lists a node, and its device has no peer for it."""
    key = _key(scene)
    return Change(
        do=(scene.step("wg", f"set {DEVICE} peer {key} remove"),), undo=(scene.step("wg", _whole(scene, key)),)
    )


def peer_twice(scene: Scene) -> Change:
    """A second peer at the same endpoint takes what the first one may carry."""
    key, (dead,) = _key(scene), generate_keys(1)
    return Change(
        do=(scene.step("wg", _whole(scene, dead.public)),),
        undo=(scene.step("wg", f"set {DEVICE} peer {dead.public} remove", _whole(scene, key)),),
    )


CLUSTER_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        "clustermesh-datapath-cut": datapath_cut,
        "cluster-backends-unreachable": cluster_gone,
        "clustermesh-control-cut": control_cut,
        "allowed-ips-missing-host": allowed_ips_lost,
        "wireguard-peer-missing-cluster": peer_lost,
        "wireguard-peer-duplicate": peer_twice,
    }
)
"""By kind: the code of the verdict, and the form."""


def _between_networks(name: str, what: str) -> Change:
    table = f"inet fault_{name}"
    text = (
        f"table {table} {{",
        "  chain between {",
        "    type filter hook forward priority 0; policy accept;",
        f'    iifname "br-*" oifname "br-*" {what}drop',
        "  }",
        "}",
    )
    return Change(
        do=(Step(place=WAN, tool="nft", lines=text),),
        undo=(Step(place=WAN, tool="nft", lines=(f"table {table} {{ }}", f"delete table {table}")),),
    )


def _control(scene: Scene, location: Location) -> Change:
    topology = scene.lab.topology
    others = [each.name for each in topology.locations.values() if each.name != location.name]
    return Change(
        do=tuple(_agents(topology.members(location.name), "lose", others)),
        undo=tuple(_agents(topology.members(location.name), "find", others)),
    )


def _agents(nodes: Iterable[Node], word: str, clusters: Iterable[str]) -> Iterable[Step]:
    lines = tuple(f"{word} {cluster}" for cluster in clusters)
    return (Step(place=node.name, tool="cilium-agent", lines=lines) for node in nodes)


def _key(scene: Scene) -> str:
    """Of the peer, by its address: those of a node that was made anew are not here yet."""
    lines = scene.here.run(["wg", "show", DEVICE, "endpoints"], check=True).stdout.splitlines()
    host = f"{scene.peer.node_ip}:"
    return next(key for key, _, endpoint in (line.partition("\t") for line in lines) if endpoint.startswith(host))


def _whole(scene: Scene, key: str) -> str:
    endpoint = f"{scene.peer.node_ip}:{scene.lab.topology.wireguard.port}"
    return f"set {DEVICE} peer {key} endpoint {endpoint} allowed-ips {','.join(allowed_ips(scene.peer))}"
