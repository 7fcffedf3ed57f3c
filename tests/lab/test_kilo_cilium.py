"""Kilo over Cilium with daemons that are told nothing but where the mesh key is, and the mode.

On a kernel without IPIP and WireGuard processes play both, so that six daemons run at their ordinary pace;
tests/lab/stock_kernel has the kernel's own.
"""

from __future__ import annotations

import tomllib

import pytest

from netnslab import faults, varlink
from netnslab.daemons import CONFIGURATIONS, INTERFACE, SOCKET
from tests.support.minimal_mesh import await_answers
from tests.support.stage import QUICK, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LEADERS = {"a1": "site-a1", "b1": "site-b1"}
PATHS = [("a1", "b1"), ("a2", "b1"), ("a1", "b2"), ("a2", "b2"), ("a1", "b1")]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Six daemons with the minimal configuration, traffic both ways."""
    directory = tmp_path_factory.mktemp("cilium")
    with stage(directory, settings={"policy": QUICK["policy"]}, config="minimal", topology="kilo-cilium") as built:
        yield built


def _topology(mesh, node):
    (reply,) = varlink.call(mesh.lab.node(node), SOCKET, f"{INTERFACE}.Topology")
    return reply["view"]


def test_daemons_that_are_told_nothing_find_the_mesh(mesh):
    """Locations, leaders, members that no kernel names to each other, and standby links that nobody has declared."""
    mesh.settle()
    await_answers(mesh.lab, mesh.daemons)
    for node in mesh.nodes:
        given = mesh.lab.node(node).run(["cat", CONFIGURATIONS["minimal"]], check=True).stdout
        assert {"daemon": {"mode": "enforce"}, "auth": {"key_file": "/etc/meshwatchd/mesh.key"}} == tomllib.loads(given)
        status = mesh.daemons.status(node)
        assert {"origin": "hellos", "nodes": 6, "unheard": [], "problems": []} == status["knowledge"], node
        assert f"site-{node[0]}1" == status["location"], node
        assert PATHS == [tuple(path["relays"]) for path in status["pairs"][0]["paths"]], node
        states = [path["state"] for path in status["pairs"][0]["paths"] if node in path["relays"]]
        assert {"good"} >= set(states), node
    assert [] == mesh.events(0, "rules.moved"), "Cilium's own rules are in nobody's way"
    shown = mesh.lab.node("a2").run(["cat", "/var/lib/meshwatchd/links/mw2.conf"], check=True).stdout
    assert "Endpoint = 198.51.100.22:51832" in shown


def test_each_node_says_how_it_recognised_kilo_over_cilium(mesh):
    """Both profiles hold, one over the other, and the reasons name where they were read."""
    mesh.settle()
    for node in mesh.nodes:
        view = _topology(mesh, node)
        assert ["kilo", "cilium"] == view["profiles"], node
        assert (node in LEADERS) == view["is_leader"], node
        assert ["kilo0", "tunl0", "cilium_vxlan", "eth0"] == [layer["device"] for layer in view["layers"]], node
        page = mesh.daemons.control(node, "topology", "--why").stdout
        assert "Kilo's compatibility is cilium" in page
        assert "takes each packet's destination from eBPF" in page


@pytest.mark.parametrize(("make", "leader"), [(faults.overlay_black_hole_new_flows, "b1"), (faults.leader_dead, "a1")])
def test_a_fault_at_a_leader_is_survived(mesh, make, leader):
    """All move to a path without the leader, flows that begin then get through, and all come home."""
    mesh.settle()
    fault = make(mesh.lab, leader)
    deaf = (leader,) if make is faults.leader_dead else ()
    with mesh.struck(fault) as strike:
        rank = mesh.wait_switched(deaf=deaf)
        mesh.wait_restored(strike.began_ns)
        assert leader not in mesh.relays(rank)
        mesh.wait_verdicts(fault.expected.fault, leader, [node for node in mesh.nodes if node not in deaf])
        assert mesh.connections_live_on()
