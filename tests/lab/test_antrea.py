"""Antrea on one LAN: daemons that are told the key and the mode find the mesh, move nothing, and name what breaks."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from netnslab import antrea
from netnslab.waiting import wait_until
from tests.support.mesh import flow
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

NODES = ("n1", "n2", "n3")

TUNNEL_IS_CUT = f"""table inet cut {{
 chain sent {{ type filter hook output priority 0; udp dport {antrea.PORT} drop
 }}
 chain come {{ type filter hook input priority 0; udp dport {antrea.PORT} drop
 }}
}}
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Three daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("antrea", tmp_path_factory.mktemp("antrea")) as built:
        yield built


def _settle(mesh):
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=2)
    return lab, daemons


def _verdicts(daemons, node):
    pairs = (daemons.status(node) or {"pairs": ()})["pairs"]
    return {(pair["verdict"]["fault"], pair["verdict"]["culprit"]) for pair in pairs} - {("none", "")}


def _wait_named(daemons, fault, culprit):
    """The node that has it says so of both others, and they say it of that node alone."""
    wait_until(
        lambda: all({(fault, culprit)} == _verdicts(daemons, node) for node in NODES),
        timeout_s=30,
        what=f"all to name {fault} at {culprit}",
        poll_s=0.25,
    )


def _because(daemons, node):
    return "\n".join(each for pair in daemons.status(node)["pairs"] for each in pair["verdict"]["because"])


def _batch(lab, node, *lines, command="ip"):
    lab.node(node).run([command, "-batch", "-"], input="\n".join((*lines, "")), check=True)


def _routes(lab, node):
    return [line for other in NODES if other != node for line in antrea.route_lines(lab.topology.nodes[other])]


@contextlib.contextmanager
def _tunnel_is_gone(lab, node):
    """As without the module: Open vSwitch runs, and has no device to send by."""
    _batch(lab, node, f"link del {antrea.TUNNEL}")
    try:
        yield
    finally:
        _batch(lab, node, *antrea.tunnel_lines())
        others = (lab.topology.nodes[name] for name in NODES if name != node)
        _batch(lab, node, *map(antrea.fdb_line, others), command="bridge")


@contextlib.contextmanager
def _port_is_down(lab, node):
    """NetworkManager takes devices down that it does not know; the agent makes the port when it starts."""
    _batch(lab, node, f"link set {antrea.GATEWAY} down")
    try:
        yield
    finally:
        _batch(lab, node, f"link set {antrea.GATEWAY} up", *_routes(lab, node))


@contextlib.contextmanager
def _tunnel_is_cut(lab, node):
    """A firewall that knows nothing of the tunnel."""
    lab.node(node).run(["nft", "-f", "-"], input=TUNNEL_IS_CUT, check=True)
    try:
        yield
    finally:
        lab.node(node).run(["nft", "delete", "table", "inet", "cut"], check=True)


def test_every_pod_reaches_every_other_and_the_mesh_is_found_and_left_alone(mesh):
    """Each node is a location of its own, asked by port and by card; of ours there is neither rule nor device."""
    lab, daemons, took_s = mesh
    for one, other in itertools.permutations(NODES, 2):
        with flow(lab.pod(one), lab.pod(other)) as between:
            assert between.echoes_eventually(), (one, other)
    for node, status in await_found(lab, daemons, pairs=2, took_s=took_s).items():
        assert {0, 1, 5} <= {session["layer"] for session in status["sessions"]}, node
        assert 2 not in {session["layer"] for session in status["sessions"]}, node
        rules = lab.node(node).run(["ip", "rule"], check=True).stdout.splitlines()
        assert 3 == len(rules), rules
        shown = daemons.control(node, "topology", "--why").stdout
        assert "this mesh has no standby: traffic is not moved" in " ".join(shown.split()), shown


def test_a_tunnel_device_that_is_gone_is_named_by_all_with_its_module(mesh):
    """kube-ovn#647: every agent runs, every node is Ready."""
    lab, daemons = _settle(mesh)
    with _tunnel_is_gone(lab, "n2"):
        _wait_named(daemons, "overlay-device-missing", "n2")
        assert "modprobe vxlan" in _because(daemons, "n2")
        assert "component=antrea-agent --field-selector spec.nodeName=n2" in _because(daemons, "n1")


def test_a_port_that_is_down_is_named_by_all(mesh):
    """Its routes went with it, and host and pods are cut off from all others."""
    lab, daemons = _settle(mesh)
    with _port_is_down(lab, "n3"):
        _wait_named(daemons, "overlay-device-down", "n3")


def test_a_filtered_tunnel_is_an_overlay_that_is_dead_and_a_host_that_is_alive(mesh):
    """Nothing in any kernel shows it."""
    lab, daemons = _settle(mesh)
    with _tunnel_is_cut(lab, "n1"):
        _wait_named(daemons, "overlay-black-hole", "n1")
        assert "host, answers" in _because(daemons, "n2")


def test_a_port_that_is_larger_than_the_tunnel_carries_is_named(mesh):
    """antrea#5914: the agent has counted without one of the headers."""
    lab, daemons = _settle(mesh)
    _batch(lab, "n2", f"link set {antrea.GATEWAY} mtu 1500")
    try:
        wait_until(
            lambda: {("mtu-misconfigured", "n2")} == _verdicts(daemons, "n2"), timeout_s=20, what="n2 to name its MTU"
        )
        assert f"configure MTU 1450 on {antrea.GATEWAY}" in _because(daemons, "n2")
    finally:
        _batch(lab, "n2", f"link set {antrea.GATEWAY} mtu {antrea.MTU_BYTES}")
