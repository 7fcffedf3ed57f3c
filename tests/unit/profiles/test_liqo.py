"""Liqo is recognised by its devices, beside whatever mesh the nodes have, and tells nothing but itself."""

from __future__ import annotations

import msgspec

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import compose, liqo
from tests.support import switch_node
from tests.support.liqo_node import (
    BY_GATEWAY,
    DEVICE,
    GATEWAY,
    LINK,
    NODE,
    POD,
    REMOTE,
    RULES,
    TO_GATEWAY,
    snapshot,
    with_link,
)


def seen(shown):
    """What Liqo's profile says of a2."""
    return liqo.look(shown, Sources(), MeshSettings(), NodeName("a2"))


def texts(view):
    """Its reasons."""
    return " ".join(finding.text for finding in view.why)


def test_a_node_tells_device_far_end_address_and_what_is_behind():
    """All that a person needs to find the same with `ip`."""
    view = seen(snapshot())

    assert ("liqo",) == view.profiles
    told = texts(view)
    assert f"{DEVICE} is Liqo's: number 3 to the gateway pod at {POD}, UDP 6091, MTU 1340; this node is {NODE}" in told
    assert f"{REMOTE} of another cluster are behind {GATEWAY}, as this cluster sees them" in told
    assert "32764, 32765" in told


def test_it_tells_nothing_of_the_mesh():
    """Neither addresses nor devices nor neighbours: those are the CNI's."""
    view = seen(snapshot())

    assert LocalView(profiles=("liqo",), node=NodeName("a2"), why=view.why) == view


def test_what_is_missing_is_told():
    """A device without an address, or without routes."""
    assert "it has no address of this node" in texts(seen(with_link(snapshot(), addresses=(), prefix_lengths=())))
    assert f"no route leads to another cluster by {DEVICE}" in texts(seen(snapshot(device_routes=())))
    assert () == seen(snapshot(links=(), device_routes=())).profiles


def test_beside_a_mesh_it_is_the_last_and_changes_nothing_of_it():
    """The mesh has the name of its own kind."""
    alone = switch_node.snapshot("antrea")
    both = msgspec.structs.replace(
        alone,
        links=(*alone.links, LINK),
        device_routes=(*alone.device_routes, TO_GATEWAY, BY_GATEWAY),
        destination_rules=RULES,
    )
    views = [compose.look(each, Sources(), MeshSettings(), NodeName("n1")) for each in (alone, both)]

    assert ("antrea", "liqo") == views[1].profiles
    assert views[0] == msgspec.structs.replace(views[1], profiles=views[0].profiles, why=views[0].why)
