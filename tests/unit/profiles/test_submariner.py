"""Submariner recognised by its device, its routes and its FDB, in each role and with each cable."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import (
    DeviceRoute,
    Forwarding,
    Link,
    Snapshot,
    Vxlan,
    WireGuardPeer,
    WireGuardState,
)
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import compose
from meshwatchd.profiles.compose import source_towards
from meshwatchd.profiles.submariner import ANYBODY, look

REMOTE = ("10.245.0.0/16", "10.97.0.0/16")
GATEWAY, LAN = "192.168.100.11", "192.168.100"


def links(last):
    """The card, the pods' bridge and the route agent's device of one node."""
    return (
        Link(
            name="eth0",
            index=2,
            kind="",
            is_up=True,
            mtu_bytes=1500,
            addresses=(f"{LAN}.{last}",),
            prefix_lengths=(24,),
        ),
        Link(
            name="cni0",
            index=3,
            kind="bridge",
            is_up=True,
            mtu_bytes=1500,
            addresses=(f"10.244.{last - 10}.1",),
            prefix_lengths=(24,),
        ),
        Link(
            name="vx-submariner",
            index=4,
            kind="vxlan",
            is_up=True,
            mtu_bytes=1450,
            addresses=(f"240.168.100.{last}",),
            prefix_lengths=(8,),
            lladdr="02:00:00:00:00:01",
            vxlan=Vxlan(vni=100, port=4800),
        ),
    )


def everybody(*last):
    """FDB entries for frames whose receiver is not known."""
    return tuple(Forwarding(dev="vx-submariner", lladdr=ANYBODY, dst=f"{LAN}.{each}") for each in last)


DEFAULT = (DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via=f"{LAN}.1"),)

WORKER = Snapshot(
    links=links(13),
    default_routes=DEFAULT,
    device_routes=tuple(
        DeviceRoute(dst=prefix, dev="vx-submariner", table=254, protocol=4, via="240.168.100.11") for prefix in REMOTE
    ),
    forwarding=everybody(11),
)
CABLE = Link(name="submariner", index=5, kind="tun", is_up=True, mtu_bytes=1420)
LEADER = Snapshot(
    links=(*links(11), CABLE),
    default_routes=DEFAULT,
    device_routes=tuple(
        DeviceRoute(dst=prefix, dev="submariner", table=150, protocol=4, src="10.244.1.1", scope=253)
        for prefix in REMOTE
    ),
    forwarding=everybody(11, 12, 13),
    wireguard=(
        WireGuardState(
            device="submariner",
            public_key="",
            listen_port=4500,
            at_ns=0,
            peers=(WireGuardPeer(public_key="k", endpoint="198.51.100.21:4500", allowed_ips=REMOTE),),
        ),
    ),
)


def seen(snapshot):
    """What Submariner's look says."""
    return look(snapshot, Sources(), MeshSettings(), NodeName("a"))


def whole(snapshot):
    """What all profiles say together."""
    return compose.look(snapshot, Sources(), MeshSettings(), NodeName("a"))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


def test_a_worker_follows_the_gateway_of_its_routes():
    """It goes by its address among its pods, which the other cluster routes; its own on the LAN nobody does there."""
    view = seen(WORKER)

    assert (("submariner",), False, "240.168.100.11", "location") == (
        view.profiles,
        view.is_leader,
        view.leader,
        view.granularity,
    )
    assert ("10.244.3.1", "240.168.100.13", "10.244.3.0/24") == (view.node_ip, view.overlay_ip, view.pod_cidr)
    assert ("vx-submariner", "", "") == (view.overlay_device, view.wireguard_device, view.wireguard_ip)
    assert "2 prefixes of other clusters lead to 240.168.100.11: that is the active gateway" in texts(view)
    assert "this mesh has no standby" in texts(view)


def test_the_gateway_leads_and_has_the_cable():
    """Its address is the source of table 150; the cable has none, and is probed between these addresses."""
    view = seen(LEADER)

    assert (True, "", "10.244.1.1", "10.244.1.1") == (view.is_leader, view.leader, view.node_ip, view.wireguard_ip)
    assert ("submariner", 1420) == (view.wireguard_device, view.wireguard_mtu_bytes)
    assert ["vx-submariner", "submariner"] == [layer.device for layer in view.layers]
    assert {"192.168.100.12": True, "192.168.100.13": True, "198.51.100.21": False} == {
        each.address: each.is_local for each in view.candidates if each.address != GATEWAY
    }


def test_pods_are_believed_though_the_node_goes_by_one_of_their_addresses():
    """The LAN is no network of pods; the bridge is, although it holds the node's address. Nobody asks for it by ARP."""
    view = whole(WORKER)

    assert ("10.244.3.0/24", True, ()) == (view.pod_cidr, view.is_pod_cidr_in_kernel, view.contradictions)
    assert () == view.node_macs
    assert "submariner" in texts(view)


def test_the_cable_is_no_wireguard_mesh_of_its_own():
    """Plain WireGuard leaves it alone."""
    assert ("submariner",) == whole(LEADER).profiles


def test_a_worker_that_has_lost_all_its_routes_is_still_one():
    """Its frames have one receiver, which tells the gateway's address in 240.0.0.0/8."""
    view = seen(msgspec.structs.replace(WORKER, device_routes=()))

    assert (False, "240.168.100.11") == (view.is_leader, view.leader)
    assert "no route leads to another cluster; frames go to 240.168.100.11" in texts(view)


def test_a_former_gateway_is_a_worker():
    """Routes by way of another node say so, whatever its former life has left behind."""
    state = msgspec.structs.replace(LEADER, device_routes=(*LEADER.device_routes, *WORKER.device_routes))
    view = seen(state)

    assert (False, "240.168.100.11", "") == (view.is_leader, view.leader, view.wireguard_device)


def test_an_ipsec_gateway_is_known_by_its_fdb():
    """With libreswan there is no device, and table 150 leads into the network card."""
    state = msgspec.structs.replace(LEADER, links=links(11), device_routes=(), wireguard=())
    view = seen(state)

    assert (True, "", "10.244.1.1") == (view.is_leader, view.wireguard_device, view.node_ip)
    assert "this node is the active gateway, its cable has no device" in texts(view)


def test_a_vxlan_cable_is_named_as_clear_text():
    """It is no WireGuard device, and what crosses it can be read."""
    cable = Link(
        name="vxlan-tunnel", index=5, kind="vxlan", is_up=True, mtu_bytes=1450, vxlan=Vxlan(vni=1000, port=4500)
    )
    routes = (
        DeviceRoute(
            dst=REMOTE[0], dev="vxlan-tunnel", table=100, protocol=0, via="241.2.0.11", src="10.244.1.1", metric=100
        ),
    )
    state = msgspec.structs.replace(LEADER, links=(*links(11), cable), device_routes=routes, wireguard=())
    view = seen(state)

    assert (True, "", "") == (view.is_leader, view.wireguard_device, view.wireguard_ip)
    assert "the cable is vxlan-tunnel: what crosses it between clusters is clear text" in texts(view)


def test_without_the_route_agents_device_it_is_not_there():
    """A WireGuard device of that name alone proves nothing."""
    state = msgspec.structs.replace(LEADER, links=(*links(11)[:2], CABLE))

    assert () == seen(state).profiles
    assert "there is no vx-submariner" in texts(seen(state))


def test_docker_is_no_cni():
    """Its bridge has addresses that no other cluster routes."""
    bridge = msgspec.structs.replace(links(13)[1], name="docker0", addresses=("172.17.0.1",))
    view = seen(msgspec.structs.replace(WORKER, links=(links(13)[0], bridge, links(13)[2])))

    assert "" == view.node_ip
    assert "no device of a CNI has an address" in texts(view)


def test_hellos_to_other_clusters_leave_from_the_address_that_they_know():
    """Else the NAT of packets from 240.0.0.0/8 gives them another port where both nodes call at once."""
    view = seen(LEADER)

    assert "10.244.1.1" == source_towards(view, "10.245.2.1")
    assert "" == source_towards(view, "192.168.100.12"), "a node of this cluster"
    assert "" == source_towards(view, "198.51.100.21"), "a gateway outside of the mesh"
    assert "" == source_towards(view, "fd00::1")
    assert "" == source_towards(None, "10.245.2.1")
