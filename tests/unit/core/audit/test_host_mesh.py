"""What has become of the host mesh below: gone, down, smaller, silent; and what is none of its faults."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.expected_entries import good_state
from meshwatchd.core.audit.host_mesh import SILENT_NS, audit_host_mesh, audit_silence, counted
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.host import HostState
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.model.snapshot import Link, Vxlan
from meshwatchd.model.topology import Node
from tests.support.host_mesh_node import MESH, TUNNEL, carrier, node

GOOD = good_state(node(carrier()), MESH, "boot")
DOWN = msgspec.structs.replace(carrier(), is_up=False)


def view(snapshot, good=GOOD):
    """What the audit of c1 rests on."""
    return View(snapshot=snapshot, mesh=MESH, node="c1", hellos={}, good=good)


def named(snapshot, good=GOOD):
    """What is found, as code, device and culprit."""
    return [(each.code, each.device, each.culprit) for each in audit_host_mesh(view(snapshot, good))]


def test_while_it_is_as_it_was_nothing_is_said():
    """Larger is no fault; neither is what was never known to be below."""
    assert [] == named(node(carrier())) == named(node(carrier(mtu_bytes=1500))) == named(node(), None)
    assert [] == named(node(), good_state(node(), MESH, "boot"))


@pytest.mark.parametrize(
    ("snapshot", "code"), [(node(), FaultCode.UNDERLAY_DEVICE_MISSING), (node(DOWN), FaultCode.UNDERLAY_DEVICE_DOWN)]
)
def test_a_device_that_is_gone_or_down_is_named_with_its_owners_words(snapshot, code):
    """Routes to the peers lead to the network card by then."""
    assert [(code, "nebula1", "c1")] == named(snapshot)
    (found,) = audit_host_mesh(view(snapshot))
    assert "nebula1 is Nebula's: ask it (systemctl status 'nebula*'" in found.because[-1]


def test_a_mesh_that_has_left_the_host_mesh_misses_nothing():
    """Flannel was told another interface, and Nebula removed."""
    moved = msgspec.structs.replace(node().wireguard[0].peers[0], endpoint="203.0.113.41:51820")
    state = msgspec.structs.replace(node().wireguard[0], peers=(moved,))

    assert [] == named(msgspec.structs.replace(node(), wireguard=(state,)))


def test_a_device_that_somebody_made_smaller_is_named_where_the_tunnel_does_not_fit():
    """1 220 and 60 are 1 280; a device that its program has made anew has the size of its configuration."""
    assert [(FaultCode.MTU_MISCONFIGURED, "nebula1", "c1")] == named(node(carrier(mtu_bytes=1279)))
    assert [] == named(node(carrier(mtu_bytes=1280)))
    assert [] == named(node(msgspec.structs.replace(carrier(mtu_bytes=1000), index=9)))
    (found,) = audit_host_mesh(view(node(carrier(mtu_bytes=1000))))
    assert "configure MTU 1300 on nebula1: ip link set dev nebula1 mtu 1300" in found.because[-1]


def test_what_is_over_it_is_a_consequence():
    """WireGuard's silence at another device, and the VXLAN device that was bound to it."""
    (gone,) = audit_host_mesh(view(node()))
    silent = AuditFinding(code=FaultCode.WIREGUARD_NO_HANDSHAKE, device="flannel-wg", subject="K", culprit="c2")
    bound = AuditFinding(code=FaultCode.OVERLAY_DEVICE_MISSING, device="flannel.1", subject="flannel.1", culprit="c1")
    other = AuditFinding(code=FaultCode.FORWARDING_OFF, device="", subject="ip_forward", culprit="c1")

    assert (gone, other) == without_consequences((silent, bound, gone, other))


def looks(*, came=0, went=0, heard=9, seconds=10):
    """Counters of nebula1 and eth0, every other second."""
    return [
        HostState(
            at_ns=at_s * SECOND,
            packets={"nebula1": (50 + came * at_s, 60 + went * at_s), "eth0": (70 + heard * at_s, 80)},
        )
        for at_s in range(0, seconds + 1, 2)
    ]


def silence(past, *, snapshot=None, silent_ns=SILENT_NS, peers=3):
    """What is said of it."""
    seen = view(snapshot or node(carrier()))
    return [each.because for each in audit_silence(seen, past, silent_ns=silent_ns, peers=peers)]


@pytest.mark.parametrize(
    ("went", "peers", "said"),
    [
        (3, 3, "18 packets have gone into it"),
        (0, 3, "nobody takes what is sent: its program hangs"),
        (0, 1, "nobody takes what is sent: its program hangs"),
    ],
)
def test_silence_is_told_with_what_becomes_of_packets(went, peers, said):
    """A filter of its own, or a program that was stopped, whose device stays."""
    (because,) = silence(looks(went=went), peers=peers)

    assert f"nothing has come out of nebula1 for 6 s, and {said}" == because[0]
    assert "eth0 below it has received 54 packets meanwhile" == because[1]
    assert "Nebula" in because[-1]


@pytest.mark.parametrize(
    ("past", "changes"),
    [
        (looks(came=1, went=3), {}),
        (looks(went=3, heard=0), {}),
        (looks(went=3), {"peers": 1}),
        (looks(went=3), {"silent_ns": SILENT_NS - 1}),
        (looks(went=3, seconds=4), {}),
        ([], {}),
        (looks(went=3), {"snapshot": node(DOWN)}),
        (looks(went=3), {"snapshot": node()}),
    ],
)
def test_silence_that_has_another_reason_is_not_told(past, changes):
    """Somebody is heard; the network card hears nobody; the far end may be at fault; too soon; down or gone."""
    assert [] == silence(past, **changes)


def test_only_devices_of_a_host_mesh_are_counted():
    """At rest elsewhere /proc/net/dev is not read."""
    assert ("nebula1", "eth0", "flannel-wg") == counted(view(node(carrier())))
    assert () == counted(view(node()))


def test_the_good_state_knows_what_was_below():
    """Of the tunnel first, else of the overlay."""
    assert ("nebula1", 5, 1300) == (GOOD.carrier, GOOD.carrier_index, GOOD.carrier_mtu_bytes)
    assert "" == good_state(node(carrier(), way="eth0", tunnel=TUNNEL), MESH, "boot").carrier


@pytest.mark.parametrize(("sent", "is_told"), [(5, True), (0, False)])
def test_where_vxlan_is_over_it_the_packets_of_that_tell(sent, is_told):
    """Flannel bound to nebula1: there are no peers of WireGuard that could be silent."""
    flannel = Link(name="flannel.1", index=7, kind="vxlan", is_up=True, mtu_bytes=1250)
    bound = msgspec.structs.replace(flannel, vxlan=Vxlan(vni=1, port=8472, lower=5))
    names = [Node(name=NodeName(n), location=LocationName(n), node_ip="", pod_cidr="", overlay_ip="") for n in "abc"]
    mesh = MeshSettings(profile="flannel", wireguard_device="", overlay_device="flannel.1", node=tuple(names))
    snapshot = msgspec.structs.replace(node(carrier()), links=(*node(carrier()).links, bound), wireguard=())
    past = [
        msgspec.structs.replace(each, packets={**each.packets, "flannel.1": (0, sent * number)})
        for number, each in enumerate(looks(went=3))
    ]
    seen = View(snapshot=snapshot, mesh=mesh, node="a", hellos={}, good=None)

    assert ("nebula1", "eth0", "flannel.1") == counted(seen)
    assert is_told is bool([*audit_silence(seen, past)])
