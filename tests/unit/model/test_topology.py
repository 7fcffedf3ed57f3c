"""Every node derives the same numbers from the same names."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from meshwatchd.model.errors import ProfileError
from meshwatchd.model.ids import LocationName
from meshwatchd.model.topology import (
    COUNTED_LOCATIONS,
    MAX_LOCATIONS,
    Location,
    Node,
    build_mesh,
    pair_number,
    relays_print,
)
from tests.support.lab_mesh import NAMES, declared_mesh, led_by, topology_of


def _location(name, leader, *standbys):
    return Location(name=name, leader=leader, standbys=standbys)


def _node(name, location):
    return Node(name=name, location=location, node_ip="192.0.2.1", pod_cidr="10.9.0.0/24", overlay_ip="10.9.0.0")


def _mesh(*sizes):
    """A mesh of locations l0, l1, ... with that many relays each."""
    locations: list[Location] = []
    nodes: list[Node] = []
    for number, size in enumerate(sizes):
        names = [f"n{number}{index}" for index in range(size)]
        locations.append(_location(f"l{number}", *names))
        nodes.extend(_node(name, f"l{number}") for name in names)
    return build_mesh(locations, nodes)


def test_paths_of_the_lab_are_numbered_as_agreed():
    """The contract with the lab: cloud sorts before onprem, and the link between the two leaders comes last."""
    mesh = build_mesh(declared_mesh().location, declared_mesh().node)

    ends = [("b1", "a1"), ("b2", "a1"), ("b1", "a2"), ("b2", "a2"), ("b1", "a1")]
    assert ends == [path.relays for path in mesh.paths]
    assert [0, 1, 2, 3, 4] == [path.number for path in mesh.paths] == [path.rank for path in mesh.paths]
    assert [0, 1, 2, 3, 4] == [path.preference for path in mesh.paths]
    assert [None, 0, 1, 2, 3] == [path.link_index for path in mesh.paths]
    assert [True, False, False, False, False] == [path.is_primary for path in mesh.paths]
    assert [False, False, False, False, True] == [path.is_spare for path in mesh.paths]


def _links(mesh):
    """Rank, number and standby link of each path but the mesh's own, by its two relays."""
    return {path.relays: (path.rank, path.number, path.link_index) for path in mesh.paths if not path.is_primary}


@pytest.mark.parametrize("leader", ["a2", "b2"])
def test_a_standby_link_stays_the_same_when_another_relay_leads(leader):
    """Rank, number and device follow from the two relays: traffic on them goes on while Kilo moves the leader."""
    before, after = (build_mesh(mesh.location, mesh.node) for mesh in (declared_mesh(), led_by(leader)))

    assert 4 == len(_links(before))
    assert _links(before) == _links(after)
    assert relays_print(before.paths) == relays_print(after.paths)


def test_the_relays_print_tells_which_relays_there_are():
    """A pair that has other relays, or only one on each side, means another thing by its ranks."""
    lab = build_mesh(declared_mesh().location, declared_mesh().node)
    prints = [relays_print(paths) for paths in (lab.paths, _mesh(2, 2).paths, _mesh(2, 1).paths, _mesh(1, 1).paths)]

    assert 4 == len(set(prints))
    assert 0 not in prints


def test_a_leader_change_changes_which_links_are_preferred():
    """b2 leads: the link that keeps both leaders' locations closest comes first, and its own with a1 is the last."""
    mesh = build_mesh(led_by("b2").location, led_by("b2").node)

    assert [("b2", "a1"), ("b1", "a1"), ("b2", "a2"), ("b1", "a2"), ("b2", "a1")] == [p.relays for p in mesh.paths]
    assert [0, 4, 3, 2, 1] == [path.rank for path in mesh.paths]
    assert [1] == [path.rank for path in mesh.paths if path.is_spare]


def _places_of(*relays):
    """A link's rank by the relay of the first of two locations; the second has one relay."""
    locations = [_location("x", *relays), _location("y", "q")]
    nodes = [*(_node(f"n{index}", "x") for index in range(4)), _node("q", "y")]
    return {path.relays[0]: path.rank for path in build_mesh(locations, nodes).paths if not path.is_primary}


@pytest.mark.parametrize("leader", ["n0", "n1", "n2"])
def test_relays_keep_their_places_when_a_third_node_becomes_one(leader):
    """A place is the index among all nodes of the location; the last rank belongs to the first place, and moves up."""
    others = sorted({"n0", "n1", "n2"} - {leader})

    assert {"n1": 1, "n0": 2} == _places_of("n0", "n1")
    assert {"n1": 1, "n2": 2, "n0": 3} == _places_of(leader, *others)


def test_a_third_relay_of_the_second_location_leaves_the_other_links_their_ranks():
    """All but the last rank, of the link whose two relays are the first: it goes on as the last."""
    locations = [_location("x", "m", "n"), _location("y", "p", "q")]
    more = [locations[0], _location("y", "p", "q", "r")]
    nodes = [_node(name, place) for place, names in (("x", "mn"), ("y", "pqr")) for name in names]
    two, three = (_links(build_mesh(each, nodes)) for each in (locations, more))

    assert {("n", "p"): 1, ("m", "q"): 2, ("n", "q"): 3, ("m", "p"): 4} == {ends: two[ends][0] for ends in two}
    assert {("n", "p"): 1, ("m", "q"): 2, ("n", "q"): 3, ("m", "p"): 6} == {ends: three[ends][0] for ends in two}


def test_two_relays_whose_indexes_meet_take_the_next_place():
    """n1 and n3 are both odd: each still has a rank of its own, whoever of them leads."""
    assert _places_of("n1", "n3") == _places_of("n3", "n1")
    assert {1, 2} == set(_places_of("n1", "n3").values())


def test_where_each_location_has_one_relay_there_is_the_mesh_s_own_path_alone():
    """A standby link would share both of its relays, and nobody stands by."""
    assert [True] == [path.is_primary for path in _mesh(1, 1).paths]


def test_numbers_do_not_depend_on_the_order_of_declaration():
    """Two files with the same content in another order mean the same mesh."""
    declared = declared_mesh()

    assert build_mesh(declared.location, declared.node) == build_mesh(declared.location[::-1], declared.node[::-1])


def test_each_pair_has_its_own_band_of_numbers():
    """Pair p has paths 8p to 8p+7 and links 7p to 7p+6."""
    mesh = _mesh(2, 1, 2)
    found = {(path.locations, path.rank): (path.pair, path.number, path.link_index) for path in mesh.paths}

    assert (0, 1, 0) == found[("l0", "l1"), 1]
    assert (1, 8, None) == found[("l0", "l2"), 0]
    assert (1, 11, 9) == found[("l0", "l2"), 3]
    assert (1, 12, 10) == found[("l0", "l2"), 4]
    assert (2, 17, 14) == found[("l1", "l2"), 1]


def test_paths_with_few_standbys_are_preferred_and_then_the_first_locations_change():
    """As much of the mesh's own path as can be kept, and the link that keeps both of its relays last of all."""
    paths = _mesh(3, 2).paths
    own = ("n00", "n10")

    assert [own, ("n01", "n10"), ("n00", "n11"), ("n02", "n10"), ("n01", "n11"), ("n02", "n11"), own] == [
        path.relays for path in paths
    ]
    assert list(range(7)) == [path.preference for path in paths] == sorted(path.rank for path in paths)
    assert [True] + [False] * 5 + [True] == [path.is_between_leaders for path in paths]


def test_a_path_knows_its_two_ends():
    """Relays stand in the order of the locations' names."""
    path = topology_of("a1").path(1)

    onprem, cloud = LocationName("onprem"), LocationName("cloud")

    assert ("a1", "b2") == (path.relay_in(onprem), path.relay_in(cloud))
    assert (cloud, onprem) == (path.other_location(onprem), path.other_location(cloud))


def test_a_topology_knows_its_own_place():
    """What a node asks of it all the time."""
    topology = topology_of("a2")

    assert "192.168.100.12" == topology.local.node_ip
    assert [False, False, True, True, False] == [topology.is_relay(path) for path in topology.local_paths()]
    assert ["a1", "a2", "a3"] == [node.name for node in topology.mesh.members("onprem")]
    assert ["a1", "a2", "a3"] == [name for name in (*NAMES, "c1") if topology.mesh.is_in(name, "onprem")]
    assert ("a1", "a2") == topology.mesh.location("onprem").relays()
    assert ("10.244.2.0/24", "192.168.100.12/32") == topology.local.prefixes()


@pytest.mark.parametrize(
    ("locations", "nodes", "problem"),
    [
        ([_location("x", "n")], [_node("n", "x"), _node("n", "x")], "share one name"),
        ([_location("x", "n"), _location("x", "n")], [_node("n", "x")], "share one name"),
        ([_location("x", "n")], [_node("n", "x"), _node("m", "y")], "m is in location y, which is not declared"),
        ([_location("x", "ghost")], [_node("n", "x")], "location x names ghost"),
        ([_location("x", "n", "m"), _location("y", "m")], [_node("n", "x"), _node("m", "y")], "location x names m"),
    ],
    ids=["node twice", "location twice", "unknown location", "unknown leader", "standby of elsewhere"],
)
def test_a_mesh_that_contradicts_itself_is_refused(locations, nodes, problem):
    """Nothing is numbered that nobody could use."""
    with pytest.raises(ProfileError, match=problem):
        build_mesh(locations, nodes)


def test_more_links_than_numbers_are_refused_with_a_remedy():
    """Eight combinations do not fit into the ranks beside the mesh's own path; seven do."""
    assert list(range(8)) == sorted(path.rank for path in _mesh(7, 1).paths)
    with pytest.raises(ProfileError, match="have 8 standby links, at most 7 are supported; declare fewer standbys"):
        _mesh(4, 2)


def _relay(name, location, *, key=True, endpoint=None):
    return msgspec.structs.replace(
        _node(name, location), standby_public_key=name if key else None, standby_endpoint=endpoint
    )


def test_a_path_between_two_private_relays_does_not_exist_and_leaves_its_number_free():
    """Nobody can begin; the other paths keep their numbers when one of the two becomes reachable."""
    locations = [_location("x", "m", "n"), _location("y", "p", "q")]
    nodes = [
        _relay("m", "x", endpoint="203.0.113.1"),
        _relay("n", "x"),
        _relay("p", "y"),
        _relay("q", "y", endpoint="203.0.113.2"),
    ]

    assert [0, 2, 3, 4] == [path.rank for path in build_mesh(locations, nodes).paths]
    assert [0, 1, 2, 3, 4] == [path.rank for path in build_mesh(locations, nodes, with_impossible=True).paths]


def test_a_relay_without_a_key_has_no_standby_links():
    """A leader that only observes makes none, however willing its backup is."""
    locations = [_location("x", "m"), _location("y", "p", "q")]
    nodes = [_relay("m", "x", key=False), _relay("p", "y", endpoint="h"), _relay("q", "y", endpoint="i")]

    assert [0] == [path.rank for path in build_mesh(locations, nodes).paths]


@pytest.mark.parametrize("locations", [2, 3, 4, 5, 6, 7, 49, 50, MAX_LOCATIONS])
def test_no_two_pairs_of_one_location_have_one_number(locations):
    """And there are few numbers: ports and devices are counted by them."""
    pairs = {pair: pair_number(*pair, locations) for pair in itertools.combinations(range(locations), 2)}
    for place in range(locations):
        own = [number for pair, number in pairs.items() if place in pair]
        assert len(own) == len(set(own))
    assert set(pairs.values()) == set(range(max(pairs.values()) + 1))
    assert max(pairs.values()) < max(6, locations)


def test_the_pairs_of_few_locations_are_counted():
    """As ever: a mesh of up to four locations keeps its numbers, ports, tables and devices."""
    for locations in range(2, COUNTED_LOCATIONS + 1):
        pairs = itertools.combinations(range(locations), 2)
        assert [pair_number(*pair, locations) for pair in pairs] == list(range(locations * (locations - 1) // 2))
