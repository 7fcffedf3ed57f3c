"""K3s with `wireguard-native`: daemons that are told the key and the mode find the mesh, and name a lost peer."""

from __future__ import annotations

import pytest

from netnslab import native_wireguard
from netnslab.waiting import wait_until
from tests.support.minimal_mesh import for_all, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

NODES = ("c1", "c2", "d1", "e1")
FOUND_S = 10.0
GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Four daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("flannel-native", tmp_path_factory.mktemp("flannel-native")) as built:
        yield built


def _is_well(status):
    return status is not None and status["is_ready"] and status["severity"] == "ok" and len(status["pairs"]) == 3


def _named(daemons, node):
    return {(pair["verdict"]["fault"], pair["verdict"]["culprit"]) for pair in daemons.status(node)["pairs"]}


def test_every_node_watches_every_other_over_flannel_wg(mesh):
    """Each is a location of its own, and is asked by its address on flannel-wg alone: no LAN is crossed."""
    lab, daemons, took_s = mesh
    assert took_s <= FOUND_S
    for_all(lab, daemons, _is_well, what="all to be well")
    for node in NODES:
        status = daemons.status(node)
        assert {"origin": "hellos", "nodes": 4, "unheard": [], "problems": []} == status["knowledge"], node
        assert {"up"} == {session["state"] for session in status["sessions"]}, node
        assert {0, 2, 5} <= {session["layer"] for session in status["sessions"]}, node


def test_a_missing_peer_is_named_at_its_node(mesh):
    """k3s#3287: flannel writes peers when nodes come, and does not look again."""
    lab, daemons, _ = mesh
    for_all(lab, daemons, _is_well, what="all to be well")
    wait_until(lambda: lab.node("c1").run(["cat", GOOD_STATE]).stdout, timeout_s=60, what="a good state", poll_s=1.0)
    device = native_wireguard.FLANNEL_DEVICE
    shown = lab.node("c1").run(["wg", "show", device, "allowed-ips"], check=True).stdout
    key = next(line.split()[0] for line in shown.splitlines() if lab.topology.nodes["d1"].pod_cidr in line)
    lab.node("c1").run(["wg", "set", device, "peer", key, "remove"], check=True)
    wait_until(
        lambda: ("wireguard-peer-missing", "c1") in _named(daemons, "c1"),
        timeout_s=30,
        what="c1 to name it",
        poll_s=0.5,
    )
