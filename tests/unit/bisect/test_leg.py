"""Who carries packets to whom, by the lab's mesh."""

from __future__ import annotations

import pytest

from meshwatchd.bisect.leg import find_leg
from meshwatchd.model.errors import ProfileError
from meshwatchd.model.ids import Layer
from tests.support import switch_node
from tests.support.bisection import PORT, leg


def test_a_neighbour_is_asked_over_the_overlay():
    """Overlay addresses, the port of segments, node addresses without overlay."""
    way = leg("b3", "b1")

    assert ("b1", Layer.OVERLAY, "10.244.6.0", "10.244.4.0", PORT) == (
        way.via,
        way.layer,
        way.source,
        way.destination,
        way.port,
    )
    assert ("10.2.0.13", "10.2.0.11", "10.244.4.0", "flannel.1", True) == (
        way.underlay_source,
        way.underlay_destination,
        way.via_address,
        way.device,
        way.is_wrapped,
    )


def test_where_there_is_no_tunnel_another_location_is_a_neighbour():
    """Antrea: from port to port, and the hosts below."""
    way = find_leg(switch_node.mesh("antrea"), "n1", "n2", port=PORT)

    assert ("n2", Layer.OVERLAY, "10.10.0.1", "10.10.1.1") == (way.via, way.layer, way.source, way.destination)
    assert ("10.79.1.12", "antrea-gw0") == (way.underlay_destination, way.device)


def test_another_location_is_asked_through_the_own_leader():
    """Node addresses, the port that follows real traffic, and the leader's overlay."""
    way = leg("b3", "a3")

    assert ("b1", Layer.EFFECTIVE, "10.2.0.13", "192.168.100.13", PORT + 1) == (
        way.via,
        way.layer,
        way.source,
        way.destination,
        way.port,
    )
    assert ("10.2.0.11", "flannel.1") == (way.underlay_destination, way.device)


@pytest.mark.parametrize(
    ("peer", "layer", "addresses", "port"),
    [
        ("a1", Layer.WIREGUARD, ("10.4.0.1", "10.4.0.2"), PORT),
        ("a3", Layer.EFFECTIVE, ("10.2.0.11", "192.168.100.13"), PORT + 1),
    ],
)
def test_a_leader_goes_through_the_tunnel(peer, layer, addresses, port):
    """To the other leader by tunnel addresses, to whoever is behind it by node addresses."""
    way = leg("b1", peer)

    assert ("a1", layer, addresses, port) == (way.via, way.layer, (way.source, way.destination), way.port)
    assert ("kilo0", False, "") == (way.device, way.is_wrapped, way.underlay_destination)


@pytest.mark.parametrize("peer", ["b3", "x9"])
def test_a_node_that_cannot_be_asked_is_refused_with_the_names_there_are(peer):
    """Itself, and somebody who is not of the mesh."""
    with pytest.raises(ProfileError, match=peer):
        leg("b3", peer)
