"""Who is told of whom, and what of it is believed."""

from __future__ import annotations

from meshwatchd.core.membership.peer_exchange import (
    FAR,
    KEPT_NS,
    MAX_KEPT,
    MAX_TOLD,
    NEAR,
    SHORT_FAR,
    SHORT_NEAR,
    Introductions,
)
from meshwatchd.model.ids import NodeName
from tests.support import hellos

B2 = NodeName("b2")


def _knowing(mesh):
    introductions = Introductions()
    introductions.arrange(mesh)
    return introductions


def test_a_leader_tells_a_member_of_its_neighbours_and_of_others():
    """Everybody but the receiver itself, whose own location comes first."""
    told = _knowing(hellos.whole_mesh()).tell(B2)

    assert ("10.2.0.11", "10.2.0.13", "192.168.100.11", "192.168.100.12", "192.168.100.13") == told


def test_a_large_location_is_told_in_parts():
    """No hello grows with the mesh, and after some of them everybody has been named."""
    mesh = {
        NodeName(f"n{number}"): hellos.hello("b1", seen={"node_ip": f"10.9.{number // 100}.{number % 100 + 1}"})
        for number in range(500)
    }
    introductions = _knowing(mesh)
    for is_short, count in ((False, NEAR), (True, SHORT_NEAR)):
        parts = [
            introductions.tell(NodeName("n7"), is_short=is_short, is_own=True) for _ in range(2 * len(mesh) // count)
        ]
        assert {count} == {len(part) for part in parts}
        everybody = {hello.view.node_ip for name, hello in mesh.items() if name != "n7"}
        assert everybody == {address for part in parts for address in part}
    assert MAX_TOLD == NEAR + FAR


def test_a_short_hello_tells_little_and_least_across_locations():
    """Between neighbours as many as fit; all others hear the rest from their own."""
    home = {NodeName(f"n{number}"): hellos.hello("b1", seen={"node_ip": f"10.9.0.{number}"}) for number in range(1, 99)}
    introductions = _knowing({**hellos.whole_mesh(), **home})
    across, beside = (introductions.tell(B2, is_short=True, is_own=is_own) for is_own in (False, True))

    assert (1, SHORT_NEAR + SHORT_FAR) == (len(across), len(beside))
    assert across[0].startswith("192.168.100.")


def test_who_is_not_known_and_who_has_no_address_are_told_what_there_is():
    """A node without an address of its own is of a location all the same, and is told to nobody."""
    mesh = {**hellos.whole_mesh(), NodeName("b9"): hellos.hello("b1", seen={"node": "b9", "node_ip": ""})}
    introductions = _knowing(mesh)

    assert () == introductions.tell(NodeName("x"))
    assert ("10.2.0.11", "10.2.0.12", "10.2.0.13") == introductions.tell(NodeName("b9"))[:3]
    assert "" not in introductions.tell(B2)


def test_what_a_hello_costs_does_not_depend_on_how_many_are_known():
    """No more addresses are looked at than are told."""

    class Counted(list[str]):
        """Counts what is read of it one by one, and is read in no other way."""

        reads = 0

        def __getitem__(self, place):
            self.reads += 1
            return super().__getitem__(place)

        def __iter__(self):
            raise AssertionError("all are looked at")

    mesh = {
        NodeName(f"n{number}"): hellos.hello("b1", home=f"l{number % 2}", seen={"node_ip": f"10.9.0.{number}"})
        for number in range(200)
    }
    introductions = _knowing(mesh)
    introductions._addresses = counted = Counted(introductions._addresses)

    assert MAX_TOLD == len(introductions.tell(NodeName("n7"))) == counted.reads


def test_what_is_no_address_of_a_node_is_passed_over():
    """The sender is proven, but may be mad: the rest of what it tells still counts."""
    introductions = Introductions()
    nonsense = ("", "b2", "127.0.0.1", "0.0.0.0", "224.0.0.5", "169.254.1.1", "fe80::1", "10.2.0.12/24", "10.2.0.12")

    assert introductions.hear(nonsense, 1)
    assert ("10.2.0.12",) == introductions.addresses()
    assert not introductions.hear(("10.2.0.12",), 2)


def test_an_address_that_nobody_repeats_is_forgotten():
    """A node that is gone must not be greeted for ever."""
    introductions = Introductions()
    introductions.hear(("10.2.0.12", "10.2.0.13"), 0)
    introductions.hear(("10.2.0.13",), KEPT_NS)
    introductions.hear((), KEPT_NS + 1)

    assert ("10.2.0.13",) == introductions.addresses()


def test_nobody_fills_the_memory():
    """One hello counts for so many, and all together for so many."""
    introductions = Introductions()
    introductions.hear(tuple(f"10.1.0.{number}" for number in range(1, 100)), 0)
    assert MAX_TOLD == len(introductions.addresses())

    for number in range(2 * MAX_KEPT):
        introductions.hear((f"10.3.{number // 250}.{number % 250 + 1}",), 0)
    assert MAX_KEPT == len(introductions.addresses())
