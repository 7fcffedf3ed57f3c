"""Who is looked at, who may relay, and what stands in the kernel for it."""

from __future__ import annotations

import msgspec

from meshwatchd.core.routes.outer_reroute import MOST_NODES, OuterReroute, relays_of
from meshwatchd.core.routes.outer_way import ROUND_NS, WayState
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.outer_reroute import Way, WayAnswer
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import SECOND, KernelSettings, PolicySettings
from meshwatchd.model.topology import Node
from tests.support.cluster_node import mesh, node_ip, snapshot

KERNEL = KernelSettings()
WINDOW = RuleWindow(first=5400)


def _seen(node="e1", declared=None):
    made = OuterReroute(node, PolicySettings())
    made.see(snapshot(node), declared or mesh())
    return made


def _rerouted():
    """To w1, whose pods answer nothing until the route is there."""
    made, now = _seen(), 0
    made.suspect(("w1",))
    while not any(way.is_rerouted for way in made.ways):
        now += 1
        made.observe(
            {
                each: WayAnswer(seen=node_ip("e1")) if each.way in (Way.VOUCHED, Way.RELAYED) else None
                for each in made.questions()
            },
            now,
            may_move=True,
        )
        assert now < 100
    return made


def _provision(made, *ports, window=WINDOW):
    return made.provision(window, KERNEL, 18_618, ports or (8472, 51_871))


def test_relays_are_the_other_nodes_on_this_nodes_own_network():
    """Of whatever cluster: a route can lead through them. Those of another network cannot be a gateway."""
    assert ["e2", "e3"] == [each.name for each in relays_of(snapshot("e1"), mesh(), "e1")]
    near = Node(
        name=NodeName("w9"),
        location=LocationName("west"),
        node_ip="10.81.0.99",
        pod_cidr="10.11.9.0/24",
        overlay_ip="10.11.9.79",
    )
    wider = msgspec.structs.replace(mesh(), node=(*mesh().node, near))
    assert ["e2", "e3", "w9"] == [each.name for each in relays_of(snapshot("e1"), wider, "e1")]
    assert {("eth0", node_ip("e1"))} == {(each.device, each.source) for each in relays_of(snapshot("e1"), wider, "e1")}


def test_without_the_own_address_on_a_device_that_is_up_there_is_no_relay():
    """Nor without a place in the mesh."""
    down = tuple(msgspec.structs.replace(each, is_up=False) for each in snapshot("e1").links)
    assert () == relays_of(msgspec.structs.replace(snapshot("e1"), links=down), mesh(), "e1")
    assert () == relays_of(snapshot("e1"), mesh("e2", "w1"), "e1")


def test_nodes_of_other_clusters_alone_are_looked_at_and_a_few_at_a_time():
    """Where many are lost at once the way to one of them is not the fault."""
    made = _seen()
    made.suspect(("e2", "nobody", "w1"))
    assert ["w1"] == [way.far.name for way in made.ways]
    crowded, many = _crowd(count=2 * MOST_NODES)
    crowded.suspect(many)
    assert len(crowded.ways) == MOST_NODES
    for now in range(200):
        crowded.observe(dict.fromkeys(crowded.questions()), now, may_move=True)
    crowded.suspect(("w1",))
    assert "w1" in {way.far.name for way in crowded.ways}  # in the place of one that nobody reaches
    assert len(crowded.ways) == MOST_NODES


def _crowd(node="e1", count=17):
    """So many nodes of another cluster, none of which this node reaches."""
    many = tuple(
        Node(
            name=NodeName(f"w{number}"),
            location=LocationName("west"),
            node_ip=f"10.82.0.{number}",
            pod_cidr=f"10.11.{number}.0/24",
            overlay_ip=f"10.11.{number}.9",
        )
        for number in range(20, 20 + count)
    )
    made = _seen(node, msgspec.structs.replace(mesh(), node=(*mesh().node, *many)))
    return made, tuple(each.name for each in many)


def test_where_many_are_missed_each_has_its_turn_and_little_is_asked():
    """One that a neighbour reaches is found among sixteen that are dead, whichever it is."""
    for saved in (0, 8, 16):
        made, names = _crowd()
        asked = now = 0
        while not any(way.is_tried for way in made.ways):
            made.suspect(names)
            questions = list(made.questions())
            asked, now = asked + len(questions), now + ROUND_NS
            answers = dict.fromkeys(questions)
            for each in questions:
                if each.way is Way.VOUCHED and each.node == names[saved]:
                    answers[each] = WayAnswer()
            made.observe(answers, now, may_move=True)
            assert now < 120 * SECOND, names[saved]

    made, names = _crowd()
    asked = 0
    for now in range(0, 600 * SECOND, ROUND_NS):
        made.suspect(names)
        unanswered = dict.fromkeys(made.questions())
        asked += len(unanswered)
        made.observe(unanswered, now, may_move=True)
    assert asked / 600 < 20


def test_not_all_nodes_look_at_the_same_ones_first():
    """Or the same eight would be asked about by everybody, and the others by nobody."""
    looked_at = set()
    for node in ("e1", "e2", "e3"):
        made, names = _crowd(node)
        made.suspect(names)
        looked_at |= {way.far.name for way in made.ways}
    assert len(looked_at) > MOST_NODES


def test_a_neighbour_is_kept_twice_as_long_the_next_time():
    """For a while; a way that breaks every minute is a line to be repaired by people."""
    made, now = _rerouted(), 0
    for hold_s in (60, 120):
        while made.ways:
            now += ROUND_NS
            answers = {each: WayAnswer(seen=node_ip("e1")) for each in made.questions()}
            made.observe(answers, now, may_move=True)
            assert now < 1000 * SECOND
        made.suspect(("w1",))
        assert hold_s * SECOND == made.ways[0].hold_ns
        while not made.ways[0].is_rerouted:
            now += ROUND_NS
            asked = made.questions()
            led = (Way.VOUCHED, Way.RELAYED)
            made.observe(
                {each: WayAnswer(seen=node_ip("e1")) if each.way in led else None for each in asked},
                now,
                may_move=True,
            )


def test_a_route_and_rules_that_what_is_forwarded_never_meets():
    """`iif lo`: packets of this node itself."""
    made = _rerouted()
    relay = made.ways[0].relay
    found = _provision(made)
    own = {"dev": "eth0", "via": relay.address, "src": node_ip("e1"), "dst": f"{node_ip('w1')}/32"}
    assert (Route(table=7796, **own), Route(table=7797, **own)) == found.routes
    assert (
        Rule(priority=5410, table=7796, iif="lo", dport=(19_112, 19_112)),
        Rule(priority=5410, table=7796, iif="lo", sport=(19_112, 19_112)),
        Rule(priority=5410, table=7797, iif="lo", dport=(8472, 8472)),
        Rule(priority=5410, table=7797, iif="lo", dport=(51_871, 51_871)),
    ) == found.rules
    assert all(not WINDOW.is_override(each.priority) for each in found.rules)
    narrow = RuleWindow(first=90, is_narrow=True)
    assert {91} == {each.priority for each in _provision(made, window=narrow).rules}


def test_nothing_stands_while_nobody_is_tried_and_questions_alone_are_led_during_a_trial():
    """Outer packets go where they went."""
    made = _seen()
    assert Provision() == _provision(made)
    made.suspect(("w1",))
    assert Provision() == _provision(made)
    tried = _rerouted()
    tried.ways[0].state = WayState.TRIED
    assert {7796} == {each.table for each in (*_provision(tried).routes, *_provision(tried).rules)}


def test_a_node_or_a_relay_that_has_gone_takes_its_route_along():
    """And so does one that has another address."""
    made = _rerouted()
    made.see(snapshot("e1"), mesh("e1", "e2", "e3", "w2", "w3"))
    assert () == made.ways
    made = _rerouted()
    relay = made.ways[0].relay.name
    made.see(snapshot("e1"), mesh(*{"e1", "e2", "e3", "w1", "w2", "w3"} - {relay}))
    assert () == made.ways


def test_routes_of_an_earlier_process_are_gone_on_from():
    """Those that lead to a node of another cluster through a neighbour; what is strange is not taken over."""
    left = _provision(_rerouted()).routes
    made = _seen()
    strange = Route(dst="192.0.2.1/32", table=7797, dev="eth0", via=node_ip("e2"))
    elsewhere = msgspec.structs.replace(left[1], via="10.81.0.77")
    made.adopt((strange, elsewhere), 0)
    assert () == made.ways
    made.adopt((left[1],), 0)
    assert left == _provision(made).routes


def test_not_all_nodes_choose_the_same_relay():
    """The order differs by asker and node; so it is the same after a restart."""
    first = {
        (one, other): _seen(one)._preferred(other)[0].name for one in ("e1", "e2", "e3") for other in ("w1", "w2", "w3")
    }
    assert all(relay not in pair for pair, relay in first.items())
    assert len({relay for (one, _), relay in first.items() if one == "e1"}) == 2


def test_a_node_that_the_engine_reaches_again_is_forgotten():
    """Whoever asks these questions in vain may have a filter."""
    made = _seen()
    made.suspect(("w1",))
    made.observe(dict.fromkeys(made.questions()), 1, may_move=True)
    assert made.ways
    made.suspect(())
    made.observe(dict.fromkeys(made.questions()), 2, may_move=True)
    assert () == made.ways
