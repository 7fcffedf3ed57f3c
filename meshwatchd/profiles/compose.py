"""Several profiles hold at once: Kilo over Cilium, Kilo over flannel, flannel over wg0. Together they make one view.

A profile's look is a function of a snapshot, what other sources say, the operator's declaration and the node's name. It
answers with a `LocalView` of what it can tell: with its name in `profiles` if it holds, without if not, and with its
reasons in any case. The outermost comes first, and of two that tell the same thing it is believed: Kilo names the
address that it routes, whatever flannel takes for the node's. Of prefixes of pods that one is believed which the kernel
shows, and none which it contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from meshwatchd.model.cluster_mesh import CLUSTER_MESH
from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.host_mesh import HOST_MESH_KINDS, host_mesh, maker_of
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import LIQO, Trait, traits_of
from meshwatchd.model.open_vswitch import SWITCH_MESHES
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import (
    cilium,
    cluster_mesh,
    flannel,
    kilo,
    liqo,
    open_vswitch,
    reading,
    submariner,
    wireguard,
)

Look = Callable[[Snapshot, Sources, MeshSettings, NodeName], LocalView]

LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "kilo": kilo.look,
        "submariner": submariner.look,
        CLUSTER_MESH: cluster_mesh.look,
        "cilium": cilium.look,
        "flannel": flannel.look,
        **{kind: open_vswitch.look_for(kind) for kind in SWITCH_MESHES},
        "wireguard": wireguard.look,
        LIQO: liqo.look,
    }
)
"""The built-in ones by name, the outermost first; what is beside the mesh comes last."""

JOINING = ("kilo", "submariner")
"""Those that run over any CNI, and so over one that a third party's profile knows."""

PLAIN = "wireguard"
"""Holds for any WireGuard device where there is nothing else."""

MAX_CANDIDATES = 256
"""Who answers tells of others; a few would do."""

_TEXTS = (
    "location",
    "leader",
    "granularity",
    "node_ip",
    "overlay_ip",
    "wireguard_ip",
    "node_ip6",
    "overlay_ip6",
    "wireguard_ip6",
    "vtep_mac",
    "wireguard_device",
    "overlay_device",
    "ipip_device",
    "public_endpoint",
)
_NUMBERS = ("wireguard_mtu_bytes", "vtep_port", "vtep_vni")


def look(
    snapshot: Snapshot,
    sources: Sources,
    declared: MeshSettings,
    node: NodeName,
    *,
    looks: Mapping[str, Look] = LOOKS,
) -> LocalView:
    """What this node can tell of itself, from all profiles that hold.

    Args:
        snapshot: a complete dump of this node's kernel state.
        sources: what its files and agents say.
        declared: the `[mesh]` section.
        node: this node's name.
        looks: the profiles by name, the outermost first; third parties' come behind those of `JOINING`.
    """
    asked = {name: each(snapshot, sources, declared, node) for name, each in looks.items()}
    parts = list(_settle_clusters(_without_taken(asked, declared)).values())
    holding = [part for part in parts if part.profiles]
    told = {name: next(filter(None, (getattr(part, name) for part in holding)), "") for name in _TEXTS}
    told |= {name: next(filter(None, (getattr(part, name) for part in holding)), 0) for name in _NUMBERS}
    lan_ip = _lan_address(snapshot, holding, told["node_ip"])
    pods, contradictions = _settle_pods(snapshot, holding, lan_ip)
    view = LocalView(
        profiles=tuple(name for part in holding for name in part.profiles),
        node=node,
        is_leader=any(part.is_leader for part in holding),
        pod_cidr=pods,
        is_pod_cidr_in_kernel=reading.shows_own_pods(snapshot, pods, lan_ip),
        contradictions=contradictions,
        layers=_stack(snapshot, holding),
        traits=tuple(sorted({trait for part in holding for trait in part.traits})),
        why=tuple(
            finding for part in (*holding, *(part for part in parts if not part.profiles)) for finding in part.why
        ),
        **told,  # type: ignore[arg-type]  # names and types are those of the fields
    )
    view = _lead_oneself(_complete(snapshot, view))
    return msgspec.structs.replace(
        view,
        candidates=_choose(snapshot, view, (each for part in holding for each in part.candidates)),
        why=(*view.why, *(Finding(source=each.source, text=f"rejected: {each.reason}") for each in sources.rejected)),
    )


def source_towards(view: LocalView | None, address: str) -> str:
    """The address that hellos to a node leave from; empty for that of the route.

    Where pods alone are routed between locations, routes there may choose another one: Submariner's choose that in
    240.0.0.0/8, which the route agent's NAT hides, behind another port where two nodes call each other at the same
    time. Near nodes, and leaders outside of the mesh, are none of these.
    """
    if view is None or ":" in address or not _is_pod_addressed(view):
        return ""
    return "" if address in {each.address for each in view.candidates} else view.node_ip


def _is_pod_addressed(view: LocalView) -> bool:
    return Trait.POD_ADDRESSED in traits_of(view.profiles, view.traits)


def _without_taken(asked: Mapping[str, LocalView], declared: MeshSettings) -> Mapping[str, LocalView]:
    """Without what holds for any WireGuard device, where a third party's profile knows whose the mesh's device is."""
    device = next((part.wireguard_device for name, part in asked.items() if name not in LOOKS and part.profiles), "")
    if not device or declared.wireguard_device == asked[PLAIN].wireguard_device:
        return asked
    text = f"{device} is that of another profile, and others carry nothing of the mesh"
    left = LocalView(profiles=(), node=asked[PLAIN].node, why=(Finding(source=f"link {device}", text=text),))
    return {**asked, PLAIN: left}


def _settle_clusters(asked: Mapping[str, LocalView]) -> Mapping[str, LocalView]:
    """Without Cluster Mesh where another mesh joins clusters: locations are that one's, and it has leaders.

    And without a plain WireGuard device below Cluster Mesh: it carries what goes between nodes, as a LAN does.
    """
    told = asked.get(CLUSTER_MESH)
    if told is None or not told.profiles:
        return asked
    joining = next((name for name in JOINING if name in asked and asked[name].profiles), "")
    name, text = CLUSTER_MESH, f"{joining} joins this node with others: its locations count, and not Cilium's clusters"
    if not joining:
        name, text = PLAIN, "what is between nodes' addresses is below Cilium's clusters, be it WireGuard or a LAN"
    left = LocalView(profiles=(), node=told.node, why=(Finding(source=cilium.SOURCE, text=text),))
    return {**asked, name: left} if name in asked and asked[name].profiles else asked


def _lan_address(snapshot: Snapshot, holding: Iterable[LocalView], node_ip: str) -> str:
    """The address by which no network is that of pods: the node's, but where it goes by one among its pods."""
    star = next((part for part in holding if Trait.POD_ADDRESSED in traits_of(part.profiles, part.traits)), None)
    if star is None:
        return node_ip
    below = snapshot.underlay(star.overlay_device)
    return next(iter(below.addresses), "") if below is not None else ""


def _settle_pods(snapshot: Snapshot, holding: Iterable[LocalView], node_ip: str) -> tuple[str, tuple[str, ...]]:
    """The prefix of this node's pods, and one sentence for each profile that says another one.

    The kernel is believed before what any agent or file says, and nobody against it.
    """
    told = [(part.profiles[0], part.pod_cidr) for part in holding if part.pod_cidr]
    wrong = {prefix: reading.elsewhere(snapshot, prefix, node_ip) for _, prefix in told}
    shown = (prefix for _, prefix in told if reading.shows_own_pods(snapshot, prefix, node_ip))
    chosen = next(shown, "") or next((prefix for _, prefix in told if not wrong[prefix]), "")
    return chosen, tuple(
        f"{profile} says that this node's pods are in {prefix}, {wrong[prefix] or f'and {chosen} is better founded'};"
        " it is not believed: correct the node's pod CIDR there"
        for profile, prefix in told
        if prefix != chosen
    )


def _complete(snapshot: Snapshot, view: LocalView) -> LocalView:
    """What follows from the parts together."""
    why = list(view.why)
    node_ip, public = view.node_ip, view.public_endpoint
    if not node_ip and view.profiles:
        below = snapshot.underlay(view.wireguard_device)
        node_ip = next(iter(below.addresses), "") if below is not None else ""
        if below is not None and node_ip:
            source = f"route to {view.wireguard_device}'s peers" if snapshot.lookups else "default route"
            why.append(Finding(source=source, text=f"no profile names this node's address; {below.name}'s is taken"))
    for device in (each.device for each in view.layers if each.kind in HOST_MESH_KINDS):
        if (maker := maker_of(device)) is not None:
            text = f"{device} is {maker.name}'s: below the mesh and no part of it; its owner's words: {maker.ask}"
            why.append(Finding(source=f"link {device}", text=text))
    if not public and reading.is_public(node_ip):
        public = node_ip
    leader = view.leader
    if view.is_leader and view.granularity == "location":
        leader = view.overlay_ip or node_ip
    at = next((link for link in snapshot.links if node_ip and node_ip in link.addresses), None)
    node_ip6 = view.node_ip6 or (next(iter(at.addresses_v6), "") if at is not None else "")
    return msgspec.structs.replace(
        view,
        node_ip=node_ip,
        node_ip6=node_ip6,
        # Nobody asks the LAN for an address among pods.
        node_macs=() if _is_pod_addressed(view) else reading.lan_macs(snapshot, at),
        public_endpoint=public,
        leader=leader,
        why=tuple(why),
    )


def _lead_oneself(view: LocalView) -> LocalView:
    """Where no agent says who leads, and this node has a tunnel of its own, nobody relays for it.

    As with Kilo's granularity `full` each node is a location by itself and leads it: flannel over wg0, flannel's
    WireGuard backend, a bare wg0, flannel over a host mesh, whose device joins every node with every other, and where
    the overlay leads straight to each other node.
    """
    carrier = next((layer.device for layer in view.layers if layer.kind in HOST_MESH_KINDS and view.wireguard_ip), "")
    is_direct = Trait.DIRECT in traits_of(view.profiles, view.traits)
    tunnel = view.wireguard_device or carrier
    device = tunnel or (view.overlay_device if is_direct else "")
    if view.granularity or view.is_leader or view.leader or not device:
        return view
    what = f"{device} is this node's own tunnel" if tunnel else f"{device} leads straight to each node"
    why = (*view.why, Finding(source=f"link {device}", text=f"no agent says who leads, and {what}: it leads itself"))
    return msgspec.structs.replace(view, is_leader=True, granularity="full", why=why)


def _stack(snapshot: Snapshot, holding: Iterable[LocalView]) -> tuple[DeviceLayer, ...]:
    """The devices of all profiles, each before the one below it; the network card last."""
    waiting = [layer for part in holding for layer in part.layers]
    waiting += _host_meshes(snapshot, dict.fromkeys(layer.over for layer in waiting))
    known = {layer.device for layer in waiting}
    tunnels = [layer.device for layer in waiting if layer.kind in {"wireguard", *HOST_MESH_KINDS}]
    for below in map(snapshot.underlay, tunnels or [""]) if waiting else ():
        if below is not None and below.name not in known:
            known.add(below.name)
            waiting.append(DeviceLayer(kind="underlay", device=below.name, mtu_bytes=below.mtu_bytes))
    ordered: list[DeviceLayer] = []
    while waiting:
        covered = {layer.over for layer in waiting}
        top = next((layer for layer in waiting if layer.device not in covered), waiting[0])
        waiting.remove(top)
        ordered.append(top)
    return tuple(ordered)


def _host_meshes(snapshot: Snapshot, below: Iterable[str]) -> Iterator[DeviceLayer]:
    """Of the devices by which the mesh's packets leave, those that a mesh of the host makes."""
    for link in filter(None, map(snapshot.link, below)):
        if (maker := host_mesh(link)) is not None:
            lower = snapshot.underlay(link.name)
            over = lower.name if lower is not None else ""
            yield DeviceLayer(kind=maker.kind, device=link.name, mtu_bytes=link.mtu_bytes, over=over)


def _choose(snapshot: Snapshot, view: LocalView, told: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Each address once, none of them this node's, those nearby first."""
    own = reading.own_addresses(snapshot) | {view.node_ip, view.public_endpoint, ""}
    near: dict[str, bool] = {}
    for each in told:
        if each.address not in own:
            near[each.address] = near.get(each.address, False) or each.is_local
    return tuple(
        Candidate(address=address, is_local=is_local)
        for address, is_local in sorted(near.items(), key=lambda item: (not item[1], item[0]))
    )[:MAX_CANDIDATES]
