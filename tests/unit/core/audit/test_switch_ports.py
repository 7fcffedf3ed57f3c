"""The port of Open vSwitch, its tunnel and its routes: each loss has one name, the node, and its makers' words."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.core.audit.switch_ports import audit_switch, unwatched_mesh
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.open_vswitch import SWITCH_MESHES
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute
from tests.support.lab_mesh import declared_mesh
from tests.support.switch_node import GATEWAYS, NAMES, changed, good, hello, mesh, node, snapshot, view, without

each_kind = pytest.mark.parametrize("kind", list(SWITCH_MESHES))


def found(kind, seen, **changes):
    """The one finding; nothing of it would be put back by us."""
    (only,) = audit(view(kind, seen, **changes))
    assert ("n1", None) == (only.culprit, plan_repair(only))
    assert SWITCH_MESHES[kind].words.format("n1") in only.because
    return only


@each_kind
def test_a_node_that_is_well_has_no_finding(kind):
    """With a memory and without; nor has a mesh of another kind."""
    assert () == audit(view(kind, snapshot(kind)))
    assert () == audit(view(kind, snapshot(kind), was=good(kind)))
    other = replace(view(kind, without(snapshot(kind), "genev_sys_6081")), mesh=declared_mesh())
    assert [] == [*audit_switch(other)]


@each_kind
def test_a_tunnel_that_is_gone_is_named_with_the_module_that_makes_it(kind):
    """kube-ovn#647: without the module geneve everything runs, and no packet leaves."""
    lost = found(kind, without(snapshot(kind), "genev_sys_6081"), was=good(kind))

    assert (FaultCode.OVERLAY_DEVICE_MISSING, "genev_sys_6081") == (lost.code, lost.device)
    assert lost.subject == lost.device, "it explains what probes of all nodes lose"
    assert "2 of its peers have" in lost.because[0]
    assert "modprobe geneve" in lost.because[1]


def test_without_a_tunnel_anywhere_the_loss_is_named_at_the_port():
    """No node of the cluster has the module."""
    lost = found("kube-ovn", without(snapshot("kube-ovn"), "genev_sys_6081"), tunnel="")

    assert (FaultCode.OVERLAY_DEVICE_MISSING, "ovn0") == (lost.code, lost.device)
    assert "modprobe geneve" in lost.because[1]


def test_antrea_without_encapsulation_needs_no_tunnel():
    """Its routes lead past the port, from host to host; and a switch in a process has no device for it."""
    seen = without(snapshot("antrea"), "genev_sys_6081")
    direct = msgspec.structs.replace(seen, device_routes=seen.device_routes[:1])

    assert () == audit(view("antrea", direct))
    assert () == audit(view("antrea", changed(seen, "antrea-gw0", kind="tun")))


@each_kind
def test_what_is_down_or_without_address_is_named(kind):
    """`ip link set down` takes the routes away, so that nothing is said of these."""
    device, well = GATEWAYS[kind].name, snapshot(kind)
    down = changed(msgspec.structs.replace(well, device_routes=()), device, is_up=False)
    bare = changed(msgspec.structs.replace(well, device_routes=()), device, addresses=(), prefix_lengths=())

    assert FaultCode.OVERLAY_DEVICE_DOWN == found(kind, down, was=good(kind)).code
    assert FaultCode.OVERLAY_EMPTIED == found(kind, bare, was=good(kind)).code
    assert FaultCode.OVERLAY_DEVICE_MISSING == found(kind, without(well, device)).code
    dead = found(kind, changed(well, "genev_sys_6081", is_up=False))
    assert (FaultCode.OVERLAY_DEVICE_DOWN, "genev_sys_6081") == (dead.code, dead.device)


def test_a_port_that_was_never_there_is_nobodys_loss():
    """A daemon that starts before the CNI does."""
    seen = replace(view("antrea", without(snapshot("antrea"), "antrea-gw0")), seen_device="")

    assert [] == [*audit_switch(seen)]


def test_a_lost_route_of_antrea_is_that_of_one_nodes_pods():
    """Only against what was there: with other modes its routes lead elsewhere."""
    seen = snapshot("antrea")
    seen = msgspec.structs.replace(seen, device_routes=tuple(r for r in seen.device_routes if r.dst != "10.10.1.0/24"))
    lost = found("antrea", seen, was=good("antrea"))

    assert (FaultCode.POD_ROUTE_MISSING, "10.10.1.0/24", "n2") == (lost.code, lost.subject, lost.peer)
    assert "via 10.10.1.1 into antrea-gw0" in lost.because[0]
    assert () == audit(view("antrea", seen))


@pytest.mark.parametrize(("kind", "prefix"), [("ovn-kubernetes", "10.244.0.0/16"), ("kube-ovn", "100.64.0.0/16")])
def test_a_lost_route_of_ovn_is_that_of_all_nodes(kind, prefix):
    """One finding of the device as a whole."""
    seen = snapshot(kind)
    seen = msgspec.structs.replace(seen, device_routes=tuple(r for r in seen.device_routes if r.dst != prefix))
    lost = found(kind, seen, was=good(kind))

    assert (FaultCode.CLUSTER_ROUTE_MISSING, GATEWAYS[kind].name) == (lost.code, lost.subject)
    assert prefix in lost.because[0]


def test_a_subnet_of_kube_ovn_may_go():
    """Somebody has deleted it in the cluster; pods of nodes do not depend on it."""
    seen = snapshot("kube-ovn")
    gone = msgspec.structs.replace(seen, device_routes=tuple(r for r in seen.device_routes if r.dst != "10.16.0.0/16"))

    assert () == audit(view("kube-ovn", gone, was=good("kube-ovn")))


def test_a_port_that_was_made_anew_has_no_routes_to_miss():
    """Its agent is at work."""
    seen = changed(snapshot("antrea"), "antrea-gw0", index=60)
    seen = msgspec.structs.replace(seen, device_routes=seen.device_routes[:1])

    assert () == audit(view("antrea", seen, was=good("antrea")))


def test_a_port_that_was_made_smaller_is_named_unless_the_card_was():
    """50 bytes are the tunnel's."""
    small = changed(snapshot("antrea"), "antrea-gw0", mtu_bytes=1300)
    (shrunk,) = audit(view("antrea", small, was=good("antrea")))

    assert (FaultCode.MTU_MISCONFIGURED, "antrea-gw0") == (shrunk.code, shrunk.device)
    assert () == audit(view("antrea", changed(small, "eth0", mtu_bytes=1350), was=good("antrea")))


def test_a_route_is_not_missed_beside_a_port_that_is_gone():
    """The consequence is not told."""
    seen = without(snapshot("antrea"), "antrea-gw0")

    assert [FaultCode.OVERLAY_DEVICE_MISSING] == [
        each.code for each in without_consequences(audit(view("antrea", seen, was=good("antrea"))))
    ]


def test_with_wireguard_the_port_still_matters():
    """Pods leave by antrea-gw0, which antrea-wg0 with the same address hides from probes."""
    cable = msgspec.structs.replace(GATEWAYS["antrea"], name="antrea-wg0", kind="wireguard", index=8)
    native = msgspec.structs.replace(mesh("antrea"), overlay_device="antrea-wg0", wireguard_device="antrea-wg0")
    routes = tuple(DeviceRoute(dst=f"10.10.{n}.0/24", dev="antrea-wg0", table=254, protocol=3) for n in (1, 2))
    seen = changed(without(snapshot("antrea"), "genev_sys_6081"), "antrea-gw0", is_up=False)
    seen = msgspec.structs.replace(seen, links=(*seen.links, cable), device_routes=routes)
    lost = [*audit_switch(replace(view("antrea", seen), mesh=native))]

    assert [(FaultCode.OVERLAY_DEVICE_DOWN, "antrea-gw0")] == [(each.code, each.device) for each in lost]


def test_a_node_beyond_those_that_are_watched_looks_at_its_devices_all_the_same():
    """By its own hello and those that it hears: more than four nodes need [mesh] for probes alone."""
    hellos = {name: hello("antrea", name) for name in NAMES}
    seen = unwatched_mesh(MeshSettings(), hellos, "n1")
    lost = without(snapshot("antrea"), "genev_sys_6081")

    assert ("antrea", "antrea-gw0", "") == (seen.profile, seen.overlay_device, seen.wireguard_device)
    assert [node("antrea", name).pod_cidr for name in NAMES] == [each.pod_cidr for each in seen.node]
    assert [FaultCode.OVERLAY_DEVICE_MISSING] == [each.code for each in audit(replace(view("antrea", lost), mesh=seen))]


def test_what_is_declared_or_of_another_kind_stays_as_it_is():
    """Nothing is guessed there."""
    hellos = {name: hello("antrea", name) for name in NAMES}
    flannels = {"n1": msgspec.structs.replace(hellos["n1"], view=LocalView(profiles=("flannel",), node=NodeName("n1")))}

    for declared, heard in ((mesh("antrea"), hellos), (MeshSettings(), flannels), (MeshSettings(), {})):
        assert declared is unwatched_mesh(declared, heard, "n1")
