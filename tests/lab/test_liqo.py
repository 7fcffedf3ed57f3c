"""Two clusters joined by Liqo: each node tells what is dead by itself, and puts back what liqo#3300 has taken.

Each damage is what users of Liqo have met, while its own status said Healthy all the time.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping

import pytest

from netnslab import Lab, liqo
from netnslab.daemons import Daemons
from netnslab.live_state import kernel_objects
from netnslab.waiting import pause_until, wait_until
from tests.support.mesh import flow

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODES = ("a1", "a2", "a3", "b1", "b2")
BEYOND = ("10.244.2.1", "10.244.3.1", "10.245.1.1", "10.245.2.1")
"""Of each node its address among pods: with Liqo's masquerading any address of a node there will do."""
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "liqo": {"beyond": BEYOND},
    "repair": {"route": True, "reseed": True, "actions_per_minute": 60},
}
GOOD_STATE = "/var/lib/meshwatchd/liqo-good.json"
NAMED_S, STALE_S = 40, 70
MOVE_NS = 25_000_000_000
"""Longer than a leg has to be silent until it is named."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Five daemons that are told the key, the mode, and whom to ask behind the gateways."""
    with (
        Lab.up("liqo") as lab,
        Daemons(lab, tmp_path_factory.mktemp("liqo"), config="minimal", settings=SETTINGS) as on,
    ):
        wait_until(
            lambda: all(_answered(lab, node) for node in NODES),
            timeout_s=60,
            what="all to remember a gateway, its pod and two addresses behind",
            poll_s=0.5,
        )
        yield lab, on


def _answered(lab, node):
    """Whether a node's daemon remembers that four addresses have answered."""
    text = lab.node(node).run(["cat", GOOD_STATE]).stdout
    good = json.loads(text)["good"] if text else []
    return [4] == [len(each["answered"]) for each in good]


def _names(daemons, nodes, since_ns, event="fault.raised"):
    """Faults that daemons have told since then."""
    told = (each for node in nodes for each in daemons.events(node, since_ns=since_ns))
    return [each.fields["fault"] for each in told if each.name == event]


def _await_repair(daemons, node, since_ns):
    wait_until(
        lambda: _names(daemons, (node,), since_ns, "repair.verified"),
        timeout_s=NAMED_S,
        what=f"{node} to put back what was lost",
        poll_s=0.5,
    )
    return _names(daemons, (node,), since_ns)


def _found(daemons, node):
    return {each["fault"]: each for each in (daemons.status(node) or {"findings": ()})["findings"]}


def _settled(mesh):
    lab, daemons = mesh
    wait_until(
        lambda: all(not _found(daemons, node) for node in NODES), timeout_s=NAMED_S, what="all to be well", poll_s=0.5
    )
    return lab, daemons


def _await(daemons, nodes, fault, timeout_s=NAMED_S):
    """All of these nodes name this fault and no other, and no other node says anything."""
    wait_until(
        lambda: all([*_found(daemons, node)] == ([fault] if node in nodes else []) for node in NODES),
        timeout_s=timeout_s,
        what=f"{', '.join(nodes)} to name {fault}",
        poll_s=0.5,
    )
    return "\n".join(_found(daemons, nodes[0])[fault]["because"])


def _batch(lab, place, *lines):
    where = lab.pod(place.removeprefix("pod/")) if place.startswith("pod/") else lab.node(place)
    where.run(["ip", "-batch", "-"], input="\n".join((*lines, "")), check=True)


@contextlib.contextmanager
def _filtered(place, hook, rule):
    """A rule of nftables, for a while."""
    chain = f"table inet cut {{ chain {hook} {{ type filter hook {hook} priority 0; {rule} drop\n}}\n}}\n"
    place.run(["nft", "-f", "-"], input=chain, check=True)
    try:
        yield
    finally:
        place.run(["nft", "delete", "table", "inet", "cut"], check=True)


def _made_anew(lab, name, *, has_address):
    """What Liqo does to the device when the gateway pod gets another address; with liqo#3300, without its own."""
    node = lab.topology.nodes[name]
    lines = liqo.device_lines(lab.topology, node)
    routes = liqo.route_lines(lab.topology, node) if has_address else ()
    kept = [line for line in lines if has_address or not line.startswith("address")]
    _batch(lab, name, f"link del {liqo.device(lab.topology, node)}", *kept, *routes)
    # The next gateway pod is another one: it knows no neighbour, while this one keeps their MACs for half a minute.
    _batch(lab, "pod/a1", f"neigh flush dev liqo.{name}")


def test_every_pod_reaches_the_other_cluster_and_liqo_is_recognised(mesh):
    """By device, address, gateway and rules; nothing of ours stands there."""
    lab, daemons = _settled(mesh)
    for one, other in (("a2", "b2"), ("a3", "b2")):
        with flow(lab.pod(one), lab.pod(other)) as between, flow(lab.pod(other), lab.pod(one)) as back:
            assert between.echoes_eventually(), (one, other)
            assert back.echoes_eventually(), (other, one)
    shown = " ".join(daemons.control("a2", "topology", "--why").stdout.split())
    assert "liqo.west is Liqo's: number 2 to the gateway pod at 10.244.1.2, UDP 6091, MTU 1340" in shown
    assert "10.245.0.0/16 of another cluster are behind 10.80.0.1" in shown
    assert 5 == len(lab.node("a2").run(["ip", "rule"], check=True).stdout.splitlines())


def test_address_and_routes_that_liqo_has_lost_are_named_and_put_back(mesh):
    """liqo#3300: named on the node that has it, healed with what is identical to Liqo's own."""
    lab, daemons = _settled(mesh)
    before, since_ns = kernel_objects(lab.node("a3")), time.monotonic_ns()
    _made_anew(lab, "a3", has_address=False)

    assert ["liqo-fabric-address-missing"] == _await_repair(daemons, "a3", since_ns)
    with flow(lab.pod("a3"), lab.pod("b2")) as between:
        assert between.echoes_eventually()
    assert before == kernel_objects(lab.node("a3"))
    _settled(mesh)


def test_routes_that_are_gone_are_put_back(mesh):
    """`ip route flush`, which Liqo would hear of; a device that went down and up, of which it does not."""
    lab, daemons = _settled(mesh)
    before, since_ns = kernel_objects(lab.node("a2")), time.monotonic_ns()
    lab.node("a2").run(["ip", "link", "set", "liqo.west", "down"], check=True)
    lab.node("a2").run(["ip", "link", "set", "liqo.west", "up"], check=True)

    assert ["liqo-route-missing"] == _await_repair(daemons, "a2", since_ns)
    assert before == kernel_objects(lab.node("a2"))
    _settled(mesh)


def test_a_rule_that_is_gone_is_named_with_the_command(mesh):
    """Liqo does not hear of rules, and nobody else puts one back."""
    lab, daemons = _settled(mesh)
    lab.node("b2").run(["ip", "rule", "del", "to", "10.244.0.0/16"], check=True)
    try:
        because = _await(daemons, ("b2",), "liqo-route-missing")
        assert f"ip rule add to 10.244.0.0/16 lookup {liqo.TABLE} puts it back" in because
    finally:
        _batch(lab, "b2", liqo.rule_lines(lab.topology, lab.topology.nodes["b2"])[1])


def test_a_leg_to_the_gateway_that_is_dead_is_named_by_the_node_that_has_it(mesh):
    """A firewall between two nodes knows nothing of UDP 6091; Liqo checks from gateway pod to gateway pod."""
    lab, daemons = _settled(mesh)
    with _filtered(lab.node("a3"), "output", f"udp dport {liqo.PORT}"):
        because = _await(daemons, ("a3",), "liqo-gateway-leg")
    assert "the gateway pod answers at 10.244.1.2, past Geneve" in because


def test_a_tunnel_that_is_dead_is_named_by_all_and_no_leg_is(mesh):
    """The other end's port is filtered: gateways answer, and nothing behind them does."""
    lab, daemons = _settled(mesh)
    with _filtered(lab.pod("b1"), "input", f"udp dport {liqo.TUNNEL_PORT}"):
        because = _await(daemons, NODES, "liqo-tunnel-dead")
    assert "the gateway pod answers at 10.80.0.1 by liqo.west" in because
    assert "liqoctl info peer" in because


def test_a_gateway_pod_that_is_gone_is_stale_on_all_nodes_of_its_cluster(mesh):
    """It has another address, which the nodes were not told; the other cluster sees a tunnel that is dead."""
    lab, daemons = _settled(mesh)
    _batch(lab, "pod/a1", "address del 10.244.1.2/24 dev eth0", "address add 10.244.1.77/24 dev eth0")
    try:
        wait_until(
            lambda: all([*_found(daemons, node)] == ["liqo-gateway-stale"] for node in ("a1", "a2", "a3")),
            timeout_s=STALE_S,
            what="a1, a2 and a3 to name the gateway pod",
            poll_s=0.5,
        )
        assert {"liqo-tunnel-dead"} == {fault for node in ("b1", "b2") for fault in _found(daemons, node)}
    finally:
        _batch(
            lab,
            "pod/a1",
            "address del 10.244.1.77/24 dev eth0",
            "address add 10.244.1.2/24 dev eth0",
            "route replace default via 10.244.1.1 dev eth0",
        )
    _settled(mesh)


def test_a_gateway_that_moves_as_it_should_is_no_fault(mesh):
    """The devices are made anew at once, whole: nobody says anything, then or later."""
    lab, daemons = _settled(mesh)
    since_ns = time.monotonic_ns()
    for name in ("a1", "a2", "a3"):
        _made_anew(lab, name, has_address=True)
    pause_until(since_ns + MOVE_NS)
    assert [] == _names(daemons, NODES, since_ns)
