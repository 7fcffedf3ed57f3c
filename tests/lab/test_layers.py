"""The layers beside the path on real kernels: the node itself, and canaries behind the mesh."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from netnslab import Inhabitant
from netnslab.topology_file import load
from netnslab.traffic_server import ECHO_PORT
from netnslab.waiting import wait_until
from tests.support.stage import Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLOUD, ONPREM = ("b1", "b2", "b3"), ("a1", "a2", "a3")
CLOSED_PORT = 9
TOLD_S = 30
"""Ten questions at 200 ms, three seconds of patience for a side issue, and a loaded machine."""

TOPOLOGY = load("kilo-flannel")
CANARIES = [
    {"name": "echo", "kind": "udp", "port": ECHO_PORT},
    {"name": "web", "kind": "tcp", "port": ECHO_PORT, "expect": "service"},
    {"name": "closed", "kind": "tcp", "port": CLOSED_PORT},
]
CANARY = {"address": TOPOLOGY.nodes["a3"].pod_ip, "node": "a3", "interval": "200ms"}
SETTINGS: Mapping[str, Mapping[str, object]] = {"probe": {"canary": [CANARY | canary for canary in CANARIES]}}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Iterator[Stage]:
    """One mesh for the tests that leave it as it was."""
    with stage(tmp_path_factory.mktemp("layers"), settings=SETTINGS) as built:
        yield built


@contextmanager
def _filtered(place: Inhabitant, rule: str) -> Iterator[None]:
    """A rule for what comes in, in a table of its own, for a while."""
    chain = "add chain inet hush c { type filter hook input priority 0; }"
    place.run(["nft", f"add table inet hush; {chain}; add rule inet hush c {rule}"], check=True)
    try:
        yield
    finally:
        place.run(["nft", "delete table inet hush"], check=True)


def _canaries(mesh: Stage, node: str) -> dict[str, str]:
    """The states of a node's canaries, as `meshwatchctl --json status` has them."""
    status = json.loads(mesh.daemons.control(node, "--json", "status").stdout)
    return {canary["name"]: canary["state"] for canary in status["canaries"]}


def _wait_named(mesh: Stage, fault: str, culprit: str, nodes: tuple[str, ...]) -> None:
    wait_until(
        lambda: all((fault, culprit) == mesh.named(node) for node in nodes),
        timeout_s=TOLD_S,
        what=f"{fault} at {culprit} by {nodes}",
        poll_s=0.5,
    )


def test_canaries_of_the_other_location_answer(mesh):
    """An echo, a connection, and a refusal where that is enough; the nodes of their own location do not ask."""
    mesh.settle()
    expected = dict.fromkeys(("echo", "web", "closed"), "up")

    wait_until(
        lambda: all(expected == _canaries(mesh, node) for node in CLOUD),
        timeout_s=TOLD_S,
        what="all canaries to answer",
        poll_s=0.5,
    )
    assert {} == _canaries(mesh, "a1")


def test_a_silent_pod_is_a_warning_of_its_own(mesh):
    """The pod hears nothing: everybody who asks says so, no path is blamed and nothing moves."""
    mesh.settle()
    with _filtered(mesh.lab.pod("a3"), "meta l4proto { tcp, udp } drop"):
        _wait_named(mesh, "pod-unreachable", "a3", CLOUD)
        shown = mesh.daemons.control("b3", "status")

        assert "warning" == mesh.pair("b3")["verdict"]["severity"]
        assert () == mesh.diverted()
        assert {"none"} == {mesh.named(node)[0] for node in ONPREM}
        assert 1 == shown.returncode
        assert "web" in shown.stdout
    _wait_named(mesh, "none", "", CLOUD)


def test_a_node_that_does_not_hear_itself_accuses_itself(mesh):
    """Its own probes are lost on loopback while others answer it: its ports are closed, and no move on its word."""
    mesh.settle()
    with _filtered(mesh.lab.node("b3"), "iif lo udp dport 18618 drop"):
        _wait_named(mesh, "probe-port-blocked", "b3", ("b3",))
        assert () == mesh.diverted()
        assert {"none"} == {mesh.named(node)[0] for node in (*ONPREM, "b1", "b2")}
    _wait_named(mesh, "none", "", ("b3",))
