"""Several profiles on one node make one view."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.discovery import Candidate, Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Rejection, Sources
from meshwatchd.profiles.compose import LOOKS, MAX_CANDIDATES, look
from tests.support import node_states
from tests.support.host_mesh_node import carrier, node
from tests.support.node_states import NODE_IPS, flannel_over_wg0, kernel, kilo_cilium, kilo_flannel


def seen(snapshot, sources=None, node="a2", **options):
    """The composed view."""
    return look(snapshot, sources or Sources(), MeshSettings(), NodeName(node), **options)


def stack(view):
    """Its layers as kind, device and what is below."""
    return [(layer.kind, layer.device, layer.over) for layer in view.layers]


@pytest.mark.parametrize("name", NODE_IPS)
def test_kilo_over_flannel(name):
    """Every node of the lab, from its kernel alone."""
    view, number = seen(kilo_flannel(name), node=name), node_states.number_of(name)

    assert (("kilo", "flannel"), "location") == (view.profiles, view.granularity)
    assert (NODE_IPS[name], f"10.244.{number}.0/24", f"10.244.{number}.0") == (
        view.node_ip,
        view.pod_cidr,
        view.overlay_ip,
    )
    assert f"10.244.{1 if name[0] == 'a' else 4}.0" == view.leader
    assert (name in {"a1", "b1"}) == view.is_leader
    assert ("kilo0", "flannel.1", "") == (view.wireguard_device, view.overlay_device, view.ipip_device)
    assert [("wireguard", "kilo0", "eth0"), ("vxlan", "flannel.1", "eth0"), ("underlay", "eth0", "")] == stack(view)
    others = {other for key, other in NODE_IPS.items() if key != name}
    assert others <= {each.address for each in view.candidates}


def _graph_that_says(prefix, node="a2"):
    """Kilo's graph with another prefix for one node's pods."""
    graph = node_states.graph()
    nodes = (msgspec.structs.replace(each, pod_cidr=prefix) if each.name == node else each for each in graph.nodes)
    return Sources(kilo=msgspec.structs.replace(graph, nodes=tuple(nodes)))


@pytest.mark.parametrize("state", [kilo_flannel, kilo_cilium])
@pytest.mark.parametrize("name", NODE_IPS)
def test_the_kernel_is_believed_before_kilos_graph(state, name):
    """The contradiction names who said what."""
    view = seen(state(name), _graph_that_says("10.0.0.0/8", name), node=name)

    assert (f"10.244.{node_states.number_of(name)}.0/24", True) == (view.pod_cidr, view.is_pod_cidr_in_kernel)
    (said,) = view.contradictions
    assert said.startswith("kilo says that this node's pods are in 10.0.0.0/8, w")


def test_a_harmless_prefix_of_an_agent_is_not_believed_against_the_kernel_either():
    """Nobody is there, and the pods are elsewhere."""
    view = seen(kilo_flannel("a2"), _graph_that_says("10.99.0.0/24"))

    assert "10.244.2.0/24" == view.pod_cidr
    assert ("kilo says that this node's pods are in 10.99.0.0/24, and 10.244.2.0/24 is better founded",) == tuple(
        each.partition(";")[0] for each in view.contradictions
    )


@pytest.mark.parametrize(
    "wrong", ["192.168.0.0/16", "192.168.100.0/24", "10.0.0.0/8", "10.244.4.0/24", "10.244.0.0/20"]
)
def test_what_the_kernel_contradicts_is_not_believed_even_if_nothing_else_is_known(wrong):
    """Before the first pod there is no bridge; the node's own address and the mesh's routes are there."""
    snapshot = kilo_flannel("a2")
    links = tuple(link for link in snapshot.links if link.kind != "bridge")
    view = seen(msgspec.structs.replace(snapshot, links=links), _graph_that_says(wrong))

    assert ("", False, 1) == (view.pod_cidr, view.is_pod_cidr_in_kernel, len(view.contradictions))
    assert "it is not believed" in view.contradictions[0]


def test_what_nothing_contradicts_is_believed_of_an_agent():
    """It is founded on the agent alone, and that is told."""
    snapshot = kilo_flannel("a2")
    links = tuple(link for link in snapshot.links if link.kind != "bridge")
    view = seen(msgspec.structs.replace(snapshot, links=links), _graph_that_says("10.244.2.0/24"))

    assert ("10.244.2.0/24", False, ()) == (view.pod_cidr, view.is_pod_cidr_in_kernel, view.contradictions)


@pytest.mark.parametrize("name", NODE_IPS)
def test_kilo_over_cilium(name):
    """The same, with four layers."""
    view, number = seen(kilo_cilium(name), node=name), node_states.number_of(name)

    assert ("kilo", "cilium") == view.profiles
    assert (NODE_IPS[name], f"10.244.{number}.0/24", f"10.244.{number}.7{number}") == (
        view.node_ip,
        view.pod_cidr,
        view.overlay_ip,
    )
    assert ("10.244.1.71" if name[0] == "a" else "10.244.4.74") == view.leader
    assert ("cilium_vxlan", "tunl0") == (view.overlay_device, view.ipip_device)
    assert [
        ("wireguard", "kilo0", "eth0"),
        ("ipip", "tunl0", "cilium_host"),
        ("vxlan", "cilium_vxlan", "eth0"),
        ("underlay", "eth0", ""),
    ] == stack(view)
    remote = {NODE_IPS[other] for other in node_states.remote_to(name)}
    assert remote == {each.address for each in view.candidates if not each.is_local}


def test_flannel_over_wireguard():
    """The overlay comes first, the tunnel below it, the network card last."""
    view = seen(flannel_over_wg0())

    assert (("flannel", "wireguard"), "10.8.0.3", "full") == (view.profiles, view.node_ip, view.granularity)
    assert (True, "") == (view.is_leader, view.leader), "every node has a tunnel of its own: it leads itself"
    assert [("vxlan", "flannel.1", "wg0"), ("wireguard", "wg0", "eth0"), ("underlay", "eth0", "")] == stack(view)


def test_all_nodes_of_a_location_name_one_leader():
    """Without a name for the location, that is what groups them."""
    for state in (kilo_flannel, kilo_cilium):
        assert 1 == len({seen(state(name), node=name).leader for name in ("a1", "a2", "a3")})


def test_the_graph_adds_names_and_takes_nothing_away():
    """The same view, with location and public endpoint."""
    bare, named = seen(kilo_flannel("a1"), node="a1"), seen(kilo_flannel("a1"), Sources(kilo=node_states.graph()), "a1")

    assert ("onprem", "203.0.113.11") == (named.location, named.public_endpoint)
    for field in ("node_ip", "pod_cidr", "overlay_ip", "leader", "granularity", "layers", "candidates"):
        assert getattr(bare, field) == getattr(named, field), field


def test_every_profile_says_why():
    """Those that hold first, then those that do not, then what was rejected."""
    rejected = Rejection(source="kilo graph", reason="it ends too early")
    why = [f"{each.source}: {each.text}" for each in seen(kilo_flannel("a2"), Sources(rejected=(rejected,))).why]

    assert "Kilo mesh" in why[0]
    assert "kilo graph: rejected: it ends too early" == why[-1]
    assert [True, True] == [
        any(text in each for each in why[4:]) for text in ("Cilium does not run", "no WireGuard device beside")
    ]


def test_a_node_in_no_mesh_at_all():
    """Four reasons and nothing else."""
    view = seen(Snapshot())

    assert ((), "", (), ()) == (view.profiles, view.node_ip, view.layers, view.candidates)
    assert len(LOOKS) == len(view.why)


def test_an_address_that_no_profile_names_is_the_default_routes():
    """Cilium without its socket, and without Kilo."""
    state = kilo_cilium("a2")
    bare = msgspec.structs.replace(
        state,
        links=tuple(link for link in state.links if link.name not in {"kilo0", "tunl0"}),
        device_routes=tuple(route for route in state.device_routes if route.protocol == 2),
    )

    view = seen(bare)

    assert (("cilium",), "192.168.100.12") == (view.profiles, view.node_ip)
    assert "eth0's is taken" in " ".join(each.text for each in view.why)


def test_a_public_address_is_a_public_endpoint():
    """A cloud that gives its machines real addresses; IPv6 is that of the same device."""
    eth0 = Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("203.0.113.9",))
    eth0 = msgspec.structs.replace(
        eth0, prefix_lengths=(24,), addresses_v6=("2001:db8::9",), lladdr="02:4e:00:00:00:09"
    )
    wg0 = Link(name="wg0", index=3, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("10.8.0.3",))

    view = seen(kernel([eth0, wg0], ["default via 203.0.113.1 dev eth0"]))

    assert ("203.0.113.9", "203.0.113.9", "2001:db8::9") == (view.node_ip, view.public_endpoint, view.node_ip6)
    assert ("02:4e:00:00:00:09",) == view.node_macs, "by which others know whether the LAN delivers to it"


def fixed(**fields):
    """A look that says this."""
    return lambda snapshot, sources, declared, node: LocalView(node=node, **fields)


def test_the_outermost_is_believed():
    """Of two that tell the same thing; what it does not tell comes from the others."""
    looks = {
        "outer": fixed(profiles=("outer",), node_ip="10.0.0.1"),
        "inner": fixed(profiles=("inner",), node_ip="10.0.0.2", pod_cidr="10.1.0.0/24"),
        "absent": fixed(profiles=(), location="nowhere", why=(Finding(source="x", text="no"),)),
    }

    view = seen(Snapshot(), looks=looks)

    assert (("outer", "inner"), "10.0.0.1", "10.1.0.0/24", "") == (
        view.profiles,
        view.node_ip,
        view.pod_cidr,
        view.location,
    )


def test_candidates_are_bounded_and_none_is_this_node():
    """Those nearby first: they know the rest."""
    far = tuple(Candidate(address=f"10.{number >> 8}.{number & 255}.1") for number in range(MAX_CANDIDATES + 9))
    told = (
        *far,
        Candidate(address="192.168.100.12"),
        Candidate(address=""),
        Candidate(address="10.99.0.1", is_local=True),
    )
    looks = {"outer": fixed(profiles=("outer",), candidates=(*told, Candidate(address="10.99.0.1")))}

    chosen = seen(kilo_flannel("a2"), looks=looks).candidates

    assert MAX_CANDIDATES == len(chosen) == len({each.address for each in chosen})
    assert Candidate(address="10.99.0.1", is_local=True) == chosen[0]
    assert "192.168.100.12" not in {each.address for each in chosen}


@pytest.mark.parametrize(
    ("name", "kind", "layer"),
    [("nebula1", "tun", "nebula"), ("tailscale0", "tun", "tailscale"), ("wt0", "wireguard", "netbird")],
)
def test_a_mesh_over_a_host_mesh_shows_it_as_a_layer(name, kind, layer):
    """With its own size, between the tunnel and the network card; the node goes by its address there."""
    view = seen(node(carrier(name, kind)))

    assert ("flannel-wg", "flannel-wg", ("flannel",)) == (view.wireguard_device, view.overlay_device, view.profiles)
    assert [("wireguard", "flannel-wg", name), (layer, name, "eth0"), ("underlay", "eth0", "")] == stack(view)
    assert [1220, 1300, 1500] == [each.mtu_bytes for each in view.layers]
    assert ("10.99.0.1", ()) == (view.node_ip, view.node_macs)
    assert any("below the mesh and no part of it" in each.text for each in view.why if each.source == f"link {name}")


@pytest.mark.parametrize(
    ("name", "kind", "layer"), [("wt0", "wireguard", "netbird"), ("tailscale0", "tun", "tailscale")]
)
def test_flannel_bound_to_a_host_mesh_is_over_it_and_that_is_no_mesh(name, kind, layer):
    """`--flannel-iface=wt0`: peers are beyond, each node leads itself, and the device carries the mesh and no more."""
    state = flannel_over_wg0()
    links = (
        msgspec.structs.replace(each, name=name, kind=kind) if each.name == "wg0" else each for each in state.links
    )
    view = seen(msgspec.structs.replace(state, links=tuple(links)))

    assert (("flannel",), "", "flannel.1") == (view.profiles, view.wireguard_device, view.overlay_device)
    assert [("vxlan", "flannel.1", name), (layer, name, "eth0"), ("underlay", "eth0", "")] == stack(view)
    assert {False} == {each.is_local for each in view.candidates}
    assert ("10.8.0.3", "10.8.0.3", "full", True) == (
        *(view.node_ip, view.wireguard_ip),
        *(view.granularity, view.is_leader),
    )
