"""Faults of the LAN: an address that two machines have, a MAC that the switch looks for elsewhere, a wrong neighbour;
and routes of a node that lock another one out.

b1 eth0 ---- b1-eth0 |          | stray ---- stray0 in the pod of the peer, a machine of nobody's
b3 eth0 ---- b3-eth0 | br-cloud |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from netnslab.namespaces import Kind
from netnslab.ownership import Step
from netnslab.site import POD_PREFIX, WAN
from netnslab.state_plans import NOBODYS_MAC, Change, Scene

STRAY_PORT, STRAY = "stray", "stray0"
STRAY_MAC = "02:de:ad:be:ef:02"

LOCK_PRIORITY = 80
LOOPED_FRAMES = 200
"""A second of the victim's that come back by another port."""


def duplicate_address(scene: Scene) -> Change:
    """Another node of the LAN is given the victim's address, and its neighbours ask anew who has it."""
    return _address_at(scene, scene.peer.name, "eth0")


def duplicate_address_router(scene: Scene) -> Change:
    """The router is given the victim's address, and takes what is meant for it."""
    return _address_at(scene, WAN, _bridge(scene))


def duplicate_address_station(scene: Scene, *, is_announced: bool = False) -> Change:
    """A machine that is no node has the victim's address, and announces it or only answers."""
    stray = POD_PREFIX + scene.peer.name
    network = scene.lab.site.pod(scene.peer.name).space.path(Kind.NET)
    cable = (
        f"link add {STRAY_PORT} type veth peer name {STRAY} address {STRAY_MAC} netns {network}",
        f"link set {STRAY_PORT} master {_bridge(scene)} up",
    )
    held = (f"address add {scene.victim.node_ip}/32 dev {STRAY}", f"link set {STRAY} up")
    claim = Step(place=stray, tool="arp", lines=(f"{STRAY} {scene.victim.node_ip}",))
    return Change(
        do=(
            Step(place=WAN, tool="ip", lines=cable),
            Step(place=stray, tool="ip", lines=held),
            *((claim,) if is_announced else _asked_anew(scene)),
        ),
        undo=(Step(place=WAN, tool="ip", lines=(f"link del {STRAY_PORT}",)), *_asked_anew(scene)),
    )


def mac_moved(scene: Scene) -> Change:
    """The switch has the victim's MAC behind another port for good; without `sticky` its next frame would mend that."""
    entry = f"{scene.victim.eth0_mac} dev {scene.peer.switch_port} master"
    return Change(
        do=(Step(place=WAN, tool="bridge", lines=(f"fdb replace {entry} static sticky",)),),
        undo=(Step(place=WAN, tool="bridge", lines=(f"fdb del {entry}",)),),
    )


def mac_moved_loop(scene: Scene) -> Change:
    """Frames of the victim come back by another port of the switch, which learns its MAC there again and again."""
    port, table = scene.victim.switch_port, f"netdev fault_mac_moved_{scene.victim.name}"
    hook = f'type filter hook ingress device "{port}" priority 0; policy accept;'
    cable = (
        f"link add {STRAY_PORT} type veth peer name {STRAY} address {STRAY_MAC}",
        f"link set {STRAY} up",
        f"link set {STRAY_PORT} master {_bridge(scene)} up",
    )
    rule = f'limit rate {LOOPED_FRAMES}/second burst 1 packets dup to "{STRAY}"'
    return Change(
        do=(
            Step(place=WAN, tool="ip", lines=cable),
            Step(place=WAN, tool="nft", lines=(f"table {table} {{", f"chain looped {{ {hook}", rule, "}", "}")),
        ),
        undo=(
            Step(place=WAN, tool="nft", lines=(f"table {table} {{ }}", f"delete table {table}")),
            Step(place=WAN, tool="ip", lines=(f"link del {STRAY_PORT}",)),
        ),
    )


def neighbour_wrong(scene: Scene) -> Change:
    """Somebody made the peer's MAC permanent, and its machine has another one since."""
    return _wrong_neighbour(scene, scene.peer.node_ip)


def neighbour_wrong_gateway(scene: Scene) -> Change:
    """The same with the router's."""
    return _wrong_neighbour(scene, scene.lab.topology.location_of(scene.victim.name).gateway)


def endpoint_locked_out(scene: Scene) -> Change:
    """What tools do to addresses that tried too often (fail2ban): the other end of a tunnel is among them."""
    host = scene.wireguard_peer()["endpoint"].rpartition(":")[0]
    return _locked_out(scene, f"route {{}} unreachable {host}/32")


def neighbour_locked_out(scene: Scene) -> Change:
    """The same of a neighbour, by a policy rule."""
    return _locked_out(scene, f"rule {{}} to {scene.peer.node_ip}/32 prohibit priority {LOCK_PRIORITY}")


def _locked_out(scene: Scene, line: str) -> Change:
    return Change(do=(scene.step("ip", line.format("add")),), undo=(scene.step("ip", line.format("del")),))


def _wrong_neighbour(scene: Scene, address: str) -> Change:
    return Change(
        do=(scene.step("ip", f"neighbour replace {address} dev eth0 lladdr {NOBODYS_MAC} nud permanent"),),
        undo=(scene.step("ip", f"neighbour del {address} dev eth0"),),
    )


def _address_at(scene: Scene, place: str, device: str) -> Change:
    address = f"{scene.victim.node_ip}/32 dev {device}"
    return Change(
        do=(Step(place=place, tool="ip", lines=(f"address add {address}",)), *_asked_anew(scene)),
        undo=(Step(place=place, tool="ip", lines=(f"address del {address}",)), *_asked_anew(scene)),
    )


def _asked_anew(scene: Scene) -> Iterable[Step]:
    """The LAN's other machines forget where the victim is, as when their entries have aged."""
    others = [node.name for node in scene.lab.topology.neighbours(scene.victim.name)]
    flush = f"neighbour flush to {scene.victim.node_ip} dev"
    for place, device in (*((name, "eth0") for name in others), (WAN, _bridge(scene))):
        yield Step(place=place, tool="ip", lines=(f"{flush} {device}",))


def _bridge(scene: Scene) -> str:
    return scene.lab.topology.location_of(scene.victim.name).bridge


UNDERLAY_PLANS: Mapping[str, Callable[[Scene], Change]] = MappingProxyType(
    {
        "duplicate-address": duplicate_address,
        "duplicate-address-router": duplicate_address_router,
        "duplicate-address-station": duplicate_address_station,
        "duplicate-address-announced": partial(duplicate_address_station, is_announced=True),
        "mac-moved": mac_moved,
        "mac-moved-loop": mac_moved_loop,
        "neighbour-wrong": neighbour_wrong,
        "neighbour-wrong-leader": neighbour_wrong,
        "neighbour-wrong-gateway": neighbour_wrong_gateway,
        "node-route-blocked": endpoint_locked_out,
        "node-route-blocked-neighbour": neighbour_locked_out,
    }
)
"""By kind: the code of the verdict, with the form where there are several."""

FORMS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((k for k in UNDERLAY_PLANS if k.startswith("duplicate-address-")), "duplicate-address"),
        **dict.fromkeys(("neighbour-wrong-leader", "neighbour-wrong-gateway"), "neighbour-wrong"),
        "mac-moved-loop": "mac-moved",
        "node-route-blocked-neighbour": "node-route-blocked",
    }
)
"""The code that a further form deserves."""
