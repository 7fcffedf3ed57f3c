"""Plain WireGuard: which device carries a mesh, and which is somebody's own."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, WireGuardPeer
from meshwatchd.model.sources import CiliumNode, CiliumNodes, FlannelSubnet, QuickFile, QuickPeer, Sources
from meshwatchd.profiles.wireguard import look
from tests.support.node_states import flannel_over_wg0, kernel, kilo_cilium, kilo_flannel

PEER = WireGuardPeer(public_key="k1", allowed_ips=("10.8.0.1/32", "10.9.0.0/16"))
FILE = QuickFile(
    path="/etc/wireguard/wg0.conf",
    device="wg0",
    peers=(QuickPeer(public_key="k1", allowed_ips=("10.8.0.1/32",)), QuickPeer(public_key="k2")),
)


def device(name="wg0", *, is_up=True, kind="wireguard"):
    """A device with an address."""
    link = Link(name=name, index=20, kind=kind, is_up=is_up, mtu_bytes=1420, addresses=("10.8.0.3",))
    return msgspec.structs.replace(link, prefix_lengths=(24,))


def seen(snapshot, sources=None, declared=None):
    """What the look at plain WireGuard says."""
    return look(snapshot, sources or Sources(), declared or MeshSettings(), NodeName("a2"))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


def beside(state, *links):
    """The same node with more devices."""
    return msgspec.structs.replace(state, links=(*state.links, *links))


@pytest.mark.parametrize("kind", ["wireguard", "tun"])
def test_the_only_device_is_the_mesh(kind):
    """A userspace one is known by its answers; single addresses among AllowedIPs are nodes."""
    view = seen(kernel([device(kind=kind)], ["default via 192.168.1.1 dev wg0"], peers={"wg0": [PEER]}))

    assert (("wireguard",), "wg0", "10.8.0.3", 1420) == (
        view.profiles,
        view.wireguard_device,
        view.wireguard_ip,
        view.wireguard_mtu_bytes,
    )
    assert [("10.8.0.1", False)] == [(each.address, each.is_local) for each in view.candidates]
    assert "there is no other mesh" in texts(view)


@pytest.mark.parametrize("state", [kilo_flannel("a2"), kilo_cilium("a2")])
def test_beside_another_mesh_it_is_left_alone(state):
    """Administrators dial in there: a hello to them would be rude."""
    view = seen(beside(state, device()))

    assert ((), ()) == (view.profiles, view.candidates)
    assert "wg0 carries nothing of the mesh that kilo0 belongs to" in texts(view)


def test_the_operator_may_name_it():
    """What he names counts, whatever else there is."""
    view = seen(beside(kilo_flannel("a2"), device()), declared=MeshSettings(wireguard_device="wg0"))

    assert ("wg0", "the operator names wg0") == (view.wireguard_device, view.why[0].text)


def test_an_overlay_on_it_makes_it_the_mesh():
    """Flannel over wg0, as K3s builds it."""
    view = seen(flannel_over_wg0())

    assert ("wg0", "flannel.1 runs over wg0") == (view.wireguard_device, view.why[0].text)
    assert [("wg0", "eth0")] == [(layer.device, layer.over) for layer in view.layers]


def test_the_nodes_address_on_it_makes_it_the_mesh():
    """Cilium over wg0: its agent names the node by the tunnel's address."""
    agent = CiliumNodes(own_name="a2", nodes=(CiliumNode(name="a2", node_ip="10.8.0.3"),))

    assert "wg0" == seen(beside(kilo_cilium("a2"), device()), Sources(cilium=agent)).wireguard_device


def test_a_file_and_its_device_are_compared():
    """Somebody has changed one of them."""
    view = seen(kernel([device()], [], peers={"wg0": [PEER]}), Sources(quick=(FILE,)))

    assert "wg-quick made wg0; peers in its file: 2" in texts(view)
    assert "peers that are either in the file or on the device, not both: 1" in texts(view)


def test_peers_come_from_the_file_where_the_device_does_not_answer():
    """A userspace process without its socket."""
    view = seen(kernel([device()], []), Sources(quick=(FILE,)))

    assert ["10.8.0.1"] == [each.address for each in view.candidates]


def test_a_device_that_is_not_there_is_missed():
    """Its file says that it should be."""
    view = seen(kernel([], []), Sources(quick=(FILE,)))

    assert () == view.profiles
    assert "/etc/wireguard/wg0.conf: there is no device wg0: wg-quick has not brought it up" in texts(view)


def test_a_device_that_is_down_carries_nothing():
    """It may be an old one."""
    assert "wg0 is down" in texts(seen(kernel([device(is_up=False)], [])))


@pytest.mark.parametrize("name", ["mw0", "cilium_wg0", "flannel-wg"])
def test_devices_of_others_and_our_own_are_none(name):
    """Each belongs to a profile of its own, or to us."""
    assert () == seen(kernel([device(name)], [])).profiles


LAN = Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("192.168.1.5",), prefix_lengths=(24,))


def bridge(name="cni0", network="10.42.2.1"):
    """Of pods, or of something else."""
    link = Link(name=name, index=9, kind="bridge", is_up=True, mtu_bytes=1420, addresses=(network,))
    return msgspec.structs.replace(link, prefix_lengths=(24,))


def routed(*lines, links=()):
    """A node whose routing daemon has written these routes."""
    return kernel([LAN, device(), *links], ["default via 192.168.1.1 dev eth0", *lines], peers={"wg0": [PEER]})


@pytest.mark.parametrize(
    ("proto", "owner"), [("bird", "BIRD (proto bird)"), ("bgp", "FRR (proto bgp)"), ("zebra", "FRR (proto zebra)")]
)
def test_the_owner_of_the_routes_is_named(proto, owner):
    """By the protocol number alone: no socket of a daemon is asked."""
    lines = [f"10.42.{net}.0/24 via 10.8.0.1 dev wg0 proto {proto} metric 32" for net in (0, 1)]
    view = seen(routed(*lines, links=[bridge("docker0", "172.17.0.1"), bridge()]))

    assert ("wg0", "wg0", "10.8.0.3") == (view.wireguard_device, view.overlay_device, view.overlay_ip)
    assert ("10.42.2.0/24", True) == (view.pod_cidr, view.is_native)
    assert f"routes into wg0: routes of {owner}: 2; it alone changes them" in texts(view)
    assert "bridges: this node's pods are in 10.42.2.0/24" in texts(view)


def test_a_node_without_a_bridge_of_pods_has_itself_alone():
    """A border router; docker0 has the same network on each node, and is nobody's pods."""
    view = seen(routed("10.42.1.0/24 via 10.8.0.1 dev wg0 proto bird", links=[bridge("docker0", "172.17.0.1")]))

    assert ("10.8.0.3/32", "wg0") == (view.pod_cidr, view.overlay_device)
    assert "this node is taken to have no pods" in texts(view)


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        ("10.42.1.0/24 via 10.8.0.1 dev wg0", Sources()),
        (
            "10.42.1.0/24 via 10.8.0.1 dev wg0 proto bird",
            Sources(flannel=FlannelSubnet(path="s", network="10.42.0.0/16", pod_cidr="10.42.0.0/24", mtu_bytes=1370)),
        ),
    ],
)
def test_without_a_daemons_routes_or_where_flannel_is_to_come_nothing_is_said_of_pods(line, sources):
    """What a node told of itself before lasts in the roster, whoever has deleted flannel.1 or stopped BIRD."""
    view = seen(routed(line, links=[bridge()]), sources)
    assert ("wg0", "", "", "") == (view.wireguard_device, view.overlay_device, view.overlay_ip, view.pod_cidr)


def test_of_several_devices_the_one_that_a_daemon_routes_into_counts():
    """The other one is for administrators."""
    dial_in = msgspec.structs.replace(device("wg-admin"), index=7)
    line = "10.42.1.0/24 via 10.8.0.1 dev wg0 proto bird"
    both = [LAN, dial_in, device(), bridge()]
    view = seen(kernel(both, ["default via 192.168.1.1 dev eth0", line], peers={"wg0": [PEER]}))
    assert "wg0" == view.wireguard_device


def test_below_an_overlay_nothing_is_routed_straight_into_it():
    """Flannel's own view names pods and device."""
    view = seen(flannel_over_wg0())
    assert ("", "", "") == (view.overlay_device, view.overlay_ip, view.pod_cidr)


@pytest.mark.parametrize("kind", ["wireguard", "tun"])
def test_a_host_meshs_device_is_no_mesh_of_its_own(kind):
    """NetBird's speaks WireGuard, and is the only one: its peers are the host's. What the operator names counts."""
    snapshot = kernel([device("wt0", kind=kind)], [], peers={"wt0": [PEER]})

    assert ((), "") == (seen(snapshot).profiles, seen(snapshot).wireguard_device)
    assert "wt0" == seen(snapshot, declared=MeshSettings(wireguard_device="wt0")).wireguard_device
