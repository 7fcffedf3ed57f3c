"""Where a node of Submariner sends packets for other clusters, asked of a kernel that has lost something."""

from __future__ import annotations

from errno import ENETUNREACH

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.gateway_routes import gateway_questions
from meshwatchd.core.audit.pod_routes import PodRouteAudit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, Vxlan
from meshwatchd.model.topology import Location, Node
from tests.support.leg_bench import star_planner

NODES = tuple(
    Node(
        name=NodeName(f"{name}{number}"),
        location=LocationName(location),
        node_ip=f"10.{net}.{number}.1",
        pod_cidr=f"10.{net}.{number}.0/24",
        overlay_ip=f"240.0.{net}.{number}",
    )
    for name, location, net in (("a", "site-a1", 244), ("b", "site-b1", 245))
    for number in (1, 2, 3)
)
LOCATIONS = tuple(
    Location(name=LocationName(name), leader=NodeName(leader))
    for name, leader in (("site-a1", "a1"), ("site-b1", "b1"))
)
VXLAN = Link(name="vx-submariner", index=4, kind="vxlan", is_up=True, mtu_bytes=1450, vxlan=Vxlan(vni=100, port=4800))
CABLE = Link(name="submariner", index=5, kind="wireguard", is_up=True, mtu_bytes=1420)
REMEDY = (
    "ip route add 10.245.0.0/16 via 240.0.244.1 dev vx-submariner proto static, or kubectl -n submariner-operator"
    " delete pod -l app=submariner-routeagent --field-selector spec.nodeName=a3"
)
ROUTE = DeviceRoute(dst="10.245.0.0/16", dev="vx-submariner", table=254, protocol=4, via="240.0.244.1")
IN_TABLE = DeviceRoute(dst="10.245.0.0/16", dev="submariner", table=150, protocol=4, src="10.244.1.1")


def view(node, *, routes=(), good=None, cable="submariner"):
    """What the audit of one node rests on."""
    is_gateway = node == "a1"
    mesh = MeshSettings(
        profile="submariner",
        wireguard_device=cable if is_gateway else "",
        overlay_device="vx-submariner",
        location=LOCATIONS,
        node=NODES,
    )
    links = (VXLAN, *((CABLE,) if is_gateway and cable else ()))
    return View(snapshot=Snapshot(links=links, device_routes=routes), mesh=mesh, node=node, hellos={}, good=good)


def found(seen, answer):
    """What is told where the kernel gives one answer to all questions."""
    audit = PodRouteAudit("mw", lambda _question: answer)
    return list(audit.look(seen, 1, 0, is_forwarding=True))


def test_a_worker_asks_for_each_remote_node_by_the_addresses_that_the_other_cluster_routes():
    """Packets of its own address among its pods; nothing comes in by a device that it would pass on."""
    asked = list(gateway_questions(view("a3"), is_forwarding=True))

    assert [("b1", "vx-submariner"), ("b2", "vx-submariner"), ("b3", "vx-submariner")] == [
        (peer.name, device) for peer, _, device in asked
    ]
    assert RouteQuestion(source="10.244.3.1", destination="10.245.1.1") == asked[0][1]


def test_the_gateway_asks_for_what_its_workers_send_as_well():
    """What comes in by vx-submariner leaves by the cable, one worker's for each remote node."""
    asked = [question for _, question, _ in gateway_questions(view("a1"), is_forwarding=True)]

    assert RouteQuestion(source="10.244.2.1", destination="10.245.1.1", iif="vx-submariner") in asked
    assert RouteQuestion(source="10.244.3.1", destination="10.245.2.1", iif="vx-submariner") in asked
    assert 6 == len(asked)
    assert 3 == len(list(gateway_questions(view("a1"), is_forwarding=False)))


def on_detour(leg):
    """A worker whose traffic goes around its leg, and its kernel: by what what stays on the leg leaves."""
    planner = star_planner("a3")
    override = planner.detour(planner.topology.detours[0])
    shown = msgspec.structs.replace(view("a3").snapshot, rules=(*planner.provision().rules, override))
    jumps = {(rule.sport, rule.dport) for rule in shown.rules if rule.goto == planner.windows[0].landing}

    def ask(question):
        jumping = any(
            sport[0] <= question.sport <= sport[1] and dport[0] <= question.dport <= dport[1]
            for sport, dport in jumps
            if sport and dport
        )
        return leg if jumping else RouteAnswer(device="eth0", rule="5479: from all lookup 7780")

    return shown, ask


@pytest.mark.parametrize(("leg", "count"), [("vx-submariner", 0), ("eth0", 1)], ids=["broken leg", "lost route"])
def test_on_a_detour_the_kernel_is_asked_for_what_stays_on_the_leg(leg, count):
    """By the ports of a probe of it: where traffic goes around a broken leg no route is lost, and one that is lost is
    named there as well.
    """
    shown, ask = on_detour(RouteAnswer(device=leg))
    seen = view("a3")
    audit = PodRouteAudit("mw", ask)
    told = View(snapshot=shown, mesh=seen.mesh, node="a3", hellos={}, good=None)

    assert count == len(list(audit.look(told, 1, 0, is_forwarding=True)))


def test_an_ipsec_gateway_is_not_judged():
    """Its packets leave by the network card whether or not a policy takes them."""
    assert [] == list(gateway_questions(view("a1", cable=""), is_forwarding=True))


@pytest.mark.parametrize(("node", "device"), [("a1", "submariner"), ("a3", "vx-submariner")])
def test_packets_that_leave_as_they_should_are_nothing_to_tell(node, device):
    """Neither on the gateway nor on a worker."""
    assert [] == found(view(node), RouteAnswer(device=device))


def test_a_route_that_a_worker_has_lost_is_named_with_the_command_that_puts_it_back():
    """One finding of this node, whatever number of nodes it reaches no more; the good state knows the route."""
    good = GoodState(device="vx-submariner", entries=Entries(routes=(ROUTE,)))
    (finding,) = found(view("a3", good=good), RouteAnswer(device="eth0"))

    assert (FaultCode.POD_ROUTE_DIVERTED, "a3", "vx-submariner") == (finding.code, finding.culprit, finding.subject)
    assert (
        "packets from 10.244.3.1 to 10.245.1.1 of b1 leave by eth0, not by vx-submariner",
        "nodes that are not reached: b1, b2, b3",
        "Submariner's route agent writes its routes and rules once and does not look again (submariner#2914)",
        REMEDY,
    ) == finding.because


def test_a_gateway_that_has_lost_its_rule_is_told_from_one_that_has_lost_its_table():
    """The table is there, so the rule is not; a table without the route is the agent's to fill."""
    (without_rule,) = found(view("a1", routes=(IN_TABLE,)), RouteAnswer(device="eth0"))
    (without_route,) = found(view("a1"), RouteAnswer(errno=ENETUNREACH))

    assert without_rule.because[-1].startswith("the route of table 150 is there: ip rule add pref 150 lookup 150, or")
    assert without_route.because[-1].startswith("kubectl -n submariner-operator delete pod")
    assert "go nowhere: no route, not by submariner" in without_route.because[0]


def test_other_meshes_are_asked_as_before():
    """Kilo's nodes go by addresses that are none of pods."""
    seen = view("a3")
    other = msgspec.structs.replace(seen.mesh, profile="kilo")

    assert [] == found(View(snapshot=seen.snapshot, mesh=other, node="a3", hellos={}, good=None), RouteAnswer())
