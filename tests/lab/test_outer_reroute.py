"""Outer packets to one node of another cluster through a neighbour, on real packets: `[cilium] outer_reroute`.

What is lost is what e1 and w1 send each other themselves, as where a switch forgets a port of theirs; the same packets
through another node pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netnslab import Lab
from netnslab.daemon_config import MINIMAL
from netnslab.daemons import Daemons, Process
from netnslab.site import WAN
from netnslab.waiting import wait_until
from tests.support.mesh import fresh_flows_alive
from tests.support.minimal_mesh import await_well

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TOPOLOGY = "cilium-clustermesh"
OUTER_PORT = "51871"
REROUTED_S = 20
"""From the loss until pods reach each other: the probes' doubt, six silent rounds, a trial at both ends."""
SWITCH = '\n[cilium]\nouter_reroute = true\n\n[policy]\nhold_down = "5s"\nwait_to_restore = "3s"\n'


@contextmanager
def _cut(lab: Lab, one: str, other: str) -> Iterator[None]:
    """Drop what two nodes send each other with their own MAC: whatever it is, and nothing of anybody else's."""
    pairs = ((lab.topology.nodes[one], lab.topology.nodes[other]), (lab.topology.nodes[other], lab.topology.nodes[one]))
    rules = [
        f"    ether saddr {near.eth0_mac} ip saddr {near.node_ip} ip daddr {far.node_ip} drop" for near, far in pairs
    ]
    chain = ["  chain between {", "    type filter hook forward priority 0; policy accept;", *rules, "  }"]
    place, text = lab.site.inhabitant(WAN), "\n".join(["table inet cut {", *chain, "}"])
    place.run(["sh", "-c", f"nft -f - <<'END'\n{text}\nEND"], check=True)
    try:
        yield
    finally:
        place.run(["nft", "delete", "table", "inet", "cut"], check=True)


def _is_alive(lab: Lab, one: str, other: str) -> bool:
    return fresh_flows_alive(lab.pod(one), lab.pod(other), 2) == 2


def _next_hop(lab: Lab, node: str, far: str) -> str:
    """Whom the kernel of a node sends outer packets to."""
    command = ["ip", "route", "get", lab.topology.nodes[far].node_ip, "ipproto", "udp", "dport", OUTER_PORT]
    words = lab.node(node).run(command, check=True).stdout.split()
    return words[words.index("via") + 1]


def _objects(lab: Lab, node: str) -> str:
    """Everything of this kind in the kernel of a node."""
    lines = lab.node(node).run(["ip", "rule"], check=True).stdout.splitlines()
    routes = [lab.node(node).run(["ip", "route", "show", "table", table]).stdout for table in ("7796", "7797")]
    return "".join([line for line in lines if "lookup 779" in line] + routes)


def _findings(daemons, node):
    found = (daemons.status(node) or {"findings": ()})["findings"]
    return "\n".join(line for each in found if each["fault"] == "outer-way-broken" for line in each["because"])


def test_a_dead_way_between_two_nodes_is_an_outage_without_us_and_advice_without_the_switch(tmp_path: Path) -> None:
    """Nobody else does anything about it; what would be done is told with the commands, and they work."""
    with Lab.up(TOPOLOGY) as lab:
        wait_until(lambda: _is_alive(lab, "e1", "w1"), timeout_s=20, what="pods to reach each other", poll_s=0.2)
        with _cut(lab, "e1", "w1"):
            began = time.monotonic()
            while time.monotonic() - began < REROUTED_S:
                assert fresh_flows_alive(lab.pod("e1"), lab.pod("w1"), 2) == 0
            assert _is_alive(lab, "e2", "w1")
            assert _is_alive(lab, "e1", "w2")
        with Daemons(lab, tmp_path, config="minimal") as daemons:
            await_well(lab, daemons, pairs=1)
            with _cut(lab, "e1", "w1"):
                wait_until(
                    lambda: all("ip route add" in _findings(daemons, node) for node in ("e1", "w1")),
                    timeout_s=2 * REROUTED_S,
                    what="advice at both ends",
                    poll_s=0.2,
                )
                assert {""} == {_objects(lab, node) for node in lab.topology.nodes}
                assert "[cilium] outer_reroute = true" in _findings(daemons, "e1")
                for node in ("e1", "w1"):
                    _do_as_told(lab, node, _findings(daemons, node))
                wait_until(lambda: _is_alive(lab, "e1", "w1"), timeout_s=5, what="the commands to help", poll_s=0.2)
                assert {""} == {_objects(lab, node) for node in lab.topology.nodes}


def _do_as_told(lab: Lab, node: str, said: str) -> None:
    """As a person would: each command of the advice."""
    (line,) = (line for line in said.splitlines() if line.startswith("to send outer packets"))
    for command in line.partition("as root: ")[2].split("; "):
        lab.node(node).run(command.split(), check=True)


def test_with_the_switch_a_neighbour_carries_it_until_the_own_way_is_well(tmp_path: Path) -> None:
    """Through kills of agent and relay; home without a loss, and nothing is left by an end in order."""
    with Lab.up(TOPOLOGY) as lab:
        for node in lab.topology.nodes:
            lab.node(node).run(["sh", "-c", f"cat >> {MINIMAL} <<'END'\n{SWITCH}\nEND"], check=True)
        direct = {"e1": _next_hop(lab, "e1", "w1"), "w1": _next_hop(lab, "w1", "e1")}
        with Daemons(lab, tmp_path, config="minimal") as daemons:
            await_well(lab, daemons, pairs=1)
            assert {""} == {_objects(lab, node) for node in lab.topology.nodes}
            with _cut(lab, "e1", "w1"):
                assert fresh_flows_alive(lab.pod("e1"), lab.pod("w1"), 2) == 0
                wait_until(lambda: _is_alive(lab, "e1", "w1"), timeout_s=REROUTED_S, what="a relay", poll_s=0.1)
                assert _next_hop(lab, "e1", "w1") in {lab.topology.nodes[each].node_ip for each in ("e2", "e3")}
                assert _next_hop(lab, "w1", "e1") in {lab.topology.nodes[each].node_ip for each in ("w2", "w3")}
                assert {""} == {_objects(lab, node) for node in ("e2", "e3", "w2", "w3")}
                wait_until(
                    lambda: "outer packets to w1 (10.82.0.11) go through" in _findings(daemons, "e1"),
                    timeout_s=30,
                    what="e1 to say so",
                    poll_s=0.2,
                )
                daemons.kill("e1", Process.AGENT)
                _stays_alive(lab, 8)
                _lose_the_relay(lab)
            wait_until(
                lambda: {""} == {_objects(lab, node) for node in lab.topology.nodes},
                timeout_s=60,
                what="all to go their own way",
                poll_s=0.1,
            )
            assert direct == {"e1": _next_hop(lab, "e1", "w1"), "w1": _next_hop(lab, "w1", "e1")}
            _stays_alive(lab, 3)
            with _cut(lab, "e1", "w1"):
                wait_until(lambda: _is_alive(lab, "e1", "w1"), timeout_s=60, what="a relay", poll_s=0.1)
                daemons.stop("e1")
                assert "" == _objects(lab, "e1")
            errors = [each for each in daemons.events() if each.name == "agent.failed"]
            assert [] == errors


def _lose_the_relay(lab: Lab) -> None:
    """It stops forwarding; another one takes its place."""
    relay = next(node for node in ("e2", "e3") if lab.topology.nodes[node].node_ip == _next_hop(lab, "e1", "w1"))
    lab.node(relay).run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=True)
    wait_until(lambda: _is_alive(lab, "e1", "w1"), timeout_s=2 * REROUTED_S, what="another relay", poll_s=0.1)
    assert _next_hop(lab, "e1", "w1") != lab.topology.nodes[relay].node_ip
    lab.node(relay).run(["sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)


def _stays_alive(lab: Lab, seconds: float) -> None:
    """Not even for a second are they without each other; a machine with much to do is late for longer than one try."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        is_alive = any(_is_alive(lab, "e1", "w1") for _ in range(3))
        assert is_alive, f"after {time.monotonic() - began:.1f} s, with {_objects(lab, 'e1') or 'nothing'} at e1"
