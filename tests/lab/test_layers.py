"""The layers beside the path on real kernels: the node itself, canaries behind the mesh, IPv6 beside IPv4."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from netnslab import Inhabitant, Lab
from netnslab.daemons import CONFIGURATION, Daemons
from netnslab.topology_file import load
from netnslab.traffic_server import ECHO_PORT
from netnslab.waiting import wait_until
from tests.support.stage import READY_S, Stage, stage

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
    """Its own probes are lost on loopback: local fault, whatever else it sees, and no move on its word."""
    mesh.settle()
    with _filtered(mesh.lab.node("b3"), "iif lo udp dport 18618 drop"):
        _wait_named(mesh, "local-fault", "b3", ("b3",))
        assert () == mesh.diverted()
        assert {"none"} == {mesh.named(node)[0] for node in (*ONPREM, "b1", "b2")}
    _wait_named(mesh, "none", "", ("b3",))


def test_the_loss_of_ip6_alone_is_named(tmp_path):
    """IPv6 on the LAN and inside flannel.1 of the cloud; b1 loses it, IPv4 goes on."""
    with Lab.up("kilo-flannel") as lab:
        for node in CLOUD:
            _give_ip6(lab, node)
        mesh = tuple(_node(node) for node in _declared(lab))
        with Daemons(lab, tmp_path, settings={"mesh": {"node": mesh}}) as daemons:
            daemons.wait_ready(timeout_s=READY_S)

            with _filtered(lab.node("b1"), "meta nfproto ipv6 drop"):
                wait_until(
                    lambda: all(("address-family-broken", "b1") == _named(daemons, node) for node in ("b2", "b3")),
                    timeout_s=2 * TOLD_S,
                    what="the loss of IPv6 to be named",
                    poll_s=0.5,
                )
                assert [] == [e for e in daemons.events() if e.name == "failover.applied"]
                told = daemons.control("b3", "explain").stdout

    assert "silent by IPv6 on layer underlay: b1" in told


def _named(daemons: Daemons, node: str) -> tuple[str, str]:
    status = daemons.status(node)
    verdict = status["pairs"][0]["verdict"] if status else {}
    return str(verdict.get("fault")), str(verdict.get("culprit"))


def _ip6(prefix: str, name: str) -> str:
    return f"{prefix}::{TOPOLOGY.nodes[name].index:x}"


def _give_ip6(lab: Lab, name: str) -> None:
    """Addresses by hand, without solicitation where flannel has none: the lab is IPv4 otherwise."""
    place = lab.node(name)
    for device in ("eth0", "flannel.1"):
        place.run(["sysctl", "-qw", f"net/ipv6/conf/{device}/disable_ipv6=0"], check=True)
    place.run(["ip", "-6", "address", "add", f"{_ip6('fd00:2', name)}/64", "dev", "eth0", "nodad"], check=True)
    place.run(["ip", "-6", "address", "add", f"{_ip6('fd00:244', name)}/64", "dev", "flannel.1", "nodad"], check=True)
    for other in CLOUD:
        if other != name:
            mac = TOPOLOGY.nodes[other].overlay_mac
            entry = [_ip6("fd00:244", other), "lladdr", mac, "dev", "flannel.1", "nud", "permanent"]
            place.run(["ip", "-6", "neighbour", "replace", *entry], check=True)


def _declared(lab: Lab) -> list[dict[str, object]]:
    text = lab.node("b1").run(["cat", CONFIGURATION], check=True).stdout
    nodes: list[dict[str, object]] = tomllib.loads(text)["mesh"]["node"]
    return nodes


def _node(declared: dict[str, object]) -> dict[str, object]:
    name = str(declared["name"])
    if name not in CLOUD:
        return declared
    return declared | {"node_ip6": _ip6("fd00:2", name), "overlay_ip6": _ip6("fd00:244", name)}
