"""Faults of a node's own state, as flanneld, wg-quick, sysctl and people leave it: what to do, and what undoes it.

Every plan is made from the live lab just before it strikes, so that its undoing restores what was there, to the
letter. Faults of the network between nodes are in `fault_plans`, faults inside the tunnel in `filter_plans`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from netnslab import node_state
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.flannel import PORT, VNI, Flannel
from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab
from netnslab.native_wireguard import NativeWireGuard
from netnslab.overlays import overlay_of
from netnslab.ownership import Step
from netnslab.pods import BRIDGE
from netnslab.site import WAN
from netnslab.topology import Node
from netnslab.wireguard import generate_keys

SHRUNK_BYTES = 80
"""As much as another WireGuard under this one takes, over IPv6."""

STRANGE_TABLE, STRANGE_PRIORITY = 900, 90
"""Of nobody in the lab; the rule stands before Kilo's, Cilium's and meshwatchd's."""


NOBODYS_MAC = "02:de:ad:be:ef:01"

OTHER_PORT, OTHER_VNI = 8473, 2
"""The next ones: what a second overlay beside the first is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a fault does, and what undoes it, step by step."""

    do: tuple[Step, ...]
    undo: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a fault strikes.

    Attributes:
        victim: the node whose state goes wrong.
        peer: the node that the wrong entry is about; a third one is the wrong place to point to.
    """

    lab: Lab
    victim: Node
    peer: Node

    @property
    def here(self) -> Inhabitant:
        """Where the victim lives."""
        return self.lab.node(self.victim.name)

    @property
    def tunnel(self) -> str:
        """The WireGuard device."""
        return fabric_of(self.lab.topology).device

    @property
    def flannel(self) -> Flannel:
        """The overlay, which must be flannel's.

        Raises:
            LabError: it is another one's, whose device has no entries of its own.
        """
        overlay = overlay_of(self.lab.topology)
        if not isinstance(overlay, Flannel):
            raise LabError(f"topology {self.lab.topology.name} has no flannel.1, and this fault is about it")
        return overlay

    def third(self) -> Node:
        """A node that is neither victim nor peer, on the overlay."""
        return next(
            node for node in self.lab.topology.nodes.values() if node.name not in (self.victim.name, self.peer.name)
        )

    def step(self, tool: str, *lines: str) -> Step:
        """Something to do at the victim's."""
        return Step(place=self.victim.name, tool=tool, lines=lines)

    def wireguard_peer(self) -> dict[str, str]:
        """The peer as `wg` on the victim knows it, found by the addresses it may send from."""
        wanted = f"{self.peer.wireguard_ip or self.lab.topology.location_of(self.peer.name).wireguard_ip}/32"
        if isinstance(fabric_of(self.lab.topology), NativeWireGuard):
            wanted = self.peer.pod_cidr
        found = [each for each in node_state.peers(self.here, self.tunnel).values() if wanted in each["allowed"]]
        if not found:
            raise LabError(f"{self.tunnel} of {self.victim.name} has no peer with {wanted}")
        return found[0]


def overlay_device_missing(scene: Scene) -> Change:
    """What deleting wg0 or a hasty operator leaves: no flannel.1, none of its routes, neighbours, FDB entries."""
    device = scene.flannel.relay_device
    return Change(do=(scene.step("ip", f"link del {device}"),), undo=_made_anew(scene))


def overlay_device_down(scene: Scene) -> Change:
    """Admin down: routes and neighbours go, FDB entries stay (overlays.md A.6, T1)."""
    device = scene.flannel.relay_device
    ip_lines, _ = node_state.entries(scene.here, device)
    return Change(
        do=(scene.step("ip", f"link set {device} down"),),
        undo=(scene.step("ip", f"link set {device} up", *ip_lines),),
    )


def overlay_emptied(scene: Scene) -> Change:
    """What flanneld does from 0.27.4 on when its device was deleted: the device anew, and nothing else (T10)."""
    device = scene.flannel.relay_device
    ip_lines, bridge_lines = node_state.entries(scene.here, device)
    anew = scene.flannel.device_lines(scene.lab.topology, scene.victim)
    return Change(
        do=(scene.step("ip", f"link del {device}", *anew),),
        undo=(scene.step("bridge", *bridge_lines), scene.step("ip", *ip_lines)),
    )


def fdb_entry_missing(scene: Scene) -> Change:
    """The victim has forgotten behind which node the peer's MAC is; VXLAN counts drops."""
    device, mac = scene.flannel.relay_device, scene.peer.overlay_mac
    return Change(
        do=(scene.step("bridge", f"fdb del {mac} dev {device} dst {_vtep(scene, scene.peer)} self"),),
        undo=(scene.step("bridge", _fdb(scene, scene.peer)),),
    )


def fdb_entry_wrong(scene: Scene) -> Change:
    """The peer's frames are sent to a third node, which drops them as somebody else's.

    Where that one is behind the tunnel, the kernel learns a smaller MTU to the peer, and believes it for minutes.
    """
    device, mac = scene.flannel.relay_device, scene.peer.overlay_mac
    wrong = _vtep(scene, scene.third())
    return Change(
        do=(scene.step("bridge", f"fdb replace {mac} dev {device} dst {wrong} self permanent"),),
        undo=(scene.step("bridge", _fdb(scene, scene.peer)), scene.step("ip", "route flush cache")),
    )


def neighbour_missing(scene: Scene) -> Change:
    """No link-layer address for the gateway of the peer's pods; broadcast ARP finds nobody on this device."""
    device = scene.flannel.relay_device
    return Change(
        do=(scene.step("ip", f"neighbour del {scene.peer.overlay_ip} dev {device}"),),
        undo=(scene.step("ip", _neighbour(scene)),),
    )


def neighbour_not_permanent(scene: Scene) -> Change:
    """The right MAC in an entry that ages: packets pass still (T7)."""
    device = scene.flannel.relay_device
    entry = f"neighbour replace {scene.flannel.neighbour(scene.peer)} dev {device} nud stale"
    return Change(do=(scene.step("ip", entry),), undo=(scene.step("ip", _neighbour(scene)),))


def neighbour_wrong_mac(scene: Scene) -> Change:
    """A MAC that nobody has; frames to it have no FDB entry."""
    device = scene.flannel.relay_device
    entry = f"neighbour replace {scene.peer.overlay_ip} lladdr {NOBODYS_MAC} dev {device} nud permanent"
    return Change(do=(scene.step("ip", entry),), undo=(scene.step("ip", _neighbour(scene)),))


def vtep_mac_changed(scene: Scene) -> Change:
    """A restarted flanneld made the victim's device anew with another MAC; the others keep the old one."""
    device = scene.flannel.relay_device
    ip_lines, bridge_lines = node_state.entries(scene.here, device)
    anew = scene.flannel.device_lines(scene.lab.topology, scene.victim, mac=f"02:4e:02:00:00:{scene.victim.index:02x}")
    return Change(
        do=(
            scene.step("ip", f"link del {device}", *anew),
            scene.step("bridge", *bridge_lines),
            scene.step("ip", *ip_lines),
        ),
        undo=(scene.step("ip", f"link del {device}"), *_made_anew(scene)),
    )


def overlay_mismatch(scene: Scene, *, vni: int = VNI, port: int = PORT) -> Change:
    """The victim's flannel read another net-conf.json: all entries are right, the device itself is not."""
    device = scene.flannel.relay_device
    ip_lines, bridge_lines = node_state.entries(scene.here, device)
    anew = scene.flannel.device_lines(scene.lab.topology, scene.victim, vni=vni, port=port)
    return Change(
        do=(
            scene.step("ip", f"link del {device}", *anew),
            scene.step("bridge", *bridge_lines),
            scene.step("ip", *ip_lines),
        ),
        undo=(scene.step("ip", f"link del {device}"), *_made_anew(scene)),
    )


def pod_route_missing(scene: Scene) -> Change:
    """The way to the peer's pods is gone; packets follow the default route and are lost."""
    return Change(
        do=(scene.step("ip", f"route del {scene.peer.pod_cidr} dev {scene.flannel.relay_device}"),),
        undo=(scene.step("ip", pod_route(scene)),),
    )


def pod_route_escaped(scene: Scene) -> Change:
    """wg-quick with pod CIDRs among AllowedIPs, or a VPN script: the peer's pods by way of the bare tunnel."""
    cidr = scene.peer.pod_cidr
    lines = (f"route del {cidr} dev {scene.flannel.relay_device}", f"route add {cidr} dev {scene.tunnel}")
    return Change(
        do=(scene.step("ip", *lines),),
        undo=(scene.step("ip", f"route del {cidr} dev {scene.tunnel}", pod_route(scene)),),
    )


def mtu_misconfigured(scene: Scene) -> Change:
    """The device below was made smaller, and flannel.1 takes what it does not carry: big packets are cut in pieces.

    The kernel refuses a VXLAN device bigger than what is below it, but does not look again when that shrinks. It
    remembers the smaller size for ten minutes, towards each address that met it: healing makes it forget.
    """
    lower = scene.flannel.lower_device
    right = int(scene.here.run(["cat", f"/sys/class/net/{lower}/mtu"], check=True).stdout)
    return Change(
        do=(scene.step("ip", f"link set {lower} mtu {right - SHRUNK_BYTES}"),),
        undo=(scene.step("ip", f"link set {lower} mtu {right}", "route flush cache"),),
    )


def mtu_poisoned(scene: Scene) -> Change:
    """An ICMP message that is forged or out of date: the kernel believes less of the way to the peer than is so."""
    return Change(
        do=(scene.step("icmp", scene.flannel.vtep_ip(scene.peer)),),
        undo=(scene.step("ip", "route flush cache"),),
    )


def wireguard_device_missing(scene: Scene) -> Change:
    """`wg-quick down wg0`: the device is gone, and flannel.1, which is bound to it, goes with it.

    Raises:
        LabError: the device is not one of wg-quick's.
    """
    if not fabric_of(scene.lab.topology).carries_overlay:
        raise LabError(f"{scene.tunnel} of topology {scene.lab.topology.name} is not wg-quick's, which takes it down")
    # Who is behind NAT has no endpoint in the file, and is back where it was before it calls again.
    peers = [_addition(scene, each) for each in node_state.peers(scene.here, scene.tunnel).values()]
    return Change(
        do=(scene.step("wg-quick", f"down {scene.tunnel}"),),
        undo=(scene.step("wg-quick", f"up {scene.tunnel}"), scene.step("wg", *peers), *_made_anew(scene)),
    )


def wireguard_peer_missing(scene: Scene) -> Change:
    """`wg set wg0 peer X remove`, by a hasty operator or a script that has X no more."""
    peer = scene.wireguard_peer()
    return Change(
        do=(scene.step("wg", _removal(scene, peer["key"])),), undo=(scene.step("wg", _addition(scene, peer)),)
    )


def wireguard_key_mismatch(scene: Scene) -> Change:
    """The victim has a key for the peer that is not the peer's, as after a reinstallation."""
    peer, wrong = scene.wireguard_peer(), generate_keys(1)[0].public
    return Change(
        do=(scene.step("wg", _removal(scene, peer["key"]), _addition(scene, {**peer, "key": wrong})),),
        undo=(scene.step("wg", _removal(scene, wrong), _addition(scene, peer)),),
    )


def allowed_ips_stolen(scene: Scene) -> Change:
    """Another peer was given the prefixes of this one, which thereby lost them: what WireGuard does silently."""
    peer = scene.wireguard_peer()
    thief = next(
        (each for each in node_state.peers(scene.here, scene.tunnel).values() if each["key"] != peer["key"]), None
    )
    if thief is None:
        thief = {"key": generate_keys(1)[0].public, "endpoint": "", "allowed": "", "keepalive": "off"}
        back = _removal(scene, thief["key"])
    else:
        back = _addition(scene, thief)
    loot = ",".join(filter(None, (thief["allowed"], peer["allowed"])))
    return Change(
        do=(scene.step("wg", f"set {scene.tunnel} peer {thief['key']} allowed-ips {loot}"),),
        undo=(scene.step("wg", back, _addition(scene, peer)),),
    )


def allowed_ips_missing(scene: Scene) -> Change:
    """Somebody has set the peer's AllowedIPs by hand and has forgotten the pods of one node."""
    peer = scene.wireguard_peer()
    kept = ",".join(each for each in peer["allowed"].split(",") if each != scene.peer.pod_cidr)
    if kept == peer["allowed"]:
        raise LabError(f"{scene.tunnel} of {scene.victim.name} carries no pods: its overlay stands on the tunnel")
    command = f"set {scene.tunnel} peer {peer['key']} allowed-ips"
    nothing = "''"
    return Change(
        do=(scene.step("wg", f"{command} {kept or nothing}"),), undo=(scene.step("wg", f"{command} {peer['allowed']}"),)
    )


def pod_route_diverted(scene: Scene) -> Change:
    """A script of a VPN or of a cloud: a policy rule above all others sends one node's pods to a table of dead ends."""
    rule = f"to {scene.peer.pod_cidr} lookup {STRANGE_TABLE} priority {STRANGE_PRIORITY}"
    route = f"unreachable default table {STRANGE_TABLE}"
    return Change(
        do=(scene.step("ip", f"route add {route}", f"rule add {rule}"),),
        undo=(scene.step("ip", f"rule del {rule}", f"route del {route}"),),
    )


def pod_route_unreachable(scene: Scene) -> Change:
    """Somebody has taken the pods of the victim out of service, before the route of its bridge."""
    route = f"unreachable {scene.victim.pod_cidr}"
    return Change(
        do=(scene.step("ip", f"route prepend {route}"),),
        undo=(scene.step("ip", f"route del {route}"),),
    )


def pod_bridge_down(scene: Scene) -> Change:
    """`ip link set cni0 down`: its connected route goes, and pods with it; the address stays and answers."""
    return Change(
        do=(scene.step("ip", f"link set {BRIDGE} down"),),
        undo=(scene.step("ip", f"link set {BRIDGE} up"),),
    )


def pod_bridge_without_address(scene: Scene) -> Change:
    """A script that tidies addresses up: the gateway of the pods is gone, and the route to them."""
    address = f"{scene.victim.pod_gateway_ip}/{scene.victim.pod_cidr.partition('/')[2]} dev {BRIDGE}"
    return Change(
        do=(scene.step("ip", f"address del {address}"),),
        undo=(scene.step("ip", f"address add {address}"),),
    )


def wireguard_endpoint_moved(scene: Scene) -> Change:
    """Both ends have moved at once: each calls the other where it was, and hears nothing to learn from.

    Meanwhile nothing crosses the wide area: a single packet between the two moves would tell its receiver the way.
    """
    other = Scene(lab=scene.lab, victim=scene.peer, peer=scene.victim)
    return endpoints_moved(*((each, _nowhere(each.wireguard_peer())) for each in (scene, other)))


def endpoints_moved(*ends: tuple[Scene, str]) -> Change:
    """Each end is given another endpoint of its peer, while nothing is said between them."""
    do, undo = [], []
    for each, endpoint in ends:
        peer = each.wireguard_peer()
        do.append(each.step("wg", f"set {each.tunnel} peer {peer['key']} endpoint {endpoint}"))
        if peer["endpoint"]:
            undo.append(each.step("wg", f"set {each.tunnel} peer {peer['key']} endpoint {peer['endpoint']}"))
    hush = "table ip fault_hush"
    chain = "chain everything { type filter hook forward priority filter - 10; policy drop; }"
    silence = Step(place=WAN, tool="nft", lines=(f"{hush} {{", chain, "}"))
    speech = Step(place=WAN, tool="nft", lines=(f"{hush} {{ }}", f"delete {hush}"))
    return Change(do=(silence, *do, speech), undo=(speech, *undo))


def keepalive_missing(scene: Scene) -> Change:
    """Behind NAT without keepalives, and the NAT forgets: nobody gets in until somebody inside speaks."""
    peers = node_state.peers(scene.here, scene.tunnel).values()
    return Change(
        do=(
            scene.step("wg", *(f"set {scene.tunnel} peer {peer['key']} persistent-keepalive off" for peer in peers)),
            Step(place=WAN, tool="conntrack", lines=("flush",)),
        ),
        undo=(
            scene.step(
                "wg",
                *(f"set {scene.tunnel} peer {peer['key']} persistent-keepalive {peer['keepalive']}" for peer in peers),
            ),
        ),
    )


def rp_filter_strict(scene: Scene) -> Change:
    """A hardening script: what comes in by another way than the answer would take is dropped."""
    keys = [f"net/ipv4/conf/{name}/rp_filter" for name in ("all", scene.tunnel, "eth0")]
    before = [scene.here.run(["cat", f"/proc/sys/{key}"], check=True).stdout.strip() for key in keys]
    return Change(
        do=(scene.step("sysctl", *(f"{key}=1" for key in keys)),),
        undo=(scene.step("sysctl", *(f"{key}={value}" for key, value in zip(keys, before, strict=True))),),
    )


def forwarding_off(scene: Scene) -> Change:
    """The same kind of script: the node answers for itself and passes nothing on, not even to its pod."""
    return Change(
        do=(scene.step("sysctl", "net/ipv4/ip_forward=0"),),
        undo=(scene.step("sysctl", "net/ipv4/ip_forward=1"),),
    )


STATE_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        "overlay-device-missing": overlay_device_missing,
        "overlay-device-down": overlay_device_down,
        "overlay-emptied": overlay_emptied,
        "fdb-entry-missing": fdb_entry_missing,
        "fdb-entry-wrong": fdb_entry_wrong,
        "neighbour-missing": neighbour_missing,
        "neighbour-not-permanent": neighbour_not_permanent,
        "neighbour-wrong-mac": neighbour_wrong_mac,
        "vtep-mac-changed": vtep_mac_changed,
        "overlay-mismatch": partial(overlay_mismatch, port=OTHER_PORT),
        "overlay-mismatch-vni": partial(overlay_mismatch, vni=OTHER_VNI),
        "pod-route-missing": pod_route_missing,
        "pod-route-escaped": pod_route_escaped,
        "mtu-misconfigured": mtu_misconfigured,
        "mtu-poisoned": mtu_poisoned,
        "wireguard-device-missing": wireguard_device_missing,
        "wireguard-peer-missing": wireguard_peer_missing,
        "wireguard-key-mismatch": wireguard_key_mismatch,
        "allowed-ips-stolen": allowed_ips_stolen,
        "allowed-ips-missing": allowed_ips_missing,
        "pod-route-diverted": pod_route_diverted,
        "pod-route-diverted-unreachable": pod_route_unreachable,
        "pod-route-diverted-bridge": pod_bridge_down,
        "pod-route-diverted-address": pod_bridge_without_address,
        "wireguard-endpoint-moved": wireguard_endpoint_moved,
        "keepalive-missing": keepalive_missing,
        "rp-filter-strict": rp_filter_strict,
        "forwarding-off": forwarding_off,
    }
)
"""Every fault of a node's own state, by kind: the code of the verdict, with the form where there are several."""


def _made_anew(scene: Scene) -> tuple[Step, ...]:
    """The device as it is, to be made where there is none, with all entries it has at the moment."""
    ip_lines, bridge_lines = node_state.entries(scene.here, scene.flannel.relay_device)
    return (
        scene.step("ip", *scene.flannel.device_lines(scene.lab.topology, scene.victim)),
        scene.step("bridge", *bridge_lines),
        scene.step("ip", *ip_lines),
    )


def _vtep(scene: Scene, node: Node) -> str:
    return scene.flannel.vtep_ip(node)


def _fdb(scene: Scene, node: Node) -> str:
    return scene.flannel.fdb_line(node).replace("fdb append", "fdb replace")


def _neighbour(scene: Scene) -> str:
    return f"neighbour replace {scene.flannel.neighbour(scene.peer)} dev {scene.flannel.relay_device} nud permanent"


def pod_route(scene: Scene) -> str:
    """Put back, also where a daemon has done so meanwhile."""
    return scene.flannel.route_line(scene.peer).replace("route add", "route replace")


def _removal(scene: Scene, key: str) -> str:
    return f"set {scene.tunnel} peer {key} remove"


def _addition(scene: Scene, peer: Mapping[str, str]) -> str:
    endpoint = f" endpoint {peer['endpoint']}" if peer["endpoint"] else ""
    keepalive = f" persistent-keepalive {peer['keepalive']}"
    return f"set {scene.tunnel} peer {peer['key']} allowed-ips {peer['allowed']}{endpoint}{keepalive}"


def _nowhere(peer: Mapping[str, str]) -> str:
    """An address of TEST-NET-1 that nobody in the lab has; a random port, so that it is no known one either."""
    del peer
    return f"192.0.2.{100 + secrets.randbelow(100)}:{40000 + secrets.randbelow(10000)}"
