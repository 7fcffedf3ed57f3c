"""Whether a fault of the catalogue does to packets what it says: asked by the lab's own flows, never by a daemon.

Each witness gets the lab, the victim's and the peer's name, and asserts what passes and what does not.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import partial

from meshwatchd.adapters.arp import ask
from meshwatchd.model.underlay import ArpAnswers
from netnslab import Inhabitant, Lab, cilium_agent, conntrack, node_state, wg_quick
from netnslab.cluster_plans import CLUSTER_PLANS
from netnslab.fabric import fabric_of
from netnslab.flannel import Flannel
from netnslab.form_plans import FORM_PLANS
from netnslab.native_plans import NATIVE_PLANS
from netnslab.overlays import overlay_of
from netnslab.poison import NEXT_HOP_BYTES
from netnslab.site import WAN
from netnslab.underlay_plans import STRAY_PORT, UNDERLAY_PLANS
from netnslab.waiting import wait_until
from tests.support.mesh import flow, fresh_flows_alive, pings, tcp_exchanges, udp_socket

TRIES = 3
Witness = Callable[[Lab, str, str], None]


def reaches(lab: Lab, one: str, other: str) -> bool:
    """Whether every new flow between two pods is answered, sooner or later."""
    try:
        wait_until(
            lambda: fresh_flows_alive(lab.pod(one), lab.pod(other), TRIES) == TRIES,
            timeout_s=8,
            what="flows",
            poll_s=0.1,
        )
    except Exception:  # noqa: BLE001 - the caller says what it expected
        return False
    return True


def is_cut(lab: Lab, one: str, other: str) -> bool:
    """Whether no new flow between two pods is answered."""
    return fresh_flows_alive(lab.pod(one), lab.pod(other), TRIES) == 0


def third(lab: Lab, *known: str) -> str:
    """Another node, of the first one's location where there is one."""
    near = [node.name for node in lab.topology.neighbours(known[0])]
    return next(name for name in (*near, *lab.topology.nodes) if name not in known)


def pair_is_cut(lab: Lab, victim: str, peer: str) -> None:
    """Between victim and peer nothing passes, between the victim and a third node everything does."""
    assert is_cut(lab, victim, peer)
    assert reaches(lab, victim, third(lab, victim, peer))


def pods_alone_are_cut(lab: Lab, victim: str, peer: str) -> None:
    """The pair's pods are cut, and the victim reaches the node behind which the peer's pods are."""
    pair_is_cut(lab, victim, peer)
    node = lab.topology.nodes[peer]
    address = wg_quick.address(node) if fabric_of(lab.topology).carries_overlay else node.node_ip
    assert pings(lab.node(victim), address)


def the_node_alone_is_refused(lab: Lab, victim: str, peer: str) -> None:
    """The kernel refuses packets to the node itself; its pods are reached, and so is everybody else."""
    cut = lab.topology.members(lab.topology.remote_locations(victim)[0].name)[-1]
    assert lab.node(victim).run(["ip", "route", "get", cut.node_ip]).returncode
    the_node_alone_is_cut(lab, victim, peer)


def the_node_alone_is_cut(lab: Lab, victim: str, peer: str) -> None:
    """Packets to the node itself are lost; its pods are reached, and so is everybody else."""
    cut = lab.topology.members(lab.topology.remote_locations(victim)[0].name)[-1]
    assert not pings(lab.node(victim), cut.node_ip)
    assert reaches(lab, victim, cut.name)
    assert reaches(lab, peer, cut.name)


def pods_of_the_victim_are_cut(lab: Lab, victim: str, peer: str) -> None:
    """The victim's pod is answered by no pod, and the victim is by the peer."""
    assert is_cut(lab, victim, peer)
    assert is_cut(lab, peer, victim)
    node = lab.topology.nodes[peer]
    address = wg_quick.address(node) if fabric_of(lab.topology).carries_overlay else node.node_ip
    assert pings(lab.node(victim), address)


def tcp_of_pods_is_lost(lab: Lab, victim: str, peer: str) -> None:
    """Datagrams between pods pass, no connection comes about."""
    assert reaches(lab, victim, peer)
    assert not exchanges(lab, victim, peer)


def udp_of_pods_is_lost(lab: Lab, victim: str, peer: str) -> None:
    """Connections between pods come about, no datagram passes."""
    assert is_cut(lab, victim, peer)
    assert exchanges(lab, victim, peer)


def only_the_nodes_own_address_is_cut(lab: Lab, victim: str, peer: str) -> None:
    """Its pods are reached; what it sends itself from its address among them is lost."""
    assert reaches(lab, victim, peer)
    assert not pings(lab.node(peer), lab.topology.nodes[victim].overlay_ip)


def pods_are_not_relayed(lab: Lab, victim: str, peer: str) -> None:
    """The peer's pods are cut off from those behind the victim, which the peer's own neighbours reach."""
    behind = lab.topology.neighbours(victim)[-1].name
    assert is_cut(lab, behind, peer)
    assert reaches(lab, third(lab, peer), peer)


def no_pods_are_relayed(lab: Lab, victim: str, peer: str) -> None:
    """Those behind the victim reach each other alone."""
    here = [node.name for node in lab.topology.neighbours(victim)]
    assert is_cut(lab, here[0], lab.topology.remote_locations(victim)[0].leader)
    assert reaches(lab, here[0], here[1])
    assert pings(lab.node(here[0]), lab.topology.nodes[peer].node_ip)


def nothing_is_relayed(lab: Lab, victim: str, peer: str) -> None:
    """Those behind the victim reach each other alone."""
    far = lab.topology.remote_locations(victim)[0].leader
    assert is_cut(lab, peer, far)
    assert reaches(lab, peer, third(lab, peer, victim))


def nothing_leaves_the_location(lab: Lab, victim: str, peer: str) -> None:
    """The tunnel is silent, and the victim's location is whole, and so is the other one."""
    far = lab.topology.remote_locations(victim)[0].leader
    assert is_cut(lab, victim, far)
    assert is_cut(lab, peer, far)
    assert reaches(lab, peer, victim)


def victim_is_cut(lab: Lab, victim: str, peer: str) -> None:
    """The victim's pod reaches nobody, the others each other."""
    assert is_cut(lab, victim, peer)
    assert is_cut(lab, third(lab, victim, peer), victim)
    assert reaches(lab, peer, third(lab, peer, victim))


def answers_are_lost(lab: Lab, victim: str, peer: str) -> None:
    """What the victim sends arrives everywhere; answers go to a MAC that it has not any more."""
    with flow(lab.pod(victim), lab.pod(peer)) as between:
        assert any(between.arrives() for _ in range(TRIES))
        assert not between.echoes()
    assert is_cut(lab, third(lab, victim, peer), victim)


def nothing_is_lost(lab: Lab, victim: str, peer: str) -> None:
    """The entry ages, and packets pass."""
    device = ("show", lab.topology.nodes[peer].overlay_ip)
    assert "PERMANENT" not in lab.node(victim).run(["ip", "neigh", *device], check=True).stdout
    assert reaches(lab, victim, peer)


def big_packets_are_cut_in_pieces(lab: Lab, victim: str, peer: str) -> None:
    """The device takes what the one below does not carry whole."""
    before = fragments(lab.node(victim))
    mtu = int(lab.node(victim).run(["cat", "/sys/class/net/flannel.1/mtu"], check=True).stdout)
    oversize = ["ping", "-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", str(mtu - 28)]
    lab.node(victim).run([*oversize, lab.topology.nodes[peer].overlay_ip])
    assert fragments(lab.node(victim)) > before


def a_smaller_path_is_believed(lab: Lab, victim: str, peer: str) -> None:
    """Everything passes, and the kernel cuts what is longer than it was told."""
    overlay = overlay_of(lab.topology)
    assert isinstance(overlay, Flannel)
    vtep = overlay.vtep_ip(lab.topology.nodes[peer])
    assert f"mtu {NEXT_HOP_BYTES}" in lab.node(victim).run(["ip", "route", "get", vtep], check=True).stdout
    assert reaches(lab, victim, peer)


def fragments(node: Inhabitant) -> int:
    """How many fragments a node has made (IpFragCreates of /proc/net/snmp)."""
    names, values = (
        line.split()
        for line in node.run(["cat", "/proc/net/snmp"], check=True).stdout.splitlines()
        if line.startswith("Ip:")
    )
    return int(values[names.index("FragCreates")])


def tunnel_has_no_handshake(lab: Lab, victim: str, peer: str) -> None:
    """The pair is cut, and wg has never seen a handshake."""
    pair_is_cut(lab, victim, peer)
    assert "0" in handshakes(lab, victim)


def tunnel_shakes_hands_only(lab: Lab, victim: str, peer: str) -> None:
    """A session begun from nothing comes up, and carries nothing."""
    device = fabric_of(lab.topology).device
    scene = next(each for each in node_state.peers(lab.node(victim), device).values() if _is_of(lab, each, peer))
    arguments = ["wg", "set", device, "peer", scene["key"]]
    lab.node(victim).run([*arguments, "remove"], check=True)
    restored = ("allowed-ips", scene["allowed"], "persistent-keepalive", scene["keepalive"])
    lab.node(victim).run([*arguments, *restored, "endpoint", scene["endpoint"]], check=True)
    assert is_cut(lab, victim, peer)
    wait_until(lambda: "0" not in handshakes(lab, victim), timeout_s=10, what="a handshake")
    pair_is_cut(lab, victim, peer)


def _is_of(lab: Lab, peer: Mapping[str, str], name: str) -> bool:
    node = lab.topology.nodes[name]
    return f"{node.wireguard_ip or node.node_ip}/32" in peer["allowed"]


def handshakes(lab: Lab, node: str) -> list[str]:
    """Seconds of the epoch of each peer's latest handshake; 0 for none."""
    device = fabric_of(lab.topology).device
    text = lab.node(node).run(["wg", "show", device, "latest-handshakes"], check=True).stdout
    return [line.split("\t")[1] for line in text.splitlines()]


def nobody_gets_in_until_called(lab: Lab, victim: str, peer: str) -> None:
    """The NAT has forgotten; one packet from inside opens it again."""
    assert is_cut(lab, peer, victim)
    assert reaches(lab, victim, peer)
    assert reaches(lab, peer, victim)


def asymmetric_packets_are_dropped(lab: Lab, victim: str, peer: str) -> None:
    """A packet whose answer would leave by another device than it came in by does not get in."""
    sender = lab.topology.neighbours(victim)[0]
    foreign = lab.topology.nodes[peer].wireguard_ip or lab.topology.nodes[peer].node_ip
    place = lab.node(sender.name)
    place.run(["ip", "address", "add", f"{foreign}/32", "dev", "lo"], check=True)
    try:
        with udp_socket(lab.node(victim)) as far, place.space.call(partial(_bound, foreign)) as near:
            near.sendto(b"astray", far.getsockname())
            far.settimeout(0.3)
            try:
                far.recv(100)
            except TimeoutError:
                return
        raise AssertionError("the packet got in")
    finally:
        place.run(["ip", "address", "del", f"{foreign}/32", "dev", "lo"], check=True)


def _bound(address: str) -> socket.socket:
    near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    near.bind((address, 0))
    return near


def nothing_is_passed_on(lab: Lab, victim: str, peer: str) -> None:
    """The pod is cut off, the node itself is not."""
    assert is_cut(lab, victim, peer)
    assert pings(lab.node(victim), lab.topology.nodes[peer].overlay_ip) or pings(lab.node(victim), lab.pod(peer).ip)


def bulk_is_lost(lab: Lab, victim: str, peer: str) -> None:
    """Datagrams of any size pass, and TCP as long as it is small."""
    whole = ["ping", "-n", "-q", "-c", "1", "-W", "1", "-s", "1300", lab.pod(peer).ip]
    assert 0 == lab.pod(victim).run(whole).returncode
    assert reaches(lab, victim, peer)
    assert not exchanges(lab, victim, peer)


def exchanges(lab: Lab, one: str, other: str) -> bool:
    """Whether TCP carries several segments each way between two pods."""
    try:
        return tcp_exchanges(lab.pod(one), lab.pod(other))
    except (TimeoutError, OSError):
        return False


def only_others_are_heard(lab: Lab, victim: str, peer: str) -> None:
    """Nothing the victim sends over the overlay arrives; what others send does, and the layer below is well."""
    other = lab.topology.neighbours(victim)[0].name
    with flow(lab.pod(other), lab.pod(victim)) as towards, flow(lab.pod(victim), lab.pod(other)) as back:
        assert any(towards.arrives() for _ in range(TRIES))
        assert not any(back.arrives() for _ in range(TRIES))
    assert pings(lab.node(victim), lab.node(other).ip)
    assert reaches(lab, peer, third(lab, peer, victim))


def only_probes_pass(lab: Lab, victim: str, peer: str) -> None:
    """A flow to a reflector's port passes, any other is lost."""
    assert is_cut(lab, victim, peer)
    with flow(lab.pod(victim), lab.pod(peer), port=18640) as disguised:
        assert disguised.echoes_eventually()


def big_packets_vanish(lab: Lab, victim: str, peer: str) -> None:
    """What fills the device's MTU is lost without a word, what is smaller passes."""
    echo = ["ping", "-n", "-q", "-c", "1", "-W", "1", "-s"]
    assert reaches(lab, victim, peer)
    assert 0 == lab.pod(victim).run([*echo, "1100", lab.pod(peer).ip]).returncode
    assert 0 != lab.pod(victim).run([*echo, "1340", lab.pod(peer).ip]).returncode


def pieces_vanish(lab: Lab, victim: str, peer: str) -> None:
    """Between the nodes' own addresses an echo that has to be cut is lost, a whole one is not."""
    near = lab.topology.neighbours(victim)[0].name
    echo = ["ping", "-n", "-q", "-c", "1", "-W", "1", "-s"]
    address = lab.node(victim).ip
    assert 0 == lab.node(near).run([*echo, "1400", address]).returncode
    assert 0 != lab.node(near).run([*echo, "3000", address]).returncode
    assert reaches(lab, victim, peer)


def big_standby_packets_vanish(lab: Lab, victim: str, peer: str) -> None:
    """A big datagram to a standby link's port is lost, a small one and one to another port are not."""
    near, far = lab.node(victim), lab.node(lab.topology.neighbours(victim)[0].name)
    for port, size, arrives in ((51831, 1420, False), (51831, 1000, True), (51870, 1420, True)):
        with udp_socket(near) as one, udp_socket(far, port) as other:
            one.sendto(bytes(size), other.getsockname())
            try:
                got = len(other.recv(2000))
            except TimeoutError:
                got = 0
        assert arrives == (got == size), (port, size)
    assert reaches(lab, victim, peer)


def one_way_only(lab: Lab, victim: str, peer: str) -> None:
    """What the peer sends arrives, what the victim sends does not."""
    with flow(lab.pod(peer), lab.pod(victim)) as towards, flow(lab.pod(victim), lab.pod(peer)) as back:
        assert any(towards.arrives() for _ in range(TRIES))
        assert not any(back.arrives() for _ in range(TRIES))


def port_is_silent(lab: Lab, victim: str, peer: str, *, port: int) -> None:
    """A port of the node does not even refuse; another one does, the other direction is open, and pods are well."""
    node = lab.topology.nodes[victim]
    address = node.wireguard_ip or node.node_ip
    other = lab.topology.nodes[peer]
    assert "silent" == knock(lab.node(peer), address, port)
    assert "refused" == knock(lab.node(peer), address, port + 1)
    assert "refused" == knock(lab.node(victim), other.wireguard_ip or other.node_ip, port)
    assert reaches(lab, victim, peer)


def knock(place: Inhabitant, address: str, port: int) -> str:
    """What a connection attempt meets: refused, silent or open."""

    def attempt() -> str:
        try:
            socket.create_connection((address, port), timeout=0.7).close()
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "silent"
        return "open"

    return place.space.call(attempt)


def reflector_is_closed(lab: Lab, victim: str, peer: str) -> None:
    """Nothing gets to the port of probes on the victim; other ports and pods are well."""
    near, far = lab.node(third(lab, victim)), lab.node(victim)
    if lab.topology.nodes[near.name].location != lab.topology.nodes[victim].location:
        near = lab.node(lab.topology.neighbours(victim)[0].name)
    with flow(near, far, port=18618) as probing, flow(near, far) as other:
        assert not probing.arrives()
        assert other.arrives()
    assert reaches(lab, victim, peer)


def new_flows_find_no_place(lab: Lab, victim: str, peer: str) -> None:
    """The table is full, and new flows are lost both ways."""
    assert conntrack.count(lab.node(victim)) >= 262_000
    assert is_cut(lab, victim, peer)
    assert is_cut(lab, peer, victim)


def tcp_is_invalid(lab: Lab, victim: str, peer: str) -> None:
    """Datagrams pass, no connection comes about."""
    assert reaches(lab, victim, peer)
    assert not exchanges(lab, victim, peer)


def answered_twice(lab: Lab, victim: str, peer: str) -> None:
    """Two MACs answer on the LAN for the victim's address."""
    asker = next(node for node in lab.topology.neighbours(victim) if node.name != peer)
    address = lab.topology.nodes[victim].node_ip

    def answering() -> ArpAnswers:
        return asyncio.run(ask("eth0", asker.eth0_mac, address))

    assert len(lab.node(asker.name).space.call(answering).macs) == 2


def mac_is_learned_elsewhere(lab: Lab, victim: str, peer: str) -> None:
    """While the victim speaks, the switch has its MAC behind the port of the loop now and then."""
    place, mac = lab.site.inhabitant(WAN), lab.topology.nodes[victim].eth0_mac

    def is_astray() -> bool:
        fresh_flows_alive(lab.pod(victim), lab.pod(peer), 1)
        learned = place.run(["bridge", "fdb", "show", "brport", STRAY_PORT], check=True).stdout
        return mac in learned

    wait_until(is_astray, timeout_s=10, what=f"{mac} behind {STRAY_PORT}", poll_s=0.01)


def agents_alone_are_cut(lab: Lab, victim: str, peer: str) -> None:
    """The agent of the victim says that it hears nothing of the peer's cluster, and packets pass."""
    health = lab.node(victim).run(["cat", str(cilium_agent.HEALTH)], check=True).stdout
    assert '"connected": false' in health
    assert '"connected": false' not in lab.node(peer).run(["cat", str(cilium_agent.HEALTH)], check=True).stdout
    assert reaches(lab, victim, peer)


WITNESSES: Mapping[str, Witness] = {
    "overlay-device-missing": victim_is_cut,
    "overlay-device-down": victim_is_cut,
    "overlay-emptied": victim_is_cut,
    "fdb-entry-missing": pair_is_cut,
    "fdb-entry-wrong": pair_is_cut,
    "neighbour-missing": pair_is_cut,
    "neighbour-not-permanent": nothing_is_lost,
    "neighbour-wrong-mac": pair_is_cut,
    "vtep-mac-changed": answers_are_lost,
    "overlay-mismatch": victim_is_cut,
    "overlay-mismatch-vni": victim_is_cut,
    "pod-route-missing": pair_is_cut,
    "pod-route-escaped": pair_is_cut,
    "pod-route-escaped-lan": pair_is_cut,
    **dict.fromkeys(NATIVE_PLANS, pair_is_cut),
    **{kind: victim_is_cut for kind in NATIVE_PLANS if kind.startswith(("cluster-route", "overlay-device"))},
    **dict.fromkeys(CLUSTER_PLANS, pair_is_cut),
    "clustermesh-control-cut": agents_alone_are_cut,
    "mtu-poisoned": a_smaller_path_is_believed,
    "mtu-misconfigured": big_packets_are_cut_in_pieces,
    "wireguard-device-missing": victim_is_cut,
    "wireguard-peer-missing": pair_is_cut,
    "wireguard-key-mismatch": pair_is_cut,
    "allowed-ips-stolen": pair_is_cut,
    "allowed-ips-missing": pods_alone_are_cut,
    "pod-route-diverted": pods_alone_are_cut,
    "pod-route-diverted-unreachable": pods_of_the_victim_are_cut,
    "pod-route-diverted-bridge": pods_of_the_victim_are_cut,
    "pod-route-diverted-address": pods_of_the_victim_are_cut,
    "pod-network-broken": pods_of_the_victim_are_cut,
    "pod-network-broken-tcp": tcp_of_pods_is_lost,
    "pod-network-broken-udp": udp_of_pods_is_lost,
    "pod-network-broken-output": only_the_nodes_own_address_is_cut,
    "pod-network-broken-relay": no_pods_are_relayed,
    "pod-network-broken-way": pods_are_not_relayed,
    "wireguard-endpoint-moved": pair_is_cut,
    "keepalive-missing": nobody_gets_in_until_called,
    "rp-filter-strict": asymmetric_packets_are_dropped,
    "forwarding-off": nothing_is_passed_on,
    **{kind: answered_twice for kind in UNDERLAY_PLANS if kind.startswith("duplicate-address")},
    "mac-moved": victim_is_cut,
    "mac-moved-loop": mac_is_learned_elsewhere,
    "neighbour-wrong": pair_is_cut,
    "neighbour-wrong-leader": pair_is_cut,
    "neighbour-wrong-gateway": pair_is_cut,
    "node-route-blocked": pair_is_cut,
    "node-route-blocked-neighbour": pair_is_cut,
    **{f"overlay-{lost}-leader": victim_is_cut for lost in ("device-missing", "device-down", "emptied", "mismatch")},
    "fdb-entry-missing-leader": pair_is_cut,
    "fdb-entry-wrong-leader": pair_is_cut,
    "wireguard-blocked-firewall": nothing_leaves_the_location,
    "one-way-break-input": nothing_leaves_the_location,
    "one-way-break-output": nothing_leaves_the_location,
    **{kind: victim_is_cut for kind in FORM_PLANS if kind.startswith("overlay-black-hole")},
    "relay-not-forwarding-policy": nothing_is_relayed,
    "forwarding-off-leader": nothing_is_relayed,
    "forwarding-off-device": nothing_is_relayed,
    "pod-route-diverted-node": the_node_alone_is_refused,
    "pod-route-diverted-lan": the_node_alone_is_cut,
    "allowed-ips-missing-node": the_node_alone_is_cut,
    "allowed-ips-stolen-pods": pods_are_not_relayed,
    "neighbour-wrong-mac-noarp": pair_is_cut,
    "pod-route-diverted-rule": pods_of_the_victim_are_cut,
    "forwarding-off-bridge": pods_of_the_victim_are_cut,
    "leader-dead-cable": victim_is_cut,
    "wireguard-peer-missing-bare": nothing_leaves_the_location,
    "offload-fault": bulk_is_lost,
    "overlay-black-hole": only_others_are_heard,
    "probes-only": only_probes_pass,
    "mtu-black-hole": big_packets_vanish,
    "fragments-dropped": pieces_vanish,
    "standby-mtu-smaller": big_standby_packets_vanish,
    "one-way-break": one_way_only,
    "wireguard-no-handshake": tunnel_has_no_handshake,
    "wireguard-no-data": tunnel_shakes_hands_only,
    "kubelet-unreachable": partial(port_is_silent, port=10250),
    "apiserver-unreachable": partial(port_is_silent, port=6443),
    "probe-port-blocked": reflector_is_closed,
    "conntrack-full": new_flows_find_no_place,
    "conntrack-invalid": tcp_is_invalid,
}
