"""Two clusters joined by Submariner: daemons that are told the key and the mode find them, and name what breaks."""

from __future__ import annotations

import contextlib
import itertools
import time

import pytest

from netnslab import submariner
from netnslab.waiting import wait_until
from tests.support.mesh import flow
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODES = ("a1", "a2", "a3", "b1", "b2", "b3")

KNOWN_S = 4.0
"""Every established flow has had a probe since."""

LEG_IS_CUT = """table inet leg {
 chain sent { type filter hook output priority 0; udp dport 4800 drop
 }
 chain come { type filter hook input priority 0; udp dport 4800 drop
 }
}
"""
HALF_DEAD = """table inet half {
 set known { type ipv4_addr . inet_service; flags dynamic,timeout; timeout 5s; }
 chain come { type filter hook input priority 0; }
}
add rule inet half come udp dport 4800 update @known { ip saddr . udp sport }
"""
NEW_FLOWS_DIE = """flush chain inet half come
add rule inet half come udp dport 4800 ip saddr . udp sport @known update @known { ip saddr . udp sport } accept
add rule inet half come udp dport 4800 drop
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Six daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("submariner", tmp_path_factory.mktemp("submariner")) as built:
        yield built


def _verdicts(daemons, nodes):
    """What nodes say of the other cluster: fault and culprit."""
    pairs = [(daemons.status(node) or {"pairs": ()})["pairs"] for node in nodes]
    return [(pair["verdict"]["fault"], pair["verdict"]["culprit"]) for each in pairs for pair in each]


def _wait_named(daemons, nodes, fault, culprit):
    wait_until(
        lambda: [(fault, culprit)] * len(nodes) == _verdicts(daemons, nodes),
        timeout_s=40,
        what=f"{', '.join(nodes)} to name {fault} at {culprit}",
        poll_s=0.5,
    )


def _because(daemons, node):
    (pair,) = daemons.status(node)["pairs"]
    return "\n".join(pair["verdict"]["because"])


def _load(lab, node, ruleset):
    lab.node(node).run(["nft", "-f", "-"], input=ruleset, check=True)


@contextlib.contextmanager
def _without(lab, node, delete, add):
    """An object of the kernel is gone for a while."""
    lab.node(node).run(["ip", *delete.split()], check=True)
    try:
        yield
    finally:
        lab.node(node).run(["ip", *add.split()], check=True)


@contextlib.contextmanager
def _filtered(lab, node, table, ruleset):
    _load(lab, node, ruleset)
    try:
        yield
    finally:
        lab.node(node).run(["nft", "delete", "table", "inet", table], check=True)


def test_every_pod_reaches_every_other_and_the_mesh_is_found(mesh):
    """Thirty ways between pods; locations, roles and layers; and not one rule of ours."""
    lab, daemons, took_s = mesh
    for one, other in itertools.permutations(NODES, 2):
        with flow(lab.pod(one), lab.pod(other)) as between:
            assert between.echoes_eventually(), (one, other)
    for node, status in await_found(lab, daemons, pairs=1, took_s=took_s).items():
        assert f"site-{node[0]}1" == status["location"], node
        assert ("leader" if node in ("a1", "b1") else "member") == status["role"], node
        rules = lab.node(node).run(["ip", "rule"], check=True).stdout.splitlines()
        assert (4 if node in ("a1", "b1") else 3) == len(rules), rules
    assert "a2" not in {s["peer"] for s in daemons.status("a3")["sessions"] if s["layer"] == 4}


def test_a_worker_whose_leg_to_the_gateway_is_dead_is_named_by_all_who_miss_it(mesh):
    """Submariner's own checks see nothing: UDP 4800 is crossed by nobody's ping."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    with _filtered(lab, "a3", "leg", LEG_IS_CUT):
        _wait_named(daemons, ("a3", "b1", "b2", "b3"), "overlay-black-hole", "a3")
        assert [("none", "")] * 2 == _verdicts(daemons, ("a1", "a2"))
        assert "UDP 4800" in _because(daemons, "a3")


def test_a_route_that_a_worker_has_lost_is_named_with_the_remedy(mesh):
    """submariner#2914: nothing puts it back, and the gateways' health check is content."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    add = submariner.route_line("10.245.0.0/16", lab.topology.nodes["a1"])
    with _without(lab, "a3", "route del 10.245.0.0/16", add):
        _wait_named(daemons, ("a3", "b1", "b2", "b3"), "pod-route-diverted", "a3")
        assert [("none", "")] * 2 == _verdicts(daemons, ("a1", "a2"))
        assert "delete pod -l app=submariner-routeagent --field-selector spec.nodeName=a3" in _because(daemons, "a3")


def test_a_gateway_without_its_rule_names_itself(mesh):
    """All traffic of the cluster is lost, its own word included: the other cluster knows no culprit."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    with _without(lab, "a1", "rule del pref 150", "rule add pref 150 lookup 150"):
        _wait_named(daemons, ("a1",), "pod-route-diverted", "a1")
        assert "ip rule add pref 150 lookup 150" in _because(daemons, "a1")
        assert {""} == {culprit for _, culprit in _verdicts(daemons, ("a2", "a3", "b1", "b2", "b3"))}


def test_a_half_dead_gateway_is_named_with_the_label_that_moves_it(mesh):
    """Handshakes go on, flows that are known pass, and nothing new gets from a worker to the gateway."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    with _filtered(lab, "a1", "half", HALF_DEAD):
        armed = time.monotonic()
        wait_until(lambda: time.monotonic() - armed > KNOWN_S, timeout_s=10, what="the established flows to be known")
        _load(lab, "a1", NEW_FLOWS_DIE)
        _wait_named(daemons, ("a1", "a2", "a3"), "overlay-new-flows", "a1")
        assert "kubectl label node a1 submariner.io/gateway-" in _because(daemons, "a2")
        wait_until(
            lambda: {"overlay-new-flows"} == {fault for fault, _ in _verdicts(daemons, ("b1", "b2", "b3"))},
            timeout_s=30,
            what="the other cluster to say what is broken",
        )
        assert {"a1"} == {culprit for _, culprit in _verdicts(daemons, ("b1", "b2", "b3"))}
    await_well(lab, daemons, pairs=1)
