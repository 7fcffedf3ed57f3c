"""What Cilium's agent says, its device and the engine's status, put together."""

from __future__ import annotations

import msgspec

from meshwatchd.core.audit.view import View
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import MeshSettings
from meshwatchd.runtime.cluster_care import PEERS_NS, ClusterCare
from tests.support.cluster_node import mesh, snapshot, sources, wireguard
from tests.support.example_status import HEALTHY


def _view(declared=None, seen=None):
    return View(snapshot=seen or snapshot(), mesh=declared or mesh(), node="e1", hellos={}, good=None)


def _codes(care, view, now):
    return [each.code for each in care.findings(view, now)]


def _robbed():
    whole = wireguard()
    return msgspec.structs.replace(whole, peers=whole.peers[:-1])


def test_peers_are_looked_at_now_and_then_and_what_was_found_stands_in_between():
    """Thousands of nodes take a while."""
    care = ClusterCare(sources)
    care.observe((_robbed(),))

    assert [FaultCode.WIREGUARD_PEER_MISSING] == _codes(care, _view(), 0)
    care.observe((wireguard(),))
    assert [FaultCode.WIREGUARD_PEER_MISSING] == _codes(care, _view(), PEERS_NS - 1)
    assert [] == _codes(care, _view(), PEERS_NS)


def test_a_cut_control_plane_is_named_by_the_engines_status():
    """As soon as that says that nodes answer."""
    care = ClusterCare(lambda: sources(lost=("west",)))
    assert [] == _codes(care, _view(), 0)

    pair = msgspec.structs.replace(HEALTHY.pairs[0], remote_location="west")
    care.note(msgspec.structs.replace(HEALTHY, pairs=(pair,)))
    assert [FaultCode.CLUSTERMESH_CONTROL_CUT] == _codes(care, _view(), 1)


def test_nothing_is_said_of_other_meshes_or_of_a_device_that_is_down():
    """Kilo over Cilium has no clusters; and a device that is down has no peers to miss."""
    care = ClusterCare(sources)
    care.observe((_robbed(),))
    state = snapshot()
    links = (msgspec.structs.replace(link, is_up=link.name != "cilium_wg0") for link in state.links)

    assert [] == _codes(care, _view(MeshSettings()), 0)
    down = _view(seen=msgspec.structs.replace(state, links=tuple(links)))
    assert [FaultCode.WIREGUARD_DEVICE_MISSING] == _codes(care, down, 0)
