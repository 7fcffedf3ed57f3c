"""Kilo changes leaders on packets: daemons that were told nothing follow, and take none of it for a fault.

Every node's kernel is rewritten as Kilo's agents do it (`netnslab.kilo_agents`). How long the daemons took is printed;
asserted is that all of them have followed, that nobody was accused, and that traffic comes home. It may leave Kilo's
path meanwhile: `make bench-leaders` measures that new flows are never lost for longer than without daemons.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

import pytest

from meshwatchd.model.ids import Layer
from netnslab.kilo_agents import STARTED_TO_WRITING_NS, TRANSIENT_NS, KiloAgents
from netnslab.leader_changes import accusations, follow
from netnslab.waiting import pause_until
from tests.support.stage import QUICK, SECOND, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

EVERYBODY = ("a1", "a2", "a3", "b1", "b2", "b3")
CALM_NS = 14 * SECOND
"""Patience with an agent at work is spent after five seconds, and back after ten of calm, which begin 3.1 s after its
last change: it is at work for 2.5 s, and a neighbour's word of that counts for 0.6 s (`topology_change_hold`)."""
AFTERWARDS_NS = 6 * SECOND
"""What a change might be blamed for later than this is something else."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Six daemons with the minimal configuration, traffic both ways."""
    with stage(tmp_path_factory.mktemp("leaders"), settings={"policy": QUICK["policy"]}, config="minimal") as built:
        yield built


@pytest.fixture(scope="module")
def agents(mesh):
    """Kilo's, on every node."""
    return KiloAgents(mesh.lab)


@pytest.fixture(autouse=True)
def _calm(mesh, agents):
    """Each test begins with a mesh that is well, and that Kilo has left alone for a while."""
    mesh.settle()
    pause_until(agents.done_ns + CALM_NS)


def _status(mesh, node):
    return json.loads(mesh.daemons.control(node, "--json", "status").stdout)


def _processes(mesh) -> Mapping[str, tuple[int, int]]:
    return {node: (mesh.daemons.engine_pid(node), mesh.daemons.agent_pid(node)) for node in EVERYBODY}


def _follow(mesh, since_ns, leader, *, nodes=EVERYBODY):
    """Wait until each node's engine has taken over a mesh with this leader; seconds until the last one had."""
    return max(follow(mesh.events, since_ns, leader, nodes).values()) / SECOND


def _assert_calm(mesh, since_ns) -> None:
    _assert_calm_but_for(mesh, since_ns, "nobody")


def _assert_calm_but_for(mesh, since_ns, node) -> None:
    pause_until(since_ns + AFTERWARDS_NS)
    assert [] == [each for each in accusations(mesh.events(since_ns)) if not each.endswith(f" at {node}")]
    mesh.wait_home()
    assert 0 == mesh.lost(time.monotonic_ns(), time.monotonic_ns() + SECOND)


def _relays(mesh, node) -> list[tuple[str, ...]]:
    return [tuple(path["relays"]) for path in _status(mesh, node)["pairs"][0]["paths"]]


def _tell(capsys, what: str, seconds: float) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {seconds:.2f} s\n")


@pytest.mark.parametrize("change", ["b1 to b2", "b2 to b1"])
def test_a_leader_change_is_followed_and_is_no_fault(mesh, agents, capsys, change):
    """The annotation moves there and back: the same processes lead, relay and probe by other paths than before."""
    former, leader = change.split(" to ")
    before = _processes(mesh)
    began_ns = agents.elect(leader).began_ns
    _tell(capsys, f"{leader} leads instead of {former}", _follow(mesh, began_ns, leader))
    _assert_calm(mesh, began_ns)

    mesh.settle()
    paths = [("a1", leader), ("a2", leader), ("a1", former), ("a2", former), ("a1", leader)]
    for node in EVERYBODY:
        assert paths == _relays(mesh, node), node
    assert ["leader", "standby"] == [_status(mesh, node)["role"] for node in (leader, former)]
    assert before == _processes(mesh)
    assert [] == mesh.events(began_ns, "agent.restarted", "plan.refused", "collision.found", "topology.rejected")


def test_a_member_whose_agent_starts_again_does_not_lead(mesh, agents):
    """b3's kilo0 is up for 0.2 s, which is what makes a leader."""
    began = agents.restart("b3").began_ns
    _assert_calm(mesh, began)
    assert [] == mesh.events(began, "topology.changed")


@pytest.mark.parametrize("leader", ["b1", "a1"])
def test_a_leader_whose_agent_starts_again_is_no_fault(mesh, agents, leader):
    """It has no peers for 0.2 s and stays up: no kernel tells anybody, and across the tunnel there is but silence.

    a1 has another address meanwhile besides, and loses the routes over kilo0 with its own.
    """
    change = agents.restart(leader)
    assert change.done_ns - change.began_ns >= TRANSIENT_NS
    _assert_calm(mesh, change.began_ns)
    told = [event.node for event in mesh.events(change.began_ns, "mesh.unsettled")]
    assert leader in told
    assert [] == mesh.events(change.began_ns, "topology.changed")


def test_a_leader_whose_agent_is_ended_and_started_again_keeps_no_path_dead(mesh, agents):
    """SIGTERM takes Kilo's routes away; the others elect b2; a second later b1 is back, and they turn to it at once.

    Until the others elect, b1 relays nothing indeed, and may be named; it may itself find its path broken, whose routes
    are gone from it. Then b1 is out of service, so that nothing is lost when they turn to it before it has a route. No
    change of leaders takes the standby path away that traffic has left for.
    """
    began_ns = agents.terminate("b1", successor="b2").began_ns
    pause_until(time.monotonic_ns() + SECOND)
    proposed = {(event.fields["reason"], event.node) for event in mesh.events(began_ns, "failover.proposed")}
    start = agents.start("b1")
    assert {"drained"} == {reason for reason, _ in proposed - {("broken", "b1")}}
    assert start.done_ns - start.began_ns >= STARTED_TO_WRITING_NS
    assert 0 == mesh.lost(start.began_ns, start.done_ns + SECOND)
    _assert_calm_but_for(mesh, began_ns, "b1")
    assert ["b1", "b1"] == [event.node for event in mesh.events(began_ns, "order.given", "order.ended")]
    mesh.settle()
    assert {"b1"} == {_relays(mesh, node)[0][1] for node in EVERYBODY}
    assert [] == mesh.events(began_ns, "agent.restarted", "plan.refused", "collision.found", "override.retired")


def test_a_device_that_is_made_anew_is_no_fault(mesh, agents):
    """kilo0 of b1 goes down for 0.2 s and takes its routes along."""
    change = agents.remake("b1")
    assert change.done_ns - change.began_ns >= TRANSIENT_NS
    _assert_calm(mesh, change.began_ns)
    assert [] == mesh.events(change.began_ns, "topology.changed")


def test_a_leader_whose_agent_has_died_is_replaced(mesh, agents, capsys):
    """The others route by b2 and not to b1, whose kernel goes on as if it led: of all nodes b1 alone may be blamed."""
    others = [node for node in EVERYBODY if node != "b1"]
    agents.die("b1")
    began_ns = agents.elect("b2").began_ns
    try:
        _tell(capsys, "b2 leads instead of b1, whose agent is dead", _follow(mesh, began_ns, "b2", nodes=others))
        pause_until(began_ns + AFTERWARDS_NS)
        assert [] == [each for each in accusations(mesh.events(began_ns)) if not each.endswith(" at b1")]
        assert {"b2"} == {_relays(mesh, node)[0][1] for node in others}
    finally:
        agents.revive("b1", leader="b1")


def test_a_route_that_a_killed_agent_has_left_hides_no_tunnel(mesh):
    """b1 leads, and its route to the tunnel's far end by way of b2 is of a life that its agent has forgotten.

    Nothing but a probe of the tunnel would follow it.
    """
    began_ns = time.monotonic_ns()
    stale = ["10.4.0.2", "via", "10.244.5.0", "dev", "flannel.1", "proto", "static", "onlink"]
    mesh.lab.node("b1").run(["ip", "route", "add", *stale], check=True)
    try:
        pause_until(began_ns + AFTERWARDS_NS)
        assert [] == mesh.events(began_ns, "verdict.changed")
        tunnels = [each for each in _status(mesh, "b1")["sessions"] if each["layer"] == Layer.WIREGUARD]
        assert {("a1", "up")} == {(each["peer"], each["state"]) for each in tunnels}
    finally:
        mesh.lab.node("b1").run(["ip", "route", "del", *stale], check=True)
