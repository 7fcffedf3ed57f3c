"""Who is greeted how often, and what neighbours' word of others counts for."""

from __future__ import annotations

import msgspec

from meshwatchd.core.membership.cadence import KNOWN_NS, MAX_PRESENT, PRESENT_NS
from meshwatchd.core.membership.presence import Crowds, Presence, find_present
from meshwatchd.model.settings import SECOND
from tests.support import hellos


def _crowds(*sizes):
    return Crowds(
        msgspec.structs.replace(hellos.hello("a1"), home=f"l{place}")
        for place, size in enumerate(sizes)
        for _ in range(size)
    )


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
    own, known = mesh["a1"], {each.view.node_ip: each for name, each in mesh.items() if name != "a1"}
    address = mesh["b2"].view.node_ip
    told = {address: 7, mesh["a2"].view.node_ip: 1, "10.9.9.9": 1}

    assert {"b2": 7 * SECOND} == find_present(told, mesh["a2"], own, known.get)
    assert {} == find_present(told, mesh["b1"], own, known.get)
    assert {} == find_present(told, mesh["a2"], None, known.get)
    for age in (-1, PRESENT_NS // SECOND + 2, 2**60):
        assert {} == find_present({address: age}, mesh["a2"], own, known.get)


def test_no_more_is_looked_up_than_a_hello_names():
    """However many nodes are known; whoever names more than fit has its first ones believed."""
    mesh = {str(name): each for name, each in hellos.whole_mesh().items()}
    asked: list[str] = []

    def find(address):
        asked.append(address)

    told = {f"10.2.1.{number}": 1 for number in range(200)}
    assert {} == find_present(told, mesh["a2"], mesh["a1"], find)
    assert list(told)[:MAX_PRESENT] == asked
