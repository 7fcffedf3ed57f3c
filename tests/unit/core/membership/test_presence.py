"""What hellos cost between two locations, and how long a node of the other one may be silent."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.membership.hello_schedule import KNOWN_NS
from meshwatchd.core.membership.presence import (
    MAX_PRESENT,
    PAIRS,
    PRESENT_NS,
    SILENT_NS,
    Crowds,
    Presence,
    find_present,
)
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MINUTE, SECOND
from tests.support import hellos


def _crowds(*sizes):
    return Crowds(
        msgspec.structs.replace(hellos.hello("a1"), home=f"l{place}")
        for place, size in enumerate(sizes)
        for _ in range(size)
    )


def test_up_to_ten_and_ten_nodes_greet_each_other_every_half_minute():
    """And a node that is silent is dead as soon as before."""
    for sizes in ((3, 3), (10, 10), (100, 1), (4, 25)):
        cadence = _crowds(*sizes).cadence("l0", "l1")

        assert (KNOWN_NS, False) == cadence
        assert SILENT_NS == cadence.patience_ns


@pytest.mark.parametrize("sizes", [(10, 11), (30, 30), (100, 100), (1000, 1000), (1000, 3), (3, 1000), (20,) * 50])
def test_hellos_between_two_locations_are_bounded(sizes):
    """However many nodes; and one that is gone is so within an hour, long before it would be forgotten."""
    cadence = _crowds(*sizes).cadence("l0", "l1")
    greeted = 1 if cadence.is_in_turn else sizes[1]

    assert sizes[0] * greeted * KNOWN_NS / cadence.interval_ns <= 1.01 * PAIRS
    assert SILENT_NS <= cadence.patience_ns <= 60 * MINUTE


@pytest.mark.parametrize("sizes", [(100, 100), (1000, 1000), (50, 1000), (200,) * 5])
def test_neighbours_can_name_all_that_greet_a_location(sizes):
    """What one hears in the half minute between two hellos of its own fits into one of them."""
    crowds = _crowds(*sizes)
    received = 0.0
    for place in range(1, len(sizes)):
        cadence = crowds.cadence(f"l{place}", "l0")
        assert cadence.is_in_turn
        received += sizes[place] * KNOWN_NS / cadence.interval_ns / sizes[0]

    assert received <= 1.1 * MAX_PRESENT


def test_neighbours_and_those_of_no_location_are_greeted_as_ever():
    """A node that boots does not know where it is."""
    crowds = _crowds(100, 100)

    assert (KNOWN_NS, False) == crowds.cadence("l0", "l0") == crowds.cadence("", "l1") == crowds.cadence("l0", "")


def test_those_that_were_heard_last_are_named():
    """As many as a hello has room for, as long as the word is fresh."""
    presence = Presence()
    for number in range(2 * MAX_PRESENT):
        presence.hear(f"10.2.0.{number}", number * SECOND)
    presence.hear("10.2.0.20", 32 * SECOND)
    told = presence.tell(34 * SECOND)

    assert MAX_PRESENT == len(told)
    assert [("10.2.0.20", 2), ("10.2.0.31", 3), ("10.2.0.30", 4)] == list(told.items())[:3]
    assert {} == presence.tell(33 * SECOND + PRESENT_NS)
    assert not presence._heard_ns


def test_a_neighbour_is_believed_about_known_nodes_of_other_locations_alone():
    """No word from the other side, none about neighbours, none about strangers, and no nonsense."""
    mesh = {str(name): each for name, each in hellos.whole_mesh().items()}
    own, known = mesh["a1"], {NodeName(name): each for name, each in mesh.items() if name != "a1"}
    address = mesh["b2"].view.node_ip
    told = {address: 7, mesh["a2"].view.node_ip: 1, "10.9.9.9": 1}

    assert {"b2": 7 * SECOND} == find_present(told, mesh["a2"], own, known)
    assert {} == find_present(told, mesh["b1"], own, known)
    assert {} == find_present(told, mesh["a2"], None, known)
    for age in (-1, PRESENT_NS // SECOND + 2, 2**60):
        assert {} == find_present({address: age}, mesh["a2"], own, known)
