"""Whatever nodes say of their prefixes, no route of ours takes an address of the own location from it."""

from __future__ import annotations

from ipaddress import IPv4Network

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.mesh.topology_builder import Recogniser
from meshwatchd.core.routes.planner import DELIVERY_SLOT, Planner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MINUTE, SECOND, DaemonSettings, Settings
from meshwatchd.model.snapshot import Link
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import PROFILES
from tests.support import hellos
from tests.support.lab_mesh import snapshot_of

BOUNDED = settings(derandomize=True, max_examples=150, deadline=None)
NAMES = ("a1", "a2", "a3", "b1", "b2", "b3")
LANS = {"a": "192.168.100.0/24", "b": "10.2.0.0/24"}

PREFIXES = st.one_of(
    st.sampled_from(["10.0.0.0/8", "0.0.0.0/1", "10.244.0.0/16", "192.168.0.0/16", "172.16.0.0/12", "10.4.0.0/16"]),
    st.builds(
        lambda base, host, length: str(IPv4Network(f"{base}.{host}/{length}", strict=False)),
        st.sampled_from(["10.2.0", "10.244.1", "10.244.6", "192.168.100", "10.4.0"]),
        st.integers(0, 255),
        st.integers(20, 32),
    ),
)
ADDRESSES = st.sampled_from(["10.2.0.99", "10.244.6.7", "192.168.100.50", "10.244.1.200", "10.2.0.13", "10.9.9.9"])


@st.composite
def tellings(draw):
    """What six nodes say; some of them claim anything."""
    told = {}
    for name in NAMES:
        lie = {
            "pod_cidr": draw(st.one_of(st.none(), PREFIXES)),
            "node_ip": draw(st.one_of(st.none(), st.none(), ADDRESSES)),
            "overlay_ip": draw(st.one_of(st.none(), st.none(), ADDRESSES)),
            "is_pod_cidr_in_kernel": draw(st.booleans()),
        }
        is_liar = draw(st.booleans())
        told[name] = hellos.hello(name, seen={k: v for k, v in lie.items() if v is not None} if is_liar else None)
    return told


def _mesh(node, told):
    roster = Roster(Settings(daemon=DaemonSettings(node=node)), former=told[node])
    roster.tell(told[node], 0)
    for name in NAMES:
        roster.hear(told[name], SECOND)
    for now in range(SECOND, MINUTE, SECOND):
        roster.review(now)
    return roster.mesh


def _planner(node, mesh):
    """As the engine makes it, on a node whose card is on its location's LAN."""
    lan = IPv4Network(LANS[node[0]])
    card = Link(name="eth1", index=9, kind="", is_up=True, mtu_bytes=1500)
    card = msgspec.structs.replace(card, addresses=(str(lan[9]),), prefix_lengths=(lan.prefixlen,))
    kernel = snapshot_of(node)
    kernel = msgspec.structs.replace(kernel, links=(*kernel.links, card), mesh=mesh)
    recogniser = Recogniser(Settings(daemon=DaemonSettings(node=node)), NodeName(node), PROFILES)
    topology = recogniser.recognise(kernel)
    assert isinstance(topology, Topology), topology
    return Planner(topology, recogniser.settings)


@BOUNDED
@given(st.sampled_from(NAMES), tellings())
def test_no_route_covers_an_address_of_the_own_location(node, told):
    """Neither those in tables nor those that WireGuard has of its own; delivery to neighbours alone leads there."""
    mesh = _mesh(node, told)
    if mesh is None:
        return
    planner = _planner(node, mesh)
    local = planner.local.location
    own = [
        IPv4Network(text)
        for each in mesh.node
        if each.location == local
        for text in (each.pod_cidr, each.node_ip, each.overlay_ip, each.wireguard_ip)
        if text
    ]
    lan = IPv4Network(LANS[node[0]])
    provision = planner.provision()
    delivery = planner.settings.kernel.table_base + DELIVERY_SLOT
    led = [route.dst for route in provision.routes if route.table != delivery]
    led += [prefix for link in provision.links for prefix in link.allowed_ips]

    for network in map(IPv4Network, led):
        assert not [each for each in own if network.overlaps(each)]
        # An address alone may be a node's that shares our LAN and is a location by itself.
        assert network.prefixlen == 32 or not network.overlaps(lan)


@BOUNDED
@given(st.sampled_from(NAMES), tellings())
def test_no_two_nodes_of_a_mesh_have_one_address(node, told):
    """Whoever is in it: nobody's pods are where another's pods or another node is."""
    mesh = _mesh(node, told)
    for one in mesh.node if mesh is not None else ():
        for other in mesh.node:
            if one is not other:
                pods = IPv4Network(one.pod_cidr)
                held = (other.pod_cidr, other.node_ip, other.overlay_ip)
                assert not [text for text in held if pods.overlaps(IPv4Network(text))]
