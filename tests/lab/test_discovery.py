"""Daemons that are told nothing but where the mesh key is, and the mode, find their mesh and heal it."""

from __future__ import annotations

import json

import pytest

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.stage import QUICK, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

EVERYBODY = ("a1", "a2", "a3", "b1", "b2", "b3")
LEADERS = {"site-a1": "a1", "site-b1": "b1"}
PATHS = [("a1", "b1"), ("a2", "b1"), ("a1", "b2"), ("a2", "b2"), ("a1", "b1")]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Six daemons with the minimal configuration, traffic both ways."""
    with stage(tmp_path_factory.mktemp("discovery"), settings={"policy": QUICK["policy"]}, config="minimal") as built:
        yield built


def _status(mesh, node):
    return json.loads(mesh.daemons.control(node, "--json", "status").stdout)


def _origin(mesh, node):
    """Where a node knows its mesh from, and how many nodes it has; None while it does not answer."""
    status = mesh.daemons.status(node)
    return status and (status["knowledge"]["origin"], status["knowledge"]["nodes"])


def test_all_nodes_find_the_same_mesh(mesh):
    """Names, relays and their order are those of one mesh, and all of it was told by hellos."""
    mesh.settle()
    for node in EVERYBODY:
        status = _status(mesh, node)
        assert {"origin": "hellos", "nodes": 6, "unheard": [], "problems": []} == status["knowledge"], node
        assert f"site-{node[0]}1" == status["location"], node
        assert PATHS == [tuple(path["relays"]) for path in status["pairs"][0]["paths"]], node
    # Daemons that start one after the other may have found a part first; what they have found last is the whole.
    found = [line["leaders"] for line in mesh.log_lines("info") if line["event"] == "mesh.found" and line["nodes"] == 6]
    assert len(EVERYBODY) <= len(found)
    assert all(LEADERS == leaders for leaders in found)


def test_standby_links_form_by_themselves(mesh):
    """Each backup has an endpoint that only others could tell it, and every relay sees its standby paths good."""
    mesh.settle()
    for node in ("a1", "a2", "b1", "b2"):
        states = [path["state"] for path in _status(mesh, node)["pairs"][0]["paths"] if node in path["relays"]]
        assert {"good"} == set(states), node
    shown = mesh.lab.node("a2").run(["cat", "/var/lib/meshwatchd/links/mw2.conf"], check=True).stdout
    assert "Endpoint = 198.51.100.22:51832" in shown


def test_the_fault_this_project_began_with_is_healed(mesh):
    """As with a declared mesh: all move, traffic is restored, and all come home."""
    mesh.settle()
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        rank = mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        assert "b1" not in mesh.relays(rank)


def test_a_daemon_that_starts_alone_knows_the_mesh(mesh):
    """Its own agent is enough: what was known is in a file."""
    mesh.settle()
    mesh.daemons.stop()
    mesh.daemons.start("b3")
    try:
        wait_until(lambda: _origin(mesh, "b3") == ("cache", 6), timeout_s=20, what="b3 to remember the mesh")
    finally:
        for node in EVERYBODY[:5]:
            mesh.daemons.start(node)
        mesh.settle()
