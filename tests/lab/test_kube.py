"""A failover that is made to last: Kilo is moved to another leader, and back, and no flow is lost on either way.

Kilo is played by the annotations (`netnslab.kilo_follower`); meshwatchd-kube runs on three of six nodes. Lost flows are
counted from the end of the outage that the fault itself causes until traffic is home over the new leader.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import pytest

from netnslab import faults
from netnslab.kube_api.objects import part
from netnslab.kube_api.resources import NODES
from netnslab.leader_changes import follow
from netnslab.traffic_report import measure_outage
from netnslab.waiting import pause_until, wait_until
from tests.support.kube_stage import WRITERS, kube_stage
from tests.support.stage import SECOND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

EVERYBODY = ("a1", "a2", "a3", "b1", "b2", "b3")
LEADER = "kilo.squat.ai/leader"
TAINT_KEY = "meshwatchd.io/overlay-broken"


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """One mesh for all tests of this file."""
    with kube_stage(tmp_path_factory.mktemp("kube")) as built:
        yield built


@pytest.fixture(autouse=True)
def _healthy(stage):
    """Each test begins with a mesh that is well, led by b1."""
    stage.kube.delay_s = 0
    stage.wait_lease()
    stage.wait_leader("b1")
    stage.mesh.settle()


def _report(capsys, text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


def test_a_failover_lasts_and_the_way_back_too_without_a_lost_flow(stage, capsys):
    """b1 loses new flows; b2 leads; b1 is well again; b1 leads."""
    mesh = stage.mesh
    fault = faults.overlay_black_hole_new_flows(mesh.lab, "b1")
    with mesh.struck(fault) as strike:
        mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        healed_ns = time.monotonic_ns()
        stage.wait_leader("b2")
        assert "true" == stage.kube.annotations("b2")[LEADER]
        follow(mesh.events, healed_ns, "b2", EVERYBODY)
        wait_until(lambda: ["stands"] == stage.phases(), timeout_s=90, what="the change to stand", poll_s=0.3)
        mesh.wait_home()
        home_ns = time.monotonic_ns()
        lost = mesh.lost(healed_ns, home_ns + SECOND)
        _report(
            capsys, f"b2 leads, traffic home {(home_ns - strike.began_ns) / SECOND:.1f} s after the fault: {lost} lost"
        )
        assert 0 == lost
        assert {"MeshPromotion", "MeshPromoted"} <= {reason for reason, _ in stage.kube.events()}
        wait_until(lambda: {"b1": [TAINT_KEY]} == stage.taints(), timeout_s=30, what="b1 to be tainted", poll_s=0.5)

    well_ns = time.monotonic_ns()
    stage.wait_leader("b1", timeout_s=200)
    wait_until(lambda: [] == stage.phases(), timeout_s=90, what="the change to be forgotten", poll_s=0.3)
    mesh.wait_home()
    back_ns = time.monotonic_ns()
    lost = mesh.lost(well_ns, back_ns + SECOND)
    _report(capsys, f"b1 leads again {(back_ns - well_ns) / SECOND:.1f} s after it was well: {lost} lost")
    assert 0 == lost
    assert LEADER not in stage.kube.annotations("b2")
    wait_until(lambda: {} == stage.taints(), timeout_s=60, what="the taint to go", poll_s=0.5)
    assert [] == mesh.events(strike.began_ns, "plan.refused", "agent.restarted")


# An API that is cut off or answers 500 is tried by itself (tests/unit/meshwatchkube/test_run_story.py).
TROUBLES = ("slow", "another cluster")


def _begin_trouble(kube, trouble: str) -> None:
    match trouble:
        case "slow":
            kube.delay_s = 30.0
        case _:
            _move_nodes(kube, "172.31.0.")


def _end_trouble(kube, mesh) -> None:
    kube.delay_s = 0.0
    for node in mesh.lab.topology.nodes.values():
        _set_address(kube, node.name, node.node_ip)


def _move_nodes(kube, network: str) -> None:
    for number, name in enumerate(EVERYBODY):
        _set_address(kube, name, f"{network}{number + 1}")


def _set_address(kube, name: str, address: str) -> None:
    def moved(before):
        metadata = part(before, "metadata")
        notes = {**part(metadata, "annotations"), "kilo.squat.ai/internal-ip": f"{address}/24"}
        return {
            **before,
            "metadata": {**metadata, "annotations": notes},
            "status": {**part(before, "status"), "addresses": [{"type": "InternalIP", "address": address}]},
        }

    kube.store.edit(NODES, name, "", lambda before: {**moved(before), "status": before["status"]})
    kube.store.edit(NODES, name, "", moved, subresource="status")


@pytest.mark.parametrize("trouble", TROUBLES)
def test_healing_goes_on_and_nothing_is_written_while_the_api_is_in_trouble(stage, trouble, capsys):
    """For 15 s around a failover, where five would do: no promotion, no taint, one line each."""
    mesh, kube = stage.mesh, stage.kube
    before, began_lines = stage.memory(), {node: len(stage.log(node)) for node in WRITERS}
    _begin_trouble(kube, trouble)
    try:
        fault = faults.overlay_black_hole_new_flows(mesh.lab, "b1")
        with mesh.struck(fault) as strike:
            mesh.wait_switched()
            mesh.wait_restored(strike.began_ns)
            flows = mesh.traffic.settled_flows(since_ns=strike.began_ns)
            outage = measure_outage(flows, strike.began_ns)
            pause_until(strike.began_ns + 15 * SECOND)
            assert "b1" == stage.follower.leaders["cloud"]
            assert {} == stage.taints()
            assert before == stage.memory()
            assert LEADER not in kube.annotations("b2")
    finally:
        _end_trouble(kube, mesh)
    lines = [line for node in WRITERS for line in stage.log(node)[began_lines[node] :]]
    said = Counter((line["event"], line.get("what")) for line in lines)
    _report(capsys, f"{trouble}: outage {(outage.duration_ns or 0) / 1e6:.0f} ms; said {dict(said)}")
    failed = {what: count for (event, what), count in said.items() if event == "api.failed"}
    if trouble == "another cluster":
        assert 1 == said["cluster.mistaken", None]
    else:
        assert failed
        assert max(failed.values()) <= len(WRITERS), "once for each process and each thing that fails"
    pause_until(strike.healed_ns + 10 * SECOND)
    assert {} == stage.taints()
    assert before == stage.memory(), "what stood while nobody knew is not made up for"
