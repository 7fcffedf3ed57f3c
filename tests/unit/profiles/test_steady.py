"""A role is believed when it lasts."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot, Vxlan, WireGuardPeer
from meshwatchd.model.sources import Sources
from meshwatchd.profiles.compose import look
from meshwatchd.profiles.steady import HOLD_NS, CarrierMemory, Steady
from tests.support.host_mesh_node import ETH0, WAY_OUT, carrier, node

MS = 1_000_000


def view(leader, *, is_leader=False, node_ip="10.2.0.12"):
    """A view with a role."""
    return LocalView(
        profiles=("kilo",),
        node=NodeName("b2"),
        leader=leader,
        is_leader=is_leader,
        node_ip=node_ip,
        wireguard_device="kilo0",
    )


MEMBER, LEADER = view("10.244.4.0"), view("10.244.5.0", is_leader=True)


def roles(steady, *seen):
    """Who is believed to lead after each view at its time."""
    return [steady.observe(each, at_ms * MS).leader for at_ms, each in seen]


def test_the_transient_of_a_restarted_agent_is_no_change():
    """A fifth of a second as the only node, then everything as before."""
    steady = Steady()

    told = roles(steady, (0, MEMBER), (10, LEADER), (150, LEADER), (210, MEMBER), (5000, MEMBER))
    assert ["10.244.4.0"] * 5 == told
    assert steady.deadline() is None


def test_a_change_of_leaders_is_followed_in_time():
    """1.2 s after it began, when asked at the deadline."""
    steady = Steady()

    assert ["10.244.4.0", "10.244.4.0"] == roles(steady, (0, MEMBER), (1000, LEADER))
    assert 1000 * MS + HOLD_NS == steady.deadline()
    assert ["10.244.4.0", "10.244.5.0"] == roles(steady, (2199, LEADER), (2200, LEADER))
    assert steady.deadline() is None


def test_each_new_role_starts_anew():
    """A mesh that is being rebuilt has no leader until it settles."""
    steady, third = Steady(), view("10.244.6.0")

    told = roles(steady, (0, MEMBER), (1000, LEADER), (2500, third), (3500, third), (4500, third))
    assert ["10.244.4.0"] * 4 + ["10.244.6.0"] == told


def test_everything_else_is_taken_at_once():
    """An address that changes is no role."""
    steady = Steady()
    steady.observe(MEMBER, 0)

    seen = steady.observe(view("10.244.5.0", is_leader=True, node_ip="10.2.0.99"), 10 * MS)

    assert ("10.2.0.99", "10.244.4.0", False) == (seen.node_ip, seen.leader, seen.is_leader)
    (reason,) = seen.why
    assert "this node leads, which counts once it has lasted for 1.2 s; until then 10.244.4.0 leads" == reason.text


def test_the_first_role_is_believed():
    """There is no other."""
    assert LEADER == Steady().observe(LEADER, 0)


def test_a_leader_that_is_gone_is_told_as_nobody():
    """Kilo has taken its routes back."""
    steady = Steady()
    steady.observe(MEMBER, 0)

    assert "nobody leads, which counts" in steady.observe(view(""), 1).why[0].text
    assert "" == steady.observe(view(""), HOLD_NS + 1).leader


def seen_on(snapshot, memory):
    """The view of c1, by way of the memory."""
    return memory.observe(look(snapshot, Sources(), MeshSettings(), NodeName("c1")), snapshot)


@pytest.mark.parametrize("lost", [node(), node(msgspec.structs.replace(carrier(), is_up=False))])
def test_a_node_stays_where_its_host_mesh_was(lost):
    """Routes to its peers lead to the network card then, whose address nobody knows it by."""
    memory = CarrierMemory()
    before = seen_on(node(carrier()), memory)
    held = seen_on(lost, memory)

    assert "10.99.0.1" == before.node_ip == held.node_ip
    assert before.layers == held.layers
    assert "nebula1" in held.why[-1].source
    assert held == seen_on(lost, memory), "for as long as it lasts"
    assert before == seen_on(node(carrier()), memory)


def test_a_node_that_starts_without_its_host_mesh_is_where_it_is():
    """Nothing is remembered that was not seen."""
    assert "172.31.16.11" == seen_on(node(), CarrierMemory()).node_ip


def test_a_mesh_that_has_left_its_host_mesh_is_followed():
    """Its peers are elsewhere, and the device of the host mesh is gone."""
    memory = CarrierMemory()
    seen_on(node(carrier()), memory)
    peer = WireGuardPeer(public_key="K", endpoint="203.0.113.42:51820")
    state = msgspec.structs.replace(node().wireguard[0], peers=(peer,))

    moved = seen_on(msgspec.structs.replace(node(), wireguard=(state,), lookups=()), memory)
    assert ("172.31.16.11", ["flannel-wg", "eth0"]) == (moved.node_ip, [each.device for each in moved.layers])


def test_flannel_that_is_bound_elsewhere_is_followed():
    """While its own device is gone with the host mesh's it stays; made anew over the network card it has left."""
    lower = carrier(mtu_bytes=1280)
    vxlan = Vxlan(vni=1, port=8472, local="10.99.0.1", lower=lower.index)
    flannel = Link(name="flannel.1", index=9, kind="vxlan", is_up=True, mtu_bytes=1230, vxlan=vxlan)
    alone = Snapshot(links=(ETH0,), default_routes=(WAY_OUT,))
    memory = CarrierMemory()
    before = seen_on(msgspec.structs.replace(alone, links=(ETH0, lower, flannel)), memory)

    assert ("10.99.0.1", before.layers) == (seen_on(alone, memory).node_ip, seen_on(alone, memory).layers)
    vxlan = msgspec.structs.replace(vxlan, local="172.31.16.11", lower=ETH0.index)
    moved = msgspec.structs.replace(alone, links=(ETH0, msgspec.structs.replace(flannel, vxlan=vxlan)))
    assert "172.31.16.11" == seen_on(moved, memory).node_ip
