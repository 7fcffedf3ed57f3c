"""`kubectl drain` and `uncordon`, by the real kubectl, of nodes that relay: where traffic is then, and what is lost."""

from __future__ import annotations

import time

import pytest

from netnslab import faults
from netnslab.kube_api.objects import ApiError, as_object
from netnslab.kube_api.resources import PODS
from netnslab.waiting import wait_until
from tests.support.kube_stage import SETTINGS, kube_stage
from tests.support.stage import SECOND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

FOLLOWING = {**SETTINGS, "promotion": {"mode": "off"}, "gating": {"mode": "off"}, "drain": {"follow": True}}
"""Nothing is written, and a drain of one's own node is followed (docs/kubernetes.md)."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A mesh whose relays of the cloud follow a drain; one pod runs on either."""
    with kube_stage(tmp_path_factory.mktemp("drain"), writers=("b1", "b2"), settings=FOLLOWING) as built:
        for node in ("b1", "b2"):
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": "1", "controller": True}
            pod = {"metadata": {"name": f"shop-{node}", "ownerReferences": [owner]}, "spec": {"nodeName": node}}
            built.kube.store.create(PODS, as_object(pod), "default")
        yield built


def _kubectl(cluster, *arguments):
    """Run it where the API is, with its kubeconfig."""
    command = ["kubectl", "--kubeconfig", str(cluster.kube.kubeconfig), *arguments]
    done = cluster.mesh.lab.node("a3").run(command, timeout=60)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def _drained(cluster, node: str) -> None:
    """Drain a node, and wait until its daemon is out of service and its pod gone."""
    assert "drained" in _kubectl(cluster, "drain", node, "--ignore-daemonsets", "--timeout=30s")
    wait_until(lambda: _is_out_of_service(cluster, node), timeout_s=10, what=f"{node} out of service", poll_s=0.2)
    with pytest.raises(ApiError):
        cluster.kube.store.get(PODS, f"shop-{node}", "default")


def _is_out_of_service(cluster, node: str) -> bool:
    return "drain" in {order["kind"] for order in cluster.mesh.daemons.status(node)["orders"]}


def _uncordoned(cluster, node: str) -> None:
    _kubectl(cluster, "uncordon", node)
    wait_until(lambda: not _is_out_of_service(cluster, node), timeout_s=10, what=f"{node} in service", poll_s=0.2)


def test_traffic_leaves_a_drained_leader_and_comes_home_without_a_lost_flow(cluster):
    """b1 is well; it is drained, and put back."""
    mesh = cluster.mesh
    mesh.settle()
    began_ns = time.monotonic_ns()

    _drained(cluster, "b1")
    rank = mesh.wait_switched()
    _uncordoned(cluster, "b1")
    mesh.wait_home()

    assert "b1" not in mesh.relays(rank)
    assert 0 == mesh.lost(began_ns, time.monotonic_ns() + SECOND)


def test_a_drain_of_the_relay_that_a_failover_needs_loses_nothing(cluster):
    """b1 passes nothing on, traffic goes over b2, and somebody drains b2: nothing else answers."""
    mesh = cluster.mesh
    mesh.settle()
    with mesh.struck(faults.overlay_black_hole(mesh.lab, "b1")) as strike:
        mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        began_ns = time.monotonic_ns()

        _drained(cluster, "b2")
        is_over = time.monotonic_ns() + 5 * SECOND
        lost = mesh.lost(began_ns, is_over)
        _uncordoned(cluster, "b2")

    assert 0 == lost
    assert 0 == mesh.lost(began_ns, time.monotonic_ns() + SECOND)
