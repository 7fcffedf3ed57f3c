"""K3s with `wireguard-native`: daemons that are told the key and the mode find the mesh, and name what it loses.

flannel looks at nothing that it has written, so each fault stays: the route to all others, a peer, its pods, its
endpoint. Each is done as a stranger would, and named by all nodes that can know it, by one name.
"""

from __future__ import annotations

import json

import pytest

from netnslab import native_wireguard, state_faults
from netnslab.daemon_config import MINIMAL
from netnslab.waiting import wait_until
from tests.support.minimal_mesh import await_found, await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

NODES = ("c1", "c2", "d1", "e1")
GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Four daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("flannel-native", tmp_path_factory.mktemp("flannel-native")) as built:
        yield built


def _named(daemons, node):
    return {(pair["verdict"]["fault"], pair["verdict"]["culprit"]) for pair in daemons.status(node)["pairs"]}


def test_every_node_watches_every_other_over_flannel_wg(mesh):
    """Each is a location of its own, and is asked by its address on flannel-wg alone: no LAN is crossed."""
    lab, daemons, took_s = mesh
    for node, status in await_found(lab, daemons, pairs=3, took_s=took_s).items():
        assert {0, 2, 5} <= {session["layer"] for session in status["sessions"]}, node


def _memory(lab, node):
    return lab.node(node).run(["cat", GOOD_STATE]).stdout


def _settle(mesh):
    """All is well, and each node has remembered how it is."""
    lab, daemons, _ = mesh
    await_well(lab, daemons, pairs=3)
    wait_until(lambda: all(_memory(lab, node) for node in NODES), timeout_s=60, what="good states", poll_s=0.5)
    return lab, daemons


def _await_names(daemons, expected, timeout_s=30):
    """Wait until each node says what is expected of it, and nothing else."""

    def named():
        return {node: _named(daemons, node) - {("none", "")} for node in NODES}

    wait_until(lambda: named() == expected, timeout_s=timeout_s, what=f"{expected}", poll_s=0.25)


def _findings(daemons, node):
    return {each["fault"]: each for each in daemons.status(node)["findings"]}


def test_every_node_names_who_has_lost_the_route_to_all(mesh):
    """`ip route replace` into the network card: one name, at the node, and the very route in the advice.

    Who is behind NAT hears of it by way of the others; a node on its LAN would not be cut off by this.
    """
    lab, daemons = _settle(mesh)
    with state_faults.make(lab, "cluster-route-missing-elsewhere", "d1"):
        _await_names(daemons, {node: {("cluster-route-missing", "d1")} for node in NODES})
        found = _findings(daemons, "d1")["cluster-route-missing"]
        assert ["ip route add 10.42.0.0/16 dev flannel-wg proto boot scope 253"] == found["commands"]
        assert "advised" == found["repair"]
        words = [pair["verdict"]["because"][-1] for pair in daemons.status("e1")["pairs"]]
        assert any("flannel writes its route" in each and "spec.nodeName=d1" in each for each in words)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("wireguard-peer-missing", "allowed-ips 10.42.2.0/24 endpoint 198.51.100.51:51820 adds it"),
        ("allowed-ips-stolen-half", "takes it back"),
    ],
)
def test_both_ends_name_whose_peer_is_wrong(mesh, kind, command):
    """k3s#3287, and a prefix of which another peer was given a part: the node behind it hears of it by hello."""
    lab, daemons = _settle(mesh)
    code = state_faults.FORMS.get(kind, kind)
    with state_faults.make(lab, kind, "c1", peer="d1"):
        right = {(code, "c1")}
        _await_names(daemons, {"c1": right, "d1": right, "c2": set(), "e1": set()})
        found = _findings(daemons, "c1")[code]
        assert "d1" == found["peer"]
        assert any("wg set flannel-wg peer" in each and command in each for each in found["because"])


def test_an_endpoint_that_moved_at_one_end_alone_is_no_fault(mesh):
    """WireGuard follows whoever is heard: nobody says a word of it."""
    lab, daemons = _settle(mesh)
    device = native_wireguard.FLANNEL_DEVICE
    key = _key_of(lab, "c1", "d1")
    lab.node("c1").run(["wg", "set", device, "peer", key, "endpoint", "192.0.2.77:4444"], check=True)

    def is_back():
        return f"{key}\t198.51.100.51:51820" in lab.node("c1").run(["wg", "show", device, "endpoints"]).stdout

    wait_until(is_back, timeout_s=10, what="c1 to follow d1", poll_s=0.25)
    assert set() == _named(daemons, "c1") - {("none", "")}


def _key_of(lab, node, peer):
    """The public key that a node has of another one."""
    shown = lab.node(node).run(["wg", "show", native_wireguard.FLANNEL_DEVICE, "allowed-ips"], check=True).stdout
    return next(line.split()[0] for line in shown.splitlines() if lab.topology.nodes[peer].pod_cidr in line)


def test_endpoints_that_moved_at_both_ends_are_named_by_both(mesh):
    """Either calls the other where a third node is (flannel#1770): nobody is heard, and nothing learned."""
    lab, daemons = _settle(mesh)
    kind = "wireguard-endpoint-moved-swapped"
    with state_faults.make(lab, kind, "c1", peer="d1"):

        def moved(node):
            return _findings(daemons, node).get("wireguard-endpoint-moved", {"because": ()})["because"]

        wait_until(lambda: moved("c1") and moved("d1"), timeout_s=50, what="both to name it", poll_s=0.5)
        assert any("endpoint 198.51.100.51:51820 sets it again" in each for each in moved("c1"))
        assert any("endpoint 203.0.113.41:51820 sets it again" in each for each in moved("d1"))
        assert {"wireguard-endpoint-moved"} == {name for name, _ in _named(daemons, "c1") - {("none", "")}}


def test_a_daemon_that_may_repair_puts_the_very_same_route_back(mesh):
    """From the memory of an earlier daemon: the dead end goes, the route comes, and nothing else has changed."""
    lab, daemons = _settle(mesh)
    place = lab.node("c2")
    route = ["ip", "-json", "route", "show", "10.42.0.0/16"]
    before = json.loads(place.run(route, check=True).stdout)
    place.run(["tee", "-a", str(MINIMAL)], input="\n[repair]\nroute = true\n", check=True)
    daemons.stop("c2")
    with state_faults.make(lab, "cluster-route-missing-blackhole", "c2"):
        daemons.start("c2")
        wait_until(
            lambda: before == json.loads(place.run(route).stdout or "[]"), timeout_s=30, what="the route", poll_s=0.25
        )
        await_well(lab, daemons, pairs=3)
        assert ["repair.verified"] == [
            each.name for each in daemons.events("c2") if each.name in ("repair.verified", "repair.undone")
        ]
