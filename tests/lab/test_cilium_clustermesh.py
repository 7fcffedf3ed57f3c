"""Cilium Cluster Mesh: daemons that are told the key and the mode find both clusters, and name what no status shows."""

from __future__ import annotations

import itertools

import pytest

from netnslab import state_faults
from netnslab.waiting import wait_until
from tests.support.mesh import flow
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

EAST, WEST = ("e1", "e2", "e3"), ("w1", "w2", "w3")
NODES = (*EAST, *WEST)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Six daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("cilium-clustermesh", tmp_path_factory.mktemp("clustermesh")) as built:
        yield built


def _settle(mesh):
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=1)
    return lab, daemons


def _verdict(daemons, node):
    (pair,) = (daemons.status(node) or {"pairs": [{"verdict": {"fault": "", "culprit": ""}}]})["pairs"]
    return pair["verdict"]["fault"], pair["verdict"]["culprit"]


def _findings(daemons, node):
    return {(each["fault"], each["subject"]) for each in (daemons.status(node) or {"findings": ()})["findings"]}


def _wait_named(daemons, fault, culprit, nodes=NODES):
    wait_until(
        lambda: all((fault, culprit) == _verdict(daemons, node) for node in nodes),
        timeout_s=40,
        what=f"{', '.join(nodes)} to name {fault} at {culprit or 'nobody'}",
        poll_s=0.25,
    )


def _because(daemons, node):
    return "\n".join(each for pair in daemons.status(node)["pairs"] for each in pair["verdict"]["because"])


def test_both_clusters_are_found_and_left_alone(mesh):
    """A cluster is a location, its nodes ask those of the other one, and of ours there is neither rule nor device."""
    lab, daemons, took_s = mesh
    for one, other in itertools.product(EAST, WEST):
        with flow(lab.pod(one), lab.pod(other)) as between:
            assert between.echoes_eventually(), (one, other)
    for node, status in await_found(lab, daemons, pairs=1, took_s=took_s).items():
        (pair,) = status["pairs"]
        assert {"east", "west"} == {pair["location"], pair["remote_location"]}, node
        assert {0, 1, 4, 5} <= {session["layer"] for session in status["sessions"]}, node
        assert 2 not in {session["layer"] for session in status["sessions"]}, node
        rules = lab.node(node).run(["ip", "rule"], check=True).stdout
        assert "5400" not in rules, rules
        shown = " ".join(daemons.control(node, "topology", "--why").stdout.split())
        assert "Cluster Mesh joins it with" in shown, shown


def test_a_datapath_that_is_cut_is_named_by_all_while_every_status_is_good(mesh):
    """cilium#20547: the firewall between the networks does not know UDP 51871."""
    lab, daemons = _settle(mesh)
    with state_faults.make(lab, "clustermesh-datapath-cut"):
        _wait_named(daemons, "clustermesh-datapath-cut", "")
        assert "hosts of west answer at their own addresses" in _because(daemons, "e2")
        assert "Cilium's agent reports east as connected" in _because(daemons, "w3")


def test_a_cluster_that_is_gone_is_named_by_all_with_the_backends_that_are_left(mesh):
    """cilium#20729, #19217: its backends are never taken out."""
    lab, daemons = _settle(mesh)
    with state_faults.make(lab, "cluster-backends-unreachable"):
        _wait_named(daemons, "cluster-backends-unreachable", "")
        assert "still lists 3 nodes of west" in _because(daemons, "e1")
        assert "cilium clustermesh disconnect" in _because(daemons, "w1")


def test_a_control_plane_that_is_cut_is_found_by_those_who_lost_it_and_is_no_broken_path(mesh):
    """cilium#22923: packets pass, and what agents know is frozen."""
    lab, daemons = _settle(mesh)
    with state_faults.make(lab, "clustermesh-control-cut"):
        wait_until(
            lambda: all({("clustermesh-control-cut", "west")} == _findings(daemons, node) for node in EAST),
            timeout_s=60,
            what="the nodes of east to find that their control plane is cut",
        )
        for node in NODES:
            assert ("none", "") == _verdict(daemons, node), node
        for node in WEST:
            assert set() == _findings(daemons, node), node


@pytest.mark.parametrize(
    "kind", ["allowed-ips-missing-host", "wireguard-peer-missing-cluster", "wireguard-peer-duplicate"]
)
def test_a_peer_that_is_wrong_is_named_by_both_its_ends_at_the_node_that_has_it(mesh, kind):
    """cilium#35644, #20925, #31921: handshakes are fresh, and the two do not reach each other."""
    lab, daemons = _settle(mesh)
    with state_faults.make(lab, kind) as fault:
        _wait_named(daemons, fault.expected.fault, fault.node, nodes=(fault.node, fault.peer))
        assert f"--field-selector spec.nodeName={fault.node}" in _because(daemons, fault.node)
        for node in set(NODES) - {fault.node, fault.peer}:
            assert ("none", "") == _verdict(daemons, node), node
