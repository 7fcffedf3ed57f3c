"""K3s with flannel over wg0: daemons that are told the key and the mode find the mesh that nobody leads."""

from __future__ import annotations

import itertools
import tomllib

import pytest

from netnslab import state_faults
from netnslab.daemons import CONFIGURATIONS
from netnslab.waiting import wait_until
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

NODES = ("c1", "c2", "d1", "e1")
GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Four daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("flannel-wg", tmp_path_factory.mktemp("flannel-wg")) as built:
        yield built


def test_every_node_watches_every_other_without_a_leader(mesh):
    """No location, no leader and no profile is configured, and none is missed."""
    lab, daemons, took_s = mesh
    for node, status in await_found(lab, daemons, pairs=3, took_s=took_s).items():
        given = lab.node(node).run(["cat", CONFIGURATIONS["minimal"]], check=True).stdout
        assert {"daemon": {"mode": "enforce"}, "auth": {"key_file": "/etc/meshwatchd/mesh.key"}} == tomllib.loads(given)
        assert f"site-{node}" == status["location"], node
        assert sorted(f"site-{other}" for other in NODES if other != node) == sorted(
            pair["remote_location"] for pair in status["pairs"]
        )
        assert [] == status["findings"], node
        assert 0 == daemons.control(node, "status").returncode, node


@pytest.mark.parametrize("kind", ["wireguard-peer-missing", "wireguard-device-missing"])
def test_what_wg_quick_and_wg_take_away_is_named_at_its_node(mesh, kind):
    """`wg set wg0 peer X remove` and `wg-quick down wg0`: the fault is WireGuard's and that node's."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=3)
    wait_until(lambda: lab.node("c1").run(["cat", GOOD_STATE]).stdout, timeout_s=90, what="a good state", poll_s=1.0)
    with state_faults.make(lab, kind, "c1", peer="d1"):
        wait_until(lambda: kind in _verdicts(daemons, "c1"), timeout_s=30, what=f"c1 to name {kind}", poll_s=0.5)
        assert {(kind, "c1")} == {
            (each["fault"], each["culprit"]) for each in daemons.status("c1")["findings"] if each["severity"] != "ok"
        }
        assert 2 == daemons.control("c1", "status").returncode
    await_well(lab, daemons, pairs=3)


def _verdicts(daemons, node):
    return list(itertools.chain(pair["verdict"]["fault"] for pair in daemons.status(node)["pairs"]))
