"""Desired kernel state, object by object, against the literal tables of the lab's mesh."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model import plan
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.plan import Route, Rule, Switch
from meshwatchd.model.topology import Topology, build_mesh
from meshwatchd.profiles import OVERLAY_MESH
from tests.sim.random_mesh import Shape, mesh_of
from tests.support import switch_node
from tests.support.lab_mesh import NAMES, led_by, planner_of, settings_for, snapshot_of, topology_of

CLOUD = {
    "b1": ("10.244.4.0/24", "10.2.0.11/32"),
    "b2": ("10.244.5.0/24", "10.2.0.12/32"),
    "b3": ("10.244.6.0/24", "10.2.0.13/32"),
}
ONPREM = {
    "a1": ("10.244.1.0/24", "192.168.100.11/32"),
    "a2": ("10.244.2.0/24", "192.168.100.12/32"),
    "a3": ("10.244.3.0/24", "192.168.100.13/32"),
}
ADDRESS = {name: prefixes[1].removesuffix("/32") for name, prefixes in (CLOUD | ONPREM).items()}

# What each node's table of each path holds: the device, the gateway, and the remote nodes behind it. No entry:
# no route, because it is the mesh's own path, or because the node is a leader that the path bypasses.
TABLES = {
    ("a1", 1): ("mw0", None, ("b2", "b3")),
    ("a1", 4): ("mw3", None, ("b1", "b2", "b3")),
    ("a2", 1): ("flannel.1", "10.244.1.0", ("b2", "b3")),
    ("a2", 2): ("mw1", None, ("b1", "b2", "b3")),
    ("a2", 3): ("mw2", None, ("b2", "b3")),
    ("a2", 4): ("flannel.1", "10.244.1.0", ("b1", "b2", "b3")),
    ("a3", 1): ("flannel.1", "10.244.1.0", ("b2", "b3")),
    ("a3", 2): ("flannel.1", "10.244.2.0", ("b1", "b2", "b3")),
    ("a3", 3): ("flannel.1", "10.244.2.0", ("b2", "b3")),
    ("a3", 4): ("flannel.1", "10.244.1.0", ("b1", "b2", "b3")),
    ("b1", 2): ("mw1", None, ("a2", "a3")),
    ("b1", 4): ("mw3", None, ("a1", "a2", "a3")),
    ("b2", 1): ("mw0", None, ("a1", "a2", "a3")),
    ("b2", 2): ("flannel.1", "10.244.4.0", ("a2", "a3")),
    ("b2", 3): ("mw2", None, ("a2", "a3")),
    ("b2", 4): ("flannel.1", "10.244.4.0", ("a1", "a2", "a3")),
    ("b3", 1): ("flannel.1", "10.244.5.0", ("a1", "a2", "a3")),
    ("b3", 2): ("flannel.1", "10.244.4.0", ("a2", "a3")),
    ("b3", 3): ("flannel.1", "10.244.5.0", ("a2", "a3")),
    ("b3", 4): ("flannel.1", "10.244.4.0", ("a1", "a2", "a3")),
}
CASES = [(name, path) for name in NAMES for path in range(5)]


def _path(planner, number):
    return planner.path(number)


def _expected_routes(name, path, *, table):
    if (name, path) not in TABLES:
        return ()
    device, via, reached = TABLES[name, path]
    prefixes = [prefix for node in reached for prefix in (CLOUD | ONPREM)[node]]
    return tuple(Route(dst=dst, table=table, dev=device, via=via, src=ADDRESS[name]) for dst in prefixes)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_table_of_a_path_holds_exactly_its_routes(name, number):
    """Table 7700 + p: into the link at the relay, to the local relay's overlay gateway elsewhere, its leader too."""
    planner = planner_of(name)

    assert _expected_routes(name, number, table=7700 + number) == planner.routes(_path(planner, number))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_override_is_one_rule_where_anything_has_to_move(name, number):
    """Priority 5460: failover adds it, failback removes it."""
    planner = planner_of(name)
    expected = (Rule(priority=5460, table=7700 + number),) if (name, number) in TABLES else ()

    assert expected == planner.override(_path(planner, number))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_an_override_in_the_kernel_is_recognised(name, number):
    """After a restart: which path is this? Anybody else's rule is nobody's."""
    planner = planner_of(name)
    path = _path(planner, number)
    assert all(path == planner.overridden_by(rule) for rule in planner.override(path))

    assert planner.overridden_by(Rule(priority=5460, table=254)) is None
    assert planner.overridden_by(Rule(priority=5461, table=7700 + number)) is None


@pytest.mark.parametrize(("name", "number"), CASES)
def test_probes_of_a_path_are_selected_in_both_directions(name, number):
    """By both ports, so that nothing else is caught; without a table of the path they jump the policy rule."""
    planner = planner_of(name)
    rules = [rule for rule in planner.provision().rules if rule.priority == 5410 + number]
    own, theirs = (18620 + number,) * 2, (10000, 29999)
    where = {"table": 7740 + number} if (name, number) in TABLES else {"goto": 5480}

    assert [
        Rule(priority=5410 + number, sport=theirs, dport=own, **where),
        Rule(priority=5410 + number, sport=own, dport=theirs, **where),
    ] == rules


@pytest.mark.parametrize(("name", "number"), CASES)
def test_probe_tables_hold_the_routes_to_what_is_probed(name, number):
    """7740 + p: the same ways as traffic takes, to nodes and to flannel.1's address among each one's pods."""
    planner = planner_of(name)
    found = [route for route in planner.provision().routes if route.table == 7740 + number]
    ways = _expected_routes(name, number, table=7740 + number)
    hosts = [msgspec.structs.replace(r, dst=r.dst.replace("/24", "/32")) for r in ways if r.dst.endswith("/24")]

    assert [*(r for r in ways if r.dst.endswith("/32")), *hosts] == found


@pytest.mark.parametrize("name", NAMES)
def test_no_probe_of_a_standby_falls_through_to_the_main_table(name):
    """What its table does not lead to would take the path in use, and praise it in the standby's name."""
    planner = planner_of(name)
    ways = {(route.table, route.dst) for route in planner.provision().routes}
    asked = [plan for plan in lay_out(planner, has_standby=True) if plan.layer is Layer.RELAY and plan.path]

    assert asked
    assert [] == [plan for plan in asked if (7740 + plan.path, f"{plan.destination}/32") not in ways]


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("a1", [("mw0", "b2", 51830), ("mw3", "b1", 51833)]),
        ("a2", [("mw1", "b1", 51831), ("mw2", "b2", 51832)]),
        ("a3", []),
        ("b1", [("mw1", "a2", 51831), ("mw3", "a1", 51833)]),
        ("b2", [("mw0", "a1", 51830), ("mw2", "a2", 51832)]),
        ("b3", []),
    ],
)
def test_each_standby_link_exists_on_its_two_relays(name, links):
    """Path 1 is mw0, path 2 mw1, path 3 mw2, path 4 mw3; the port is the same on both ends."""
    found = planner_of(name).provision().links

    assert links == [(link.device, link.peer, link.listen_port) for link in found]


def test_a_link_carries_the_whole_other_location():
    """Inner destination at the sender and inner source at the receiver, for every packet, in both directions."""
    (link, _) = planner_of("a1").provision().links

    assert tuple(prefix for prefixes in CLOUD.values() for prefix in prefixes) == link.allowed_ips
    assert ("198.51.100.22:51830", "key-of-b2", 10, 1420) == (
        link.endpoint,
        link.peer_public_key,
        link.keepalive_s,
        link.mtu_bytes,
    )


@pytest.mark.parametrize("name", NAMES)
def test_delivery_stands_on_relays_only(name):
    """Table 7799 for what comes out of a link: each neighbour by its overlay gateway, pods fall through to main."""
    provision = planner_of(name).provision()
    rules = [rule for rule in provision.rules if rule.priority == 5400]
    routes = [route for route in provision.routes if route.table == 7799]
    neighbours = sorted(other for other in NAMES if other[0] == name[0] and other != name)
    gateway = {other: (CLOUD | ONPREM)[other][0].removesuffix("/24") for other in neighbours}

    assert [Rule(priority=5400, table=7799, iif=link.device) for link in provision.links] == rules
    expected = [Route(dst=f"{ADDRESS[n]}/32", table=7799, dev="flannel.1", via=gateway[n]) for n in neighbours]
    assert (expected if provision.links else []) == routes


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_stands_moves_traffic(name):
    """A standing rule selects by device or by probe ports, or looks up a table that stays empty."""
    provision = planner_of(name).provision()
    free = [rule for rule in provision.rules if rule.iif is None and rule.dport is None]

    assert [Rule(priority=5480, table=7798)] == free
    assert 7798 not in {route.table for route in provision.routes}
    assert {5400, 5480, 5410, 5411, 5412, 5413, 5414} >= {rule.priority for rule in provision.rules}
    assert all(7700 <= route.table <= 7799 for route in provision.routes)


def test_a_switch_makes_before_it_breaks():
    """From one standby to the next: the new rule is there before the old one is gone; home is removal alone."""
    planner = planner_of("b2")
    home, first, third = (_path(planner, number) for number in (0, 1, 3))
    rule = {number: Rule(priority=5460, table=7700 + number) for number in (1, 3)}

    assert Switch(add=(rule[1],)) == planner.switch(home, first)
    assert Switch(add=(rule[3],), delete=(rule[1],)) == planner.switch(first, third)
    assert Switch(delete=(rule[3],)) == planner.switch(third, home)


def test_a_leader_that_is_bypassed_changes_nothing():
    """Its own traffic keeps the mesh's path: the switch is empty on b1 for path 1."""
    planner = planner_of("b1")

    assert Switch() == planner.switch(_path(planner, 0), _path(planner, 1))
    assert not planner.probes_path(_path(planner, 1))
    assert planner.probes_path(_path(planner, 2))


def _planner_led_by(name: str, leader: str) -> Planner:
    mesh = led_by(leader)
    topology = OVERLAY_MESH.recognise(snapshot_of(name, mesh=mesh), mesh, NodeName(name))
    assert isinstance(topology, Topology)
    return Planner(topology, msgspec.structs.replace(settings_for(name), mesh=mesh))


@pytest.mark.parametrize("name", ["a2", "a3", "b3"])
def test_a_member_has_a_table_to_its_own_leader_s_links(name):
    """Kilo's routes lead to whoever leads: the table leads over the same two relays when another node does."""
    planner = planner_of(name)
    own_leader = planner.topology.mesh.location(planner.local.location).leader
    over_leader = [path for path in planner.paths if own_leader in path.relays and not path.is_primary]

    assert 2 == len(over_leader)
    gateway = (CLOUD | ONPREM)[own_leader][0].removesuffix("/24")
    for path in over_leader:
        assert {("flannel.1", gateway)} == {(route.dev, route.via) for route in planner.routes(path)}


@pytest.mark.parametrize("name", NAMES)
def test_each_standby_link_keeps_its_place_when_another_relay_leads(name):
    """b2 takes over from b1: number, device and table of each link are what they were, on every node."""
    before, after = planner_of(name), _planner_led_by(name, "b2")
    places = [{path.key: each.place_of(path) for path in each.paths if not path.is_primary} for each in (before, after)]

    assert 4 == len(places[0])
    assert places[0] == places[1]
    ways = [{(p.key, r.dst): (r.dev, r.via) for p in each.paths for r in each.routes(p)} for each in (before, after)]
    both = ways[0].keys() & ways[1].keys()
    assert both
    assert [ways[0][key] for key in both] == [ways[1][key] for key in both]


def test_a_leader_that_was_bypassed_has_a_rule_when_it_leads_no_more():
    """And the new leader that the path bypasses has none: which rule stands is the leader's affair, the path is not."""
    before = {name: planner_of(name) for name in ("b1", "b2")}
    after = {name: _planner_led_by(name, "b2") for name in ("b1", "b2")}

    def rules(planners, name, number):
        return planners[name].override(planners[name].path(number))

    assert () == rules(before, "b1", 1)
    assert (Rule(priority=5460, table=7701),) == rules(after, "b1", 1)
    assert (Rule(priority=5460, table=7702),) == rules(before, "b2", 2)
    assert () == rules(after, "b2", 2)


def test_a_path_reaches_everybody_but_the_leader_it_goes_around():
    """Seen from onprem: path 1 enters cloud at b2, path 2 at b1."""
    planner = planner_of("a3")
    reached = {n: [node.name for node in planner.reached_over(_path(planner, n))] for n in range(5)}

    everybody, but_b1 = ["b1", "b2", "b3"], ["b2", "b3"]
    assert {0: everybody, 1: but_b1, 2: everybody, 3: but_b1, 4: everybody} == reached


def test_a_node_of_fifty_locations_takes_tables_beyond_the_first_hundred_and_no_priority_beyond():
    """No two paths share a table or a selector, whatever their priorities; all of it is recognised as ours."""
    mesh = mesh_of((Shape(1, 1),) * 50)
    topology = OVERLAY_MESH.recognise(snapshot_of("b3", mesh=mesh), mesh, NodeName("b3"))
    assert isinstance(topology, Topology)
    planner = Planner(topology, msgspec.structs.replace(settings_for("b3"), mesh=mesh))
    kernel, provision = planner.settings.kernel, planner.provision()

    overrides = [rule for path in planner.paths for rule in planner.override(path)]
    assert 49 * 4 == len(overrides) == len({rule.table for rule in overrides})
    probing = {rule.table for rule in provision.rules if rule.dport and rule.table}
    assert 49 * 4 == len(probing)
    assert not probing & {rule.table for rule in overrides}
    tables = {route.table for route in provision.routes}
    assert probing | {rule.table for rule in overrides} <= tables
    assert all(0 <= table - kernel.table_base < plan.TABLES for table in tables)
    assert all(0 <= rule.priority - kernel.priority_base < 100 for rule in (*provision.rules, *overrides))
    assert len(provision.rules) == len(set(provision.rules))
    assert {rule.priority - kernel.priority_base for rule in overrides} <= set(range(60, 80))
    ports = [planner.probe_port(path) for path in planner.paths]
    assert len(ports) == len(set(ports))
    for path in planner.paths:
        assert all(path == planner.overridden_by(rule) for rule in planner.override(path))


def _planner_with(claims, refused=()):
    """b3's planner where nodes claim other prefixes."""
    topology = topology_of("b3")
    nodes = [
        msgspec.structs.replace(node, pod_cidr=claims.get(node.name, node.pod_cidr)) for node in topology.mesh.nodes
    ]
    mesh = build_mesh(topology.mesh.locations, nodes)
    return Planner(msgspec.structs.replace(topology, mesh=mesh, refused=tuple(refused)), settings_for("b3"))


@pytest.mark.parametrize(
    "wide", ["10.0.0.0/8", "10.2.0.0/24", "10.2.0.13/32", "10.244.6.0/25", "10.244.0.0/16", "10.4.0.1/32"]
)
def test_no_table_leads_to_an_address_of_the_own_location(wide):
    """However it came to be believed; all else of that node and of the others is as it was, and it is said."""
    planner = _planner_with({"a2": wide})

    for number in range(1, 5):
        led = {route.dst for route in planner.routes(planner.path(number))}
        assert led == {route.dst for route in planner_of("b3").routes(planner.path(number))} - {"10.244.2.0/24"}
    (sentence,) = planner.withheld
    assert sentence.startswith(f"a2 claims {wide}, which holds ")


def test_no_link_takes_packets_from_an_address_of_the_own_location():
    """AllowedIPs are routes as well: b2's links would send there, and believe what comes from there."""
    topology = topology_of("b2")
    nodes = [
        msgspec.structs.replace(node, pod_cidr="10.0.0.0/8") if node.name == "a2" else node
        for node in topology.mesh.nodes
    ]
    planner = Planner(
        msgspec.structs.replace(topology, mesh=build_mesh(topology.mesh.locations, nodes)), settings_for("b2")
    )

    for link in planner.provision().links:
        assert "10.0.0.0/8" not in link.allowed_ips
        assert {"10.244.1.0/24", "192.168.100.12/32", "10.244.3.0/24"} <= set(link.allowed_ips)


def test_no_table_leads_to_what_this_nodes_kernel_knows_to_be_here():
    """A part of the LAN where no node is."""
    planner = _planner_with({"a2": "10.2.0.128/25"}, refused=["10.2.0.128/25"])

    assert "10.2.0.128/25" not in {route.dst for route in planner.provision().routes}
    assert ("a2 claims 10.2.0.128/25, which the kernel of this node contradicts",) == tuple(
        sentence.partition(":")[0] for sentence in planner.withheld
    )


@pytest.mark.parametrize("name", NAMES)
def test_of_a_mesh_as_it_should_be_nothing_is_withheld(name):
    """The guard costs nobody a route."""
    assert () == planner_of(name).withheld


def test_a_node_without_pods_is_led_to_by_its_address_alone():
    """There is nothing else of it."""
    planner = _planner_with({"a2": ""})

    led = {route.dst for route in planner.routes(planner.path(1))}
    assert "192.168.100.12/32" in led
    assert "" not in led


@pytest.mark.parametrize("name", ["a1", "a3"])
def test_a_mesh_of_gateways_gets_no_rule_of_ours(name):
    """Submariner has rules at 100, 149 and 150; nothing moves there, so nothing of ours stands beside them."""
    before = topology_of(name)
    locations = tuple(msgspec.structs.replace(each, standbys=()) for each in before.mesh.locations)
    mesh = build_mesh(locations, before.mesh.nodes)
    star = msgspec.structs.replace(before, mesh=mesh, is_overlay_star=True, is_observed=True)
    provision = Planner(star, planner_of(name).settings).provision()

    assert ((), (), ()) == (provision.links, provision.routes, provision.rules)


def test_a_mesh_that_is_only_observed_has_nothing_of_ours():
    """Whatever the mode: Antrea's agent owns routes and ports."""
    planner = switch_node.planner("antrea", switch_node.snapshot("antrea"))
    provision = planner.provision()

    assert ((), (), ()) == (provision.links, provision.routes, provision.rules)
