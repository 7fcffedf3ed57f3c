"""Two clusters joined by Submariner: daemons that are told the key and the mode find them, and name what breaks."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pytest

from netnslab import submariner
from netnslab.daemons import Settings
from netnslab.waiting import wait_until
from tests.support.mesh import flow
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODES = ("a1", "a2", "a3", "b1", "b2", "b3")

FLOW_S, FLOWS = 0.02, 10
"""Between two new flows, and how many of them in a row tell that traffic flows."""

SWITCHED_ON: Settings = {
    "submariner": {"leg_detour": True},
    "policy": {"hold_down": "250ms", "wait_to_restore": "1s", "half_life": "1s"},
}
"""Home soon: restraint is not what is tried here, and each detour doubles the hold-down of the next."""

DETOUR = "lookup 778"
"""Of the rule that has traffic take a detour: 7780 and 7781 are their tables."""

KNOWN_S = 4.0
"""Every established flow has had a probe since."""

TOLD_S = 15.0
"""What an audit finds has been asked again, confirmed and told."""

LOST_S = 6.0
"""Longer than anything takes with daemons."""

LEG_IS_CUT = """table inet leg {
 chain sent { type filter hook output priority 0; udp dport 4800 drop
 }
 chain come { type filter hook input priority 0; udp dport 4800 drop
 }
}
"""
HOP_IS_CUT = """table inet hop {
 chain come { type filter hook prerouting priority -300;
  iifname "eth0" ip saddr 10.244.3.0/24 ip daddr 10.245.0.0/16 drop
 }
}
"""
"""On the gateway: what a3 hands to it as next hop for the other cluster is lost; what a3 says to it is not."""
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
    """Six daemons with the minimal configuration and the switch on, and how long they took to find each other."""
    with minimal_mesh("submariner", tmp_path_factory.mktemp("submariner"), SWITCHED_ON) as built:
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


def _detour(daemons, node):
    return (daemons.status(node) or {}).get("detour", "")


def _of_detour(lab, node):
    """What of a node's rules has its traffic take a detour."""
    rules = lab.node(node).run(["ip", "rule"], check=True).stdout.splitlines()
    return [" ".join(rule.split()[3:5]) for rule in rules if DETOUR in rule and "ipproto" not in rule]


def _wait_for_detour(daemons, node, words):
    wait_until(lambda: words in _detour(daemons, node), timeout_s=20, what=f"{node} to go {words}")


def _wait_for_home(lab):
    wait_until(
        lambda: not any(_of_detour(lab, node) for node in NODES),
        timeout_s=60,
        what="all traffic to come home",
        poll_s=0.2,
    )


@contextlib.contextmanager
def _traffic(lab, one, other):
    """New flows between two pods, one after the other: what became of each, and when it began."""
    seen, is_over = [], threading.Event()

    def play():
        while not is_over.is_set():
            began = time.monotonic()
            with flow(lab.pod(one), lab.pod(other)) as between:
                seen.append((began, between.echoes()))
            is_over.wait(FLOW_S)

    player = threading.Thread(target=play)
    player.start()
    try:
        yield seen
    finally:
        is_over.set()
        player.join()


def _flows_again(seen, since):
    """The first of FLOWS new flows in a row, all of which have arrived, none begun before an instant; None for none."""
    began = [(at, arrived) for at, arrived in list(seen) if at >= since]
    run = [at for at, arrived in began[-FLOWS:] if arrived]
    return run[0] if len(run) == FLOWS else None


def test_every_pod_reaches_every_other_and_the_mesh_is_found(mesh):
    """Thirty ways between pods; locations, roles and layers; rules of ours on workers alone, that move nothing."""
    lab, daemons, took_s = mesh
    for one, other in itertools.permutations(NODES, 2):
        with flow(lab.pod(one), lab.pod(other)) as between:
            assert between.echoes_eventually(), (one, other)
    for node, status in await_found(lab, daemons, pairs=1, took_s=took_s).items():
        assert f"site-{node[0]}1" == status["location"], node
        assert ("leader" if node in ("a1", "b1") else "member") == status["role"], node
        rules = lab.node(node).run(["ip", "rule"], check=True).stdout.splitlines()
        ours = [rule for rule in rules if "proto 117" in rule]
        assert (4 if node in ("a1", "b1") else 3) == len(rules) - len(ours), rules
        assert (0 if node in ("a1", "b1") else 7) == len(ours), rules
        assert not any("lookup 7780" in rule or "lookup 7781" in rule for rule in ours), rules
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
        wait_until(lambda: time.monotonic() - armed > TOLD_S, timeout_s=TOLD_S + 1, what="a finding to be told")
        assert [] == [finding for node in ("a2", "a3") for finding in daemons.status(node)["findings"]]
        assert [("overlay-new-flows", "a1")] * 2 == _verdicts(daemons, ("a2", "a3"))
        wait_until(
            lambda: {"overlay-new-flows"} == {fault for fault, _ in _verdicts(daemons, ("b1", "b2", "b3"))},
            timeout_s=30,
            what="the other cluster to say what is broken",
        )
        assert {"a1"} == {culprit for _, culprit in _verdicts(daemons, ("b1", "b2", "b3"))}
    await_well(lab, daemons, pairs=1)


def test_a_worker_without_its_leg_goes_by_its_gateway_and_comes_home(mesh):
    """New flows from pod to pod stop for less than a second, and go by the leg again when it is well."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    _wait_for_home(lab)
    with _traffic(lab, "a3", "b3") as seen:
        with _filtered(lab, "a3", "leg", LEG_IS_CUT):
            cut = time.monotonic()
            wait_until(lambda: _flows_again(seen, cut), timeout_s=20, what="new flows to go around the leg")
            assert any(not arrived for at, arrived in seen if at >= cut - 2 * FLOW_S)
            assert "by a1, via 192.168.100.11 on eth0" == _detour(daemons, "a3")
            assert "" == _detour(daemons, "a2")
            assert {"lookup 7780"} <= set(_of_detour(lab, "a3"))
            _wait_named(daemons, ("a3",), "overlay-black-hole", "a3")
            wait_until(lambda: "warning" == daemons.status("a3")["severity"], timeout_s=20, what="traffic to count")
            wait_until(lambda: time.monotonic() - cut > TOLD_S, timeout_s=TOLD_S + 1, what="a finding to be told")
            assert [] == daemons.status("a3")["findings"]
            assert [("overlay-black-hole", "a3")] == _verdicts(daemons, ("a3",))
        _wait_for_home(lab)
        home = time.monotonic()
        wait_until(lambda: _flows_again(seen, home), timeout_s=20, what="new flows over the leg")
        assert all(arrived for at, arrived in seen if at >= home - 1)
    assert "" == _detour(daemons, "a3")
    await_well(lab, daemons, pairs=1)


def test_without_its_gateway_as_next_hop_a_worker_goes_by_a_neighbour(mesh):
    """What a3 hands to a1 itself is lost as well: a2 takes it, and sends it by its own leg."""
    lab, daemons, _ = mesh
    _wait_for_home(lab)
    with _traffic(lab, "a3", "b3") as seen, _filtered(lab, "a1", "hop", HOP_IS_CUT):
        with _filtered(lab, "a3", "leg", LEG_IS_CUT):
            cut = time.monotonic()
            wait_until(lambda: _flows_again(seen, cut), timeout_s=20, what="new flows to go by the neighbour")
            assert "by a2, via 192.168.100.12 on eth0" == _detour(daemons, "a3")
        _wait_for_home(lab)
    await_well(lab, daemons, pairs=1)


def test_a_half_dead_gateway_is_gone_around_to_itself(mesh):
    """Its leg is dead for new flows and Submariner is content: both workers hand it packets by the pods' network."""
    lab, daemons, _ = mesh
    _wait_for_home(lab)
    with _traffic(lab, "a2", "b2") as seen:
        with _filtered(lab, "a1", "half", HALF_DEAD):
            armed = time.monotonic()
            wait_until(
                lambda: time.monotonic() - armed > KNOWN_S, timeout_s=10, what="the established flows to be known"
            )
            _load(lab, "a1", NEW_FLOWS_DIE)
            cut = time.monotonic()
            wait_until(lambda: _flows_again(seen, cut), timeout_s=20, what="new flows to go around the leg")
            for node in ("a2", "a3"):
                _wait_for_detour(daemons, node, "by a1,")
            assert ["", "", ""] == [_detour(daemons, node) for node in ("b1", "b2", "b3")]
        _wait_for_home(lab)
    await_well(lab, daemons, pairs=1)


def test_without_its_daemon_the_same_worker_stays_cut_off(mesh):
    """What the daemon changes: nothing of Submariner's brings new flows back."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    _wait_for_home(lab)
    daemons.stop("a3")
    with _traffic(lab, "a3", "b3") as seen:
        wait_until(lambda: _flows_again(seen, 0), timeout_s=20, what="flows")
        with _filtered(lab, "a3", "leg", LEG_IS_CUT):
            cut = time.monotonic()
            wait_until(lambda: time.monotonic() - cut > LOST_S, timeout_s=20, what="time to pass")
        lost = [arrived for at, arrived in seen if cut + FLOW_S < at < cut + LOST_S - 1]
        assert lost
        assert not any(lost)
        healed = time.monotonic()
        wait_until(lambda: _flows_again(seen, healed), timeout_s=20, what="flows over the leg")
    daemons.start("a3")
    await_well(lab, daemons, pairs=1)
