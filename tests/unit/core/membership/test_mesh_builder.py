"""One mesh from what all nodes say; what the operator has written stays as it is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from meshwatchd.core.membership.location import place
from meshwatchd.core.membership.mesh_builder import Said, assemble, is_whole
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import DaemonSettings, DiscoverySettings, MeshSettings, Settings
from meshwatchd.model.topology import Location, Node, build_mesh
from tests.support import hellos
from tests.support.lab_mesh import declared_mesh

LEADERS: Any = {"site-a1": "a1", "site-b1": "b1"}


def _assemble(told=None, *, node="a3", alive=None, leaders=None, mesh=None, watched=(), **discovery):
    told = hellos.whole_mesh() if told is None else told
    said = Said(
        hellos=told,
        places=place(told),
        leaders=LEADERS if leaders is None else leaders,
        alive=frozenset(told if alive is None else alive),
        watched=watched,
    )
    settings = Settings(
        daemon=DaemonSettings(node=node), mesh=mesh or MeshSettings(), discovery=DiscoverySettings(**discovery)
    )
    return assemble(said, told[node].view if node in told else hellos.view(node), settings)


def _without(name):
    return {key: value for key, value in hellos.whole_mesh().items() if key != name}


def _changed(name, seen=None, **more):
    return hellos.whole_mesh() | {name: hellos.hello(name, seen=seen, **more)}


def _node(mesh, name):
    return next(node for node in mesh.node if node.name == name)


def test_six_nodes_make_the_mesh_an_operator_would_have_declared():
    """Two locations, their leaders, a backup each, and everybody's addresses."""
    found, declared = _assemble(), declared_mesh()
    mesh = found.mesh
    assert mesh is not None

    assert () == found.problems
    assert [("site-a1", "a1", ("a2",)), ("site-b1", "b1", ("b2",))] == [
        (each.name, each.leader, each.standbys) for each in mesh.location
    ]
    assert ("kilo", "kilo0", "flannel.1", "") == (
        mesh.profile,
        mesh.wireguard_device,
        mesh.overlay_device,
        mesh.ipip_device,
    )
    places = [(node.name, node.node_ip, node.pod_cidr, node.overlay_ip, node.wireguard_ip) for node in mesh.node]
    assert [
        (node.name, node.node_ip, node.pod_cidr, node.overlay_ip, node.wireguard_ip) for node in declared.node
    ] == places
    assert ["a1", "a2", "b1", "b2"] == [node.name for node in mesh.node if node.standby_public_key]
    assert 5 == len(build_mesh(mesh.location, mesh.node).paths)


def test_what_members_say_of_their_endpoints_changes_nothing():
    """Every change of the mesh costs sessions, and only relays are linked to."""
    assert _assemble().mesh == _assemble(_changed("a3", standby_endpoint="192.0.2.7")).mesh


@pytest.mark.parametrize(
    ("told", "alive", "standbys"),
    [
        (_changed("a2", mode="observe"), None, ("a3",)),
        (_changed("a2", standby_public_key=""), None, ("a3",)),
        (hellos.whole_mesh(), ["a1", "a3"], ("a3",)),
        (hellos.whole_mesh(), ["a1"], ("a2",)),
    ],
    ids=["observes", "has no key", "is silent", "all are silent"],
)
def test_the_first_that_can_relay_is_the_backup(told, alive, standbys):
    """Only nodes in enforce mode make links."""
    mesh = _assemble(told, alive=alive).mesh
    assert mesh is not None
    assert standbys == mesh.location[0].standbys


def test_the_former_leader_becomes_a_backup():
    """It is the first by name again, and knows the way."""
    mesh = _assemble(leaders={"site-a1": "a2", "site-b1": "b1"}).mesh
    assert mesh is not None
    assert ("a2", ("a1",)) == (mesh.location[0].leader, mesh.location[0].standbys)


def test_no_backups_are_made_where_none_are_wanted():
    """The setting is the bound."""
    mesh = _assemble(standbys=0).mesh
    assert mesh is not None
    assert [(), ()] == [location.standbys for location in mesh.location]


@pytest.mark.parametrize(
    "seen",
    [{"profiles": ("submariner",)}, {"profiles": ("hexmesh",), "traits": ("of a later version", "without-standby")}],
)
def test_nobody_stands_by_in_a_mesh_of_gateways(seen):
    """Not even in mode enforce, and with keys: nothing of ours is safe beside such an agent."""
    told = {name: hellos.hello(name, seen=seen) for name in hellos.whole_mesh()}
    mesh = _assemble(told).mesh
    assert mesh is not None

    assert [(), ()] == [location.standbys for location in mesh.location]
    assert {(None, None)} == {(node.standby_public_key, node.standby_endpoint) for node in mesh.node}


def test_a_kind_of_mesh_without_such_a_trait_has_standbys():
    """A third party's, and one whose traits are those of a later version."""
    seen = {"profiles": ("hexmesh",), "traits": ("of a later version", "star")}
    mesh = _assemble({name: hellos.hello(name, seen=seen) for name in hellos.whole_mesh()}).mesh
    assert mesh is not None

    assert [("a2",), ("b2",)] == [location.standbys for location in mesh.location]
    assert seen["traits"] == mesh.traits
    declared = MeshSettings(traits=("replaces-routes",))
    assert declared.traits == _assemble(_changed("a3", seen=seen), mesh=declared).mesh.traits


def test_where_nobody_stands_by_nobody_needs_a_key():
    """Nodes that each lead a location of their own have no standby links, whatever mode they are in."""
    told = {name: hello for name, hello in hellos.whole_mesh().items() if name in {"a1", "b1"}}
    mesh = _assemble(told, node="a1").mesh
    assert mesh is not None

    assert {(None, None)} == {(node.standby_public_key, node.standby_endpoint) for node in mesh.node}
    assert ["a1", "b1"] == [location.leader for location in mesh.location]


def test_two_relays_behind_nat_get_no_link_and_that_is_said():
    """Nobody could begin; the operator learns which setting helps."""
    told = _changed("a2", standby_endpoint="") | {"b2": hellos.hello("b2", standby_endpoint="")}
    found = _assemble(told)
    assert found.mesh is not None

    assert (
        "no standby link between a2 and b2: neither can be reached from outside; set discovery.endpoint on one of them",
    ) == found.problems
    assert [0, 1, 2, 4] == [path.rank for path in build_mesh(found.mesh.location, found.mesh.node).paths]


def test_a_leader_that_only_observes_has_no_links_and_that_is_said():
    """It would not make them."""
    found = _assemble(_changed("a1", mode="observe"))
    assert found.mesh is not None

    assert any("a1 is not in enforce mode" in problem for problem in found.problems)
    assert _node(found.mesh, "a1").standby_public_key is None


def test_a_node_without_addresses_is_left_out_and_named():
    """A node whose network is not up yet must not take the mesh down with it."""
    found = _assemble(_changed("b3", seen={"pod_cidr": ""}))
    assert found.mesh is not None

    assert ["a1", "a2", "a3", "b1", "b2"] == [node.name for node in found.mesh.node]
    assert any(problem.startswith("b3 reports no pod_cidr") for problem in found.problems)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"node_ip": "192.168.100.11"}, "a1 and a2 say they have the same address"),
        ({"overlay_ip": "10.244.1.0"}, "a1 and a2 say they have the same address"),
        ({"pod_cidr": "10.244.0.0/16"}, "a2 claims 10.244.0.0/16, which overlaps 10.244.1.0/24 of a1"),
    ],
)
def test_what_belongs_to_two_nodes_belongs_to_one(seen, words):
    """The longest prefix would silently win; the rest of the mesh goes on."""
    told = _changed("a2", seen=seen)
    found = _assemble(told)
    assert any(words in problem or words in problem.replace("a2 and a1", "a1 and a2") for problem in found.problems)
    assert found.mesh is None or len(found.mesh.node) < 6


@pytest.mark.parametrize("wide", ["10.0.0.0/8", "10.244.0.0/16", "0.0.0.0/1"])
@pytest.mark.parametrize("alive", [None, ["a3"]], ids=["all are heard", "most are silent"])
def test_a_node_that_claims_too_much_puts_out_itself_alone(wide, alive):
    """Whoever is next to it in the order of addresses, and whether or not its prefix holds those of others far on."""
    found = _assemble(_changed("a3", seen={"pod_cidr": wide}), node="b3", alive=alive)
    assert found.mesh is not None

    assert ["a1", "a2", "b1", "b2", "b3"] == [node.name for node in found.mesh.node]
    (problem,) = found.problems
    assert problem.startswith(f"a3 claims {wide}, which overlaps 10.2")
    assert "a3 is left out: correct there what names its pods" in problem


def test_a_prefix_with_another_nodes_address_in_it_is_refused():
    """Pods are not where nodes are."""
    found = _assemble(_changed("a3", seen={"pod_cidr": "10.2.0.0/24"}), node="b3")
    assert found.mesh is not None

    assert "a3" not in [node.name for node in found.mesh.node]
    assert ("a3 claims 10.2.0.0/24, which overlaps 10.2.0.11/32 of b1 and 2 more",) == tuple(
        problem.partition(";")[0] for problem in found.problems
    )


@pytest.mark.parametrize(
    ("seen", "more"),
    [
        ({"node_ip": "10.244.1.7"}, {}),
        ({"overlay_ip": "10.244.1.7"}, {}),
        ({"node_ip": "10.244.1.7", "overlay_ip": "10.244.1.8"}, {"standby_endpoint": "10.244.1.9"}),
        ({}, {"standby_endpoint": "10.244.1.7"}),
    ],
)
def test_a_node_puts_nobody_out_by_what_it_says_of_its_own_addresses(seen, more):
    """Nor the location that a1 leads: b3 says that it is among the pods of a1, whose kernel shows them."""
    found = _assemble(_changed("b3", seen, **more))
    assert found.mesh is not None

    assert ["a1", "a2", "a3", "b1", "b2"] == [node.name for node in found.mesh.node]
    assert "which overlaps 10.244.1.0/24 of a1; b3 is left out" in found.problems[0]


@pytest.mark.parametrize(
    "seen",
    [
        {"pod_cidr": "203.0.113.0/24", "overlay_ip": "203.0.113.200"},
        {"pod_cidr": "203.0.113.1/32", "overlay_ip": "203.0.113.1"},
        {"pod_cidr": "192.168.100.11/32", "overlay_ip": "10.244.6.0"},
        {"pod_cidr": "192.168.100.10/31", "overlay_ip": "192.168.100.10"},
    ],
)
def test_pods_that_hold_where_others_are_reached_are_refused(seen):
    """By a failover the standby links' own packets would go into them, and never arrive; or a1's would go to b3."""
    found = _assemble(_changed("b3", seen))
    assert found.mesh is not None

    assert ["a1", "a2", "a3", "b1", "b2"] == [node.name for node in found.mesh.node]
    assert "b3 is left out" in found.problems[0]


@pytest.mark.parametrize("change", [{"is_pod_cidr_in_kernel": False}, {"overlay_ip": "10.2.0.12"}])
def test_pods_that_no_kernel_shows_give_way_to_a_lone_address(change):
    """Only an agent or a file says that b2 has them, or its overlay address is elsewhere: b3 lives where it says."""
    told = _changed("b2", change) | {"b3": hellos.hello("b3", seen={"node_ip": "10.244.5.7"})}
    found = _assemble(told)
    assert found.mesh is not None

    assert ["a1", "a2", "a3", "b1", "b3"] == [node.name for node in found.mesh.node]


def test_an_address_that_the_operator_has_pinned_is_no_lone_one():
    """It is believed, and the pods around it are not."""
    pin = msgspec.structs.replace(_node(declared_mesh(), "b3"), node_ip="10.244.5.7", location=LocationName("site-b1"))
    found = _assemble(mesh=MeshSettings(node=(pin,)))
    assert found.mesh is not None

    assert ["a1", "a2", "a3", "b1", "b3"] == [node.name for node in found.mesh.node]


def test_an_endpoint_by_name_or_nonsense_is_no_address():
    """It is resolved where a link is made."""
    for endpoint in ("relay.example", "999.1.1.1", ""):
        assert () == _assemble(_changed("b2", standby_endpoint=endpoint, mode="observe")).problems


@pytest.mark.parametrize(("is_shown", "stays"), [(True, "b3"), (False, "a3")])
def test_of_two_that_claim_one_prefix_a_kernel_decides(is_shown, stays):
    """a3 has the better name, and only an agent that says so."""
    told = _changed("a3", seen={"pod_cidr": "10.244.6.0/24", "is_pod_cidr_in_kernel": False, "overlay_ip": "10.9.9.9"})
    seen = {"is_pod_cidr_in_kernel": is_shown, "overlay_ip": "10.9.9.8"}
    found = _assemble(told | {"b3": hellos.hello("b3", seen=seen)}, node="b1")
    assert found.mesh is not None

    assert [stays] == [node.name for node in found.mesh.node if node.name in {"a3", "b3"}]


def test_what_the_operator_pins_is_believed_against_everybody():
    """A node that claims the same is left out, whatever its kernel shows."""
    mesh = MeshSettings(node=(next(node for node in declared_mesh().node if node.name == "b3"),))
    mesh = MeshSettings(node=tuple(msgspec.structs.replace(node, location="site-b1") for node in mesh.node))
    found = _assemble(_changed("a2", seen={"pod_cidr": "10.244.6.0/24"}), mesh=mesh)
    assert found.mesh is not None

    assert "b3" in [node.name for node in found.mesh.node]
    assert "a2" not in [node.name for node in found.mesh.node]


def test_the_old_name_of_a_renamed_node_is_dropped_without_a_word():
    """It is silent, and its addresses are another's who is alive."""
    renamed = msgspec.structs.replace(
        hellos.hello("a2"), view=msgspec.structs.replace(hellos.view("a2"), node="a2-new")
    )
    told = hellos.whole_mesh() | {"a2-new": renamed}
    found = _assemble(told, alive=[name for name in told if name != "a2"])
    assert found.mesh is not None

    assert ["a1", "a2-new", "a3"] == [node.name for node in found.mesh.node if node.location == "site-a1"]
    assert () == found.problems


def test_a_location_without_a_leader_is_left_out():
    """There is no path to it; it is told who is waiting."""
    found = _assemble(leaders={"site-a1": "a1"})
    assert found.mesh is not None
    assert ["site-a1"] == [location.name for location in found.mesh.location]
    assert ("location site-b1 (b1, b2, b3) has no leader: no node reports that it leads",) == found.problems


def _with_lone(*homes):
    """The mesh of six and locations of one node each, with everybody's leaders."""
    told = hellos.whole_mesh() | {
        NodeName(f"z{number}"): hellos.lone(number, home) for number, home in enumerate(homes)
    }
    return told, LEADERS | {home: f"z{number}" for number, home in enumerate(homes)}


def test_no_more_locations_than_can_be_watched():
    """All nodes leave out the same; those left out say why."""
    told, leaders = _with_lone("y0", "y1", "y2", "y3", "y4")
    found = _assemble(told, leaders=leaders)
    assert found.mesh is not None
    assert ["site-a1", "site-b1", "y0", "y1"] == [location.name for location in found.mesh.location]
    assert "7 locations were found and 4 can be watched" in found.problems[0]
    lost = _assemble(told, node="z4", leaders=leaders)
    assert lost.mesh is None
    assert "y4, which cannot be watched" in lost.problems[-1]


def test_a_new_location_pushes_out_none_that_is_watched():
    """Its name comes first, and it takes the last place only where nobody has that."""
    told, leaders = _with_lone("added", "y1", "y2")
    watched = ("site-a1", "site-b1", "y1", "y2")
    found = _assemble(told, leaders=leaders, watched=watched)
    assert found.mesh is not None
    assert watched == tuple(location.name for location in found.mesh.location)
    assert "[mesh] declares all locations and nodes" in found.problems[0]

    found = _assemble(told, leaders=leaders, watched=watched[:3])
    assert found.mesh is not None
    assert ["added", "site-a1", "site-b1", "y1"] == [location.name for location in found.mesh.location]


def test_a_location_without_a_leader_for_a_while_keeps_its_place():
    """Its leader is being replaced; one that is gone for good has no place."""
    told, leaders = _with_lone("added", "y1", "y2")
    watched = ("site-a1", "site-b1", "y1", "y2")
    without = {home: leader for home, leader in leaders.items() if home != "y1"}
    found = _assemble(told, leaders=without, watched=watched)
    assert found.mesh is not None
    assert ["site-a1", "site-b1", "y2"] == [location.name for location in found.mesh.location]

    del told[NodeName("z1")]
    found = _assemble(told, leaders=without, watched=watched)
    assert found.mesh is not None
    assert ["added", "site-a1", "site-b1", "y2"] == [location.name for location in found.mesh.location]


def test_without_a_place_of_its_own_a_node_has_no_mesh():
    """It says what it is waiting for."""
    found = _assemble({"a3": hellos.hello("a3", home="")}, leaders={})
    assert found.mesh is None
    assert "its leader 10.244.1.0 has not been heard; start meshwatchd there" in found.problems[0]
    assert "this node is not placed yet" in found.problems[1]


def test_a_declared_location_pins_its_leader_and_backups():
    """Whatever the nodes say; what is not named is found."""
    pin = msgspec.convert({"name": "site-a1", "leader": "a2", "standbys": ["a3"]}, Location)
    mesh = _assemble(mesh=MeshSettings(location=(pin,))).mesh
    assert mesh is not None
    assert pin == mesh.location[0]
    assert ("b1", ("b2",)) == (mesh.location[1].leader, mesh.location[1].standbys)


def test_a_declared_node_is_taken_as_declared_and_dressed_with_what_is_not_said():
    """An address set right by hand keeps its key."""
    pin = Node(
        name=NodeName("a1"),
        location=LocationName("site-a1"),
        node_ip="192.0.2.1",
        pod_cidr="10.244.1.0/24",
        overlay_ip="10.244.1.0",
    )
    mesh = _assemble(mesh=MeshSettings(node=(pin,))).mesh
    assert mesh is not None
    assert "192.0.2.1" == _node(mesh, "a1").node_ip
    assert hellos.KEYS["a1"] == _node(mesh, "a1").standby_public_key


def test_devices_are_those_found_unless_they_are_pinned():
    """A default in the file's sample is no pin."""
    told = _changed("a3", seen={"overlay_device": "cilium_vxlan", "ipip_device": "tunl0"})
    found, pinned = _assemble(told).mesh, _assemble(told, mesh=MeshSettings(overlay_device="vxlan9")).mesh
    assert found is not None
    assert pinned is not None
    assert ("cilium_vxlan", "tunl0", "vxlan9") == (found.overlay_device, found.ipip_device, pinned.overlay_device)


def test_locations_and_nodes_together_are_a_whole_mesh():
    """Either of them alone is a pin."""
    whole = declared_mesh()
    assert is_whole(whole)
    assert not is_whole(msgspec.structs.replace(whole, node=()))
    assert not is_whole(msgspec.structs.replace(whole, location=()))
