"""Kilo recognised by what its agents leave in the kernels of six nodes, with and without its graph."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Gateway, Link, Snapshot, WireGuardPeer
from meshwatchd.model.sources import KiloGraph, KiloMetrics, KiloNode, Sources
from meshwatchd.profiles.kilo import look
from tests.support import node_states
from tests.support.node_states import NODE_IPS, kernel, kilo_cilium, kilo_flannel

GRAPH = Sources(kilo=node_states.graph())


def seen(snapshot, sources=None, node="a2", declared=None):
    """What Kilo's look says."""
    return look(snapshot, sources or Sources(), declared or MeshSettings(), NodeName(node))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


@pytest.mark.parametrize("name", NODE_IPS)
@pytest.mark.parametrize("state", [kilo_flannel, kilo_cilium])
@pytest.mark.parametrize("is_address_left", [True, False])
def test_each_node_of_the_labs_knows_its_role_and_address(name, state, is_address_left):
    """By the kernel alone; an address that is left on a member's kilo0 says nothing."""
    view = seen(state(name, is_address_left=is_address_left), node=name)

    leads = name in {"a1", "b1"}
    assert (("kilo",), "location", leads) == (view.profiles, view.granularity, view.is_leader)
    assert NODE_IPS[name] == view.node_ip
    assert (node_states.WIREGUARD_IPS[name[0]] if leads else "") == view.wireguard_ip
    assert ("kilo0", 1420) == (view.wireguard_device, view.wireguard_mtu_bytes)
    assert ("", "") == (view.location, view.public_endpoint)
    assert "Kilo's agent does not answer" in texts(view)


@pytest.mark.parametrize(("state", "leader"), [(kilo_flannel, "10.244.4.0"), (kilo_cilium, "10.244.4.74")])
def test_a_member_knows_its_leader_by_the_gateway_of_its_routes(state, leader):
    """A leader knows itself, which is for `compose` to say: its overlay address is the CNI's."""
    assert leader == seen(state("b3"), node="b3").leader
    assert "" == seen(state("b1"), node="b1").leader
    assert f"most of Kilo's routes lead to {leader}" in texts(seen(state("b3"), node="b3"))


@pytest.mark.parametrize("device", ["tunl0", "cilium_tunl"])
@pytest.mark.parametrize("name", ["a1", "a2"])
def test_the_ipip_device_is_the_one_that_kilo_uses(device, name):
    """Cilium up to 1.17 has renamed it."""
    view = seen(kilo_cilium(name, ipip=device), node=name)

    assert (device, "") == (view.ipip_device, view.overlay_device)
    assert "compatibility is cilium" in texts(view)
    assert ("", ["wireguard"]) == (
        seen(kilo_flannel(name)).ipip_device,
        [layer.kind for layer in seen(kilo_flannel(name)).layers],
    )


def test_the_graph_names_the_location():
    """And the leader's public endpoint; a node behind NAT has none."""
    leader, member = seen(kilo_cilium("a1"), GRAPH, "a1"), seen(kilo_cilium("a2"), GRAPH, "a2")

    assert ("onprem", "203.0.113.11", "10.244.1.0/24") == (leader.location, leader.public_endpoint, leader.pod_cidr)
    assert ("onprem", "") == (member.location, member.public_endpoint)
    assert "this node is a2 in onprem" in texts(member)


def test_a_node_is_found_in_the_graph_by_its_address():
    """Kilo may know it by another name than the operator."""
    assert "cloud" == seen(kilo_flannel("b2"), GRAPH, "ip-10-2-0-12").location
    stranger = seen(msgspec.structs.replace(kilo_flannel("b2"), device_routes=()), GRAPH, "elsewhere")
    assert "" == stranger.location
    assert "there is neither a node elsewhere nor one at" in texts(stranger)


def test_candidates_are_the_nodes_that_routes_and_peers_name():
    """Leaders' WireGuard addresses move from node to node and are left out."""
    leader = {each.address: each.is_local for each in seen(kilo_cilium("a1"), node="a1").candidates}
    member = {each.address: each.is_local for each in seen(kilo_cilium("a2")).candidates}

    remote = dict.fromkeys(("10.2.0.11", "10.2.0.12", "10.2.0.13"), False)
    assert {"192.168.100.12": True, "192.168.100.13": True, **remote} == leader
    assert {"10.244.1.71": True, **remote} == member
    with_graph = {each.address: each.is_local for each in seen(kilo_cilium("a2"), GRAPH).candidates}
    assert {**dict.fromkeys(("192.168.100.11", "192.168.100.13"), True)}.items() <= with_graph.items()


def test_kernel_and_metrics_may_disagree():
    """The kernel is believed, the contradiction told."""
    view = seen(kilo_flannel("a2"), Sources(kilo_metrics=KiloMetrics(is_leader=True, nodes=6, reconciles=9)))

    assert not view.is_leader
    assert "kilo metrics: Kilo says that this node leads, its device says otherwise" in texts(view)


def test_a_node_without_kilo_says_so():
    """One reason, and nothing else."""
    view = seen(Snapshot())

    assert ((), "link kilo0: there is no kilo0: this node is in no Kilo mesh") == (view.profiles, texts(view))


@pytest.mark.parametrize("evidence", ["graph", "table"])
def test_kilo_may_have_another_device(evidence):
    """As the operator declares it, where something else tells of Kilo."""
    state = kilo_flannel("a1")
    renamed = [msgspec.structs.replace(link, name="wgmesh") if link.name == "kilo0" else link for link in state.links]
    snapshot = msgspec.structs.replace(state, links=tuple(renamed))
    if evidence == "graph":
        snapshot = msgspec.structs.replace(snapshot, device_routes=())
    declared = MeshSettings(wireguard_device="wgmesh")

    view = seen(snapshot, GRAPH if evidence == "graph" else Sources(), "a1", declared)

    assert "wgmesh" == view.wireguard_device
    assert () == seen(snapshot, node="a1").profiles


def test_kilo_that_has_no_routes_yet_leads_nobody():
    """Its first second, or its last."""
    view = seen(kernel([Link(name="kilo0", index=3, kind="wireguard", is_up=False, mtu_bytes=1420)], []))

    assert (False, "", "") == (view.is_leader, view.leader, view.node_ip)
    assert "it has not found its nodes yet" in texts(view)


# --- the other shapes of a Kilo mesh ---


def node(name, *, with_overlay=True, peers=(), lines=()):
    """A node of three on one LAN and three elsewhere, whose kilo0 is up."""
    number = node_states.number_of(name)
    links = [
        Link(
            name="eth0",
            index=2,
            kind="",
            is_up=True,
            mtu_bytes=1500,
            addresses=(NODE_IPS[name],),
            prefix_lengths=(24,),
        ),
        Link(
            name="kilo0",
            index=3,
            kind="wireguard",
            is_up=True,
            mtu_bytes=1420,
            addresses=(f"10.4.0.{number}",),
            prefix_lengths=(16,),
        ),
    ]
    if with_overlay:
        router = f"10.244.{number}.7{number}"
        host = Link(name="cilium_host", index=7, kind="veth", is_up=True, mtu_bytes=1500, addresses=(router,))
        links.append(msgspec.structs.replace(host, prefix_lengths=(32,)))
        lines = [*lines, f"10.244.{number}.0/24 via {router} dev cilium_host proto kernel src {router}"]
    return kernel(links, list(lines), peers={"kilo0": list(peers)})


def peer(name):
    """A node as a peer of its own, as with full and cross granularity."""
    number = node_states.number_of(name)
    allowed = (f"10.244.{number}.0/24", f"{NODE_IPS[name]}/32", f"10.4.0.{number}/32")
    return WireGuardPeer(public_key=f"pub-{name}", endpoint=f"{NODE_IPS[name]}:51820", allowed_ips=allowed)


def lonely_lines(name, others):
    """Kilo's routes to nodes that lead themselves; one whose endpoint is its address has a route to its pods only."""
    for other in others:
        number = node_states.number_of(other)
        yield f"10.244.{number}.0/24 via 10.4.0.{number} dev kilo0 proto static src {NODE_IPS[name]} onlink"


def test_with_full_granularity_all_nodes_lead():
    """A neighbour on the LAN is a peer like the others, and nobody relays."""
    others = [other for other in NODE_IPS if other != "a1"]
    state = node("a1", peers=map(peer, others), lines=lonely_lines("a1", others))

    view = seen(state, node="a1")

    assert ("full", True, "") == (view.granularity, view.is_leader, view.leader)
    assert set(others) == {name for name in others if NODE_IPS[name] in {each.address for each in view.candidates}}
    assert not any(each.is_local for each in view.candidates)


def test_with_cross_granularity_neighbours_are_no_peers():
    """Their pods are the CNI's, and there is nothing to deliver."""
    others = node_states.remote_to("a1")
    to_neighbour = "10.244.2.0/24 via 10.244.1.71 dev cilium_host proto kernel src 10.244.1.71 mtu 1450"
    state = node("a1", peers=map(peer, others), lines=[*lonely_lines("a1", others), to_neighbour])

    assert "cross" == seen(state, node="a1").granularity


def test_a_leader_alone_in_its_location_is_a_leader():
    """Nobody to deliver to, and no neighbours at all."""
    others = node_states.remote_to("a1")
    state = node("a1", peers=map(peer, others), lines=lonely_lines("a1", others))
    view = seen(state, node="a1")
    relayed = seen(node("a1", peers=kilo_flannel("a1").wireguard[0].peers), node="a1")

    assert ["location", "location"] == [view.granularity, relayed.granularity]


@pytest.mark.parametrize(("locations", "granularity"), [(("a1", "a2", "b1"), "full"), (("on", "on", "cloud"), "cross")])
def test_the_graph_tells_full_from_cross(locations, granularity):
    """In both all nodes lead; in the latter they keep their locations."""
    nodes = tuple(
        KiloNode(
            name=name,
            location=location,
            pod_cidr="10.244.1.0/24",
            node_ip=NODE_IPS[name],
            is_leader=True,
            wireguard_ip="10.4.0.1",
        )
        for name, location in zip(("a1", "a2", "b1"), locations, strict=True)
    )
    graph = Sources(kilo=KiloGraph(wireguard_cidr="10.4.0.0/16", nodes=nodes))

    view = seen(node("a1"), graph, "a1")

    assert (granularity, locations[0]) == (view.granularity, view.location)
    local = {each.address for each in view.candidates if each.is_local}
    assert (NODE_IPS["a2"] in local) == (granularity == "cross")


def ipip_node(name):
    """A node where Kilo is the CNI: raw IPIP between node addresses."""
    leader = node_states.leader_of(name)
    tunl0 = Link(name="tunl0", index=6, kind="ipip", is_up=True, mtu_bytes=1480)
    base = kilo_flannel(name)
    links = [link for link in base.links if link.name in {"eth0", "kilo0"}]
    own = NODE_IPS[name]
    if name == leader:
        lines = [f"192.168.100.13 via 192.168.100.13 dev tunl0 proto static src {own} onlink # table 1107"]
        lines += [f"10.244.3.0/24 via 192.168.100.13 dev tunl0 proto static src {own} onlink"]
        lines += [f"10.2.0.11 via 10.4.0.1 dev kilo0 proto static src {own} onlink"]
    else:
        prefixes = ("10.2.0.11", "10.4.0.1", "10.4.0.2", "10.244.1.0/24", "10.244.4.0/24")
        lines = [f"{prefix} via {NODE_IPS[leader]} dev tunl0 proto static src {own} onlink" for prefix in prefixes]
        lines += [f"10.244.2.0/24 via 192.168.100.12 dev tunl0 proto static src {own} onlink"]
    return kernel([*links, tunl0], lines)


@pytest.mark.parametrize("name", ["a1", "a3"])
def test_without_a_cni_below_kilo_is_the_overlay(name):
    """Its gateways are node addresses, and the IPIP device is the overlay itself."""
    view = seen(ipip_node(name), node=name)

    assert ("tunl0", "", NODE_IPS[name]) == (view.overlay_device, view.ipip_device, view.overlay_ip)
    assert ("" if name == "a1" else NODE_IPS["a1"]) == view.leader
    assert "Kilo is the CNI itself" in texts(view)
    assert ["wireguard", "ipip"] == [layer.kind for layer in view.layers]


def test_without_encapsulation_the_gateway_is_on_the_lan():
    """Kilo's routes lead into the network card; they are counted there, and have no source."""
    state = kilo_flannel("a3")
    links = [link for link in state.links if link.name in {"eth0", "kilo0"}]
    leader = NODE_IPS["a1"]
    lines = [f"{prefix} via {leader} dev eth0 proto static onlink" for prefix in ("10.2.0.11", "10.244.4.0/24")]

    view = seen(kernel(links, ["default via 192.168.100.1 dev eth0", *lines], counted=("eth0",)), node="a3")

    assert (leader, NODE_IPS["a3"], NODE_IPS["a3"]) == (view.leader, view.node_ip, view.overlay_ip)
    assert ("eth0", "") == (view.overlay_device, view.ipip_device)
    assert [(leader, True)] == [(each.address, each.is_local) for each in view.candidates]


def test_somebodys_static_routes_into_a_tunnel_are_not_kilos():
    """An administrator's, twenty of them, on a device of his own."""
    state = kilo_flannel("a3")
    wg9 = Link(name="wg9", index=30, kind="wireguard", is_up=True, mtu_bytes=1420)
    lines = [f"172.20.{number}.0/24 via 10.99.0.1 dev wg9 proto static" for number in range(20)]
    routes = kernel([*state.links, wg9], lines)
    both = msgspec.structs.replace(
        state,
        links=routes.links,
        device_routes=(*routes.device_routes, *state.device_routes),
        gateways=(*routes.gateways, *state.gateways),
    )

    assert "10.244.1.0" == seen(both, node="a3").leader


def _located(*locations):
    """The graph of a1, a2 and b1 in these locations."""
    nodes = zip(("a1", "a2", "b1"), locations, strict=True)
    return Sources(
        kilo=KiloGraph(
            wireguard_cidr="10.4.0.0/16",
            nodes=tuple(
                KiloNode(name=name, location=location, pod_cidr=f"10.244.{number}.0/24")
                for number, (name, location) in enumerate(nodes, 1)
            ),
        )
    )


@pytest.mark.parametrize(
    ("locations", "name", "words"),
    [
        (("dc_1", "dc_1", "dc_2"), "dc-1", "this node is a2 in dc_1, which is written dc-1"),
        (("_Süd 2_", "_Süd 2_", "x"), "S-d-2", "which is written S-d-2"),
        (("東京", "東京", "大阪"), "", "which cannot be written as a name"),
        (("dc_1", "dc_1", "dc-1"), "", "which cannot be written as a name"),
    ],
)
def test_a_location_is_named_as_hellos_have_names(locations, name, words):
    """A label may have underscores: peers would refuse each hello of such a node, and nobody would watch anything.
    Where two would have one name, the location is named after its first leader.
    """
    view = seen(kilo_flannel("a2"), _located(*locations))
    assert name == view.location
    assert words in texts(view)
    assert "" == complaint(Hello(view=msgspec.structs.replace(view, why=(), candidates=()), home=view.location))


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_route_of_its_administrators_is_no_overlay(is_alone):
    """A leader has none of Kilo's by another node: a static one to a private network of the cloud looks like that."""
    state = kilo_flannel("a1")
    private = Gateway(dev="eth1", via="10.0.0.1", table=254, protocol=4, routes=1)
    routes = tuple(each for each in state.device_routes if not (is_alone and each.table == 1107))
    view = seen(msgspec.structs.replace(state, gateways=(*state.gateways, private), device_routes=routes), node="a1")
    assert ("", "") == (view.overlay_device, view.overlay_ip), "flannel's are"
    assert "Kilo's compatibility is flannel" in texts(view)
