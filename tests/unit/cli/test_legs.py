"""Whose address it is, and what sessions say of the way there."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.legs import active_path, legs_to, locate, since
from meshwatchd.model.ids import FlowClass
from tests.support.example_nodes import NODES
from tests.support.example_status import MOVED


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("a3", ("a3", "node", "192.168.100.13")),
        ("192.168.100.13", ("a3", "underlay", "192.168.100.13")),
        ("10.244.3.7", ("a3", "pod", "10.244.3.7")),
        ("10.244.4.0", ("b1", "overlay", "10.244.4.0")),
        ("10.4.0.2", ("a1", "wireguard", "10.4.0.2")),
    ],
)
def test_a_name_or_address_belongs_to_a_node(target, expected):
    """By name, by one of its addresses, by its pods."""
    place = locate(target, NODES)
    assert place is not None
    assert expected == (place.node.name, place.kind, place.address)


@pytest.mark.parametrize("target", ["8.8.8.8", "nobody", "", "fe80::1%eth0", "::"])
def test_what_is_nobodys_has_no_place(target):
    """Whatever it looks like."""
    assert locate(target, NODES) is None


def test_legs_are_layers_paths_and_flows_from_the_bottom_up():
    """The path in use only, where that is asked for."""
    assert [
        ("underlay", "", "fresh", "up"),
        ("overlay", "", "fresh", "down"),
        ("overlay", "", "pinned", "up"),
    ] == [(leg.layer, leg.over, leg.flow, leg.state) for leg in legs_to(MOVED, "b1")]
    (leg,) = legs_to(MOVED, "a3", (1,))
    assert ("relay", "b2-a1", 1000, 1, 1_840_000) == (leg.layer, leg.over, leg.sent, leg.lost, leg.rtt_ns)
    assert 4 == len(legs_to(MOVED, "a3"))


def test_sessions_of_one_leg_are_added_up():
    """The worst state counts, the median of the round trips, and the latest answer."""
    worse = msgspec.structs.replace(MOVED.sessions[0], state="down", rtt_ns=0, sent=10, lost=10, last_heard_ns=1)
    status = msgspec.structs.replace(MOVED, sessions=(MOVED.sessions[0], worse))
    (leg,) = legs_to(status, "b1")
    assert ("down", 1010, 10, 1_840_000) == (leg.state, leg.sent, leg.lost, leg.rtt_ns)
    assert MOVED.sessions[0].last_heard_ns == leg.heard_ns


def test_figures_since_an_earlier_look_are_differences():
    """A session that was laid out anew meanwhile counts from its start."""
    (before,) = legs_to(MOVED, "a3", (1,))
    after = msgspec.structs.replace(before, sent=1020, lost=4)
    assert [(20, 3)] == [(leg.sent, leg.lost) for leg in since([after], [before])]
    anew = msgspec.structs.replace(before, sent=5, lost=0)
    assert [(5, 0)] == [(leg.sent, leg.lost) for leg in since([anew], [before])]
    other = msgspec.structs.replace(before, flow=FlowClass.PINNED)
    assert [other] == list(since([other], [before]))


def test_the_active_path_is_the_one_in_use():
    """None to a location that nothing is known of."""
    pair, path = active_path(MOVED, "onprem")
    assert pair is not None
    assert path is not None
    assert ("onprem", 1) == (pair.remote_location, path.rank)
    assert (None, None) == active_path(MOVED, "elsewhere")
