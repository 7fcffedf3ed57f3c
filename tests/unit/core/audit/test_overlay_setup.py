"""A device with another UDP port, VNI or MTU than its peers' is named at the node that differs."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.overlay_setup import audit_setup
from meshwatchd.core.audit.view import View
from meshwatchd.model.discovery import DeviceLayer
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import LocationName
from meshwatchd.model.snapshot import Link, Vxlan
from tests.support.flannel_node import DEVICE, LOCAL, entries, good, hello, look, mac, mesh, snapshot

USUAL = {"overlay_device": DEVICE, "vtep_port": 8472, "vtep_vni": 1}


def _hellos(count, changed=(), **more):
    """Those of all peers; some of them with another view."""
    usual = {f"n{each}": hello(each, mac(each), **USUAL) for each in range(1, count)}
    return usual | {f"n{each}": hello(each, mac(each), **(USUAL | more)) for each in changed}


def _told(count, hellos, *, port=8472, vni=1):
    seen = snapshot(entries(count), vxlan=Vxlan(vni=vni, port=port))
    return [(each.code, each.culprit, *each.because) for each in look(seen, count, hellos=hellos)]


def test_a_device_as_its_peers_have_it_is_fine():
    """And peers of another version advertise nothing, which is no difference."""
    assert [] == _told(6, _hellos(6))
    assert [] == _told(6, _hellos(6, changed=range(1, 6), vtep_port=0, vtep_vni=0), port=8473)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"port": 8473}, "flannel.1 sends to UDP port 8473, its 5 peers use 8472"),
        ({"vni": 2}, "flannel.1 has the VNI 2, its 5 peers have 1"),
    ],
)
def test_the_odd_one_names_itself(fields, sentence):
    """Both values stand in the evidence, since neither shows in any entry."""
    assert [(FaultCode.OVERLAY_MISMATCH, LOCAL, sentence)] == _told(6, _hellos(6), **fields)


def test_who_is_with_the_majority_says_nothing():
    """The odd node advertises its finding in its hello, and everybody has one name for it."""
    assert [] == _told(6, _hellos(6, changed=(3,), vtep_port=8473))


def test_two_that_differ_are_told_apart_from_the_majority():
    """Of six nodes two have a third and a fourth port."""
    (told,) = _told(6, _hellos(6, changed=(3,), vtep_port=8474), port=8473)

    assert (LOCAL, "flannel.1 sends to UDP port 8473, 4 of its 5 peers use 8472") == told[1:]


def test_two_nodes_alone_both_differ():
    """Nobody can tell which is right, so nobody is named, and both values are stated."""
    (told,) = _told(2, _hellos(2), port=8473)
    (other,) = _told(2, _hellos(2, changed=(1,), vtep_port=8473))

    differs = "which differs from its peers"
    assert ("", f"flannel.1 sends to UDP port 8473, {differs} (n1: 8472)") == told[1:]
    assert ("", f"flannel.1 sends to UDP port 8472, {differs} (n1: 8473)") == other[1:]


def test_both_numbers_are_one_finding():
    """One device that was made by hand."""
    (told,) = _told(6, _hellos(6), port=4789, vni=9)

    assert len(told[2:]) == 2


def test_a_device_of_another_maker_does_not_vote():
    """A mesh on its way from flannel to Cilium runs both, on ports of their own."""
    moved = _hellos(6, changed=range(1, 6), overlay_device="cilium_vxlan", vtep_port=8473)

    assert [] == _told(6, moved)


def test_flannels_devices_have_their_vni_in_their_name():
    """The very mismatch gives the device another name."""
    others = _hellos(6, changed=range(1, 6), overlay_device="flannel.2", vtep_vni=2)

    assert [(FaultCode.OVERLAY_MISMATCH, LOCAL)] == [each[:2] for each in _told(6, others)]


def test_under_kilo_the_own_location_is_sent_to_and_the_whole_mesh_votes():
    """Other locations are behind the tunnel: their port matters to nobody here, and shows which one is usual."""
    base = mesh(4, profile="kilo")
    away = [msgspec.structs.replace(each, location=LocationName("away")) for each in base.node[2:]]
    kilo = msgspec.structs.replace(base, node=(*base.node[:2], *away))

    def told(hellos, port):
        link = Link(name=DEVICE, index=6, kind="vxlan", is_up=True, mtu_bytes=1450, vxlan=Vxlan(vni=1, port=port))
        return [each.culprit for each in audit_setup(link, kilo, LOCAL, hellos)]

    assert [] == told(_hellos(4, changed=(2, 3), vtep_port=8473), 8472)
    assert [LOCAL] == told(_hellos(4), 8473)
    assert [] == told(_hellos(4, changed=(1,), vtep_port=8473), 8472)


def test_a_device_that_is_not_flannels_is_compared_too():
    """Its entries are nobody's to judge; a port is a port."""
    cilium = Link(
        name="cilium_vxlan",
        index=6,
        kind="vxlan",
        is_up=True,
        mtu_bytes=1450,
        vxlan=Vxlan(vni=0, port=8479, is_external=True),
    )
    seen = msgspec.structs.replace(snapshot(entries(3)), links=(cilium,))
    other = msgspec.structs.replace(mesh(3), overlay_device="cilium_vxlan")
    peers = {f"n{n}": hello(n, mac(n), overlay_device="cilium_vxlan", vtep_port=8472) for n in (1, 2)}
    (found,) = audit(View(snapshot=seen, mesh=other, node=LOCAL, hellos=peers, good=None))

    assert (FaultCode.OVERLAY_MISMATCH, LOCAL) == (found.code, found.culprit)


@pytest.mark.parametrize(
    ("peers", "lower", "is_told"),
    [((1450, 1450), 1500, True), ((1450, 1400), 1500, False), ((1450, 1450), 1420, False), ((1370, 1370), 1500, False)],
)
def test_a_smaller_mtu_than_the_peers_have_is_told_without_a_good_state(peers, lower, is_told):
    """A device that has always been too small, where the one below it would carry more."""
    layered = {
        f"n{number}": hello(
            number,
            mac(number),
            **USUAL,
            layers=(DeviceLayer(kind="vxlan", device=DEVICE, mtu_bytes=size, over="wg0"),),
        )
        for number, size in enumerate(peers, 1)
    }
    seen = snapshot(entries(3), vxlan=Vxlan(vni=1, port=8472, lower=5))
    tunnel, overlay = seen.links
    links = (
        msgspec.structs.replace(tunnel, mtu_bytes=lower),
        msgspec.structs.replace(overlay, mtu_bytes=1370),
    )
    found = look(msgspec.structs.replace(seen, links=links), 3, hellos=layered, known=None)

    expected = [("mtu-misconfigured", "flannel.1 has MTU 1370, 2 of its peers have 1450")] if is_told else []
    assert expected == [(each.code, each.because[0]) for each in found]


def test_a_vnis_loss_of_entries_is_a_finding_beside_it():
    """A flannel that is restarted with another port makes its device anew, and fills it itself."""
    emptied = snapshot(entries(1), vxlan=Vxlan(vni=1, port=8473), lladdr="02:00:00:00:00:01")
    found = look(emptied, 3, hellos=_hellos(3), known=good(3))

    assert FaultCode.OVERLAY_MISMATCH in [each.code for each in found]
