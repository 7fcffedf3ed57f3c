"""flannel's WireGuard over real Nebula: the layer is seen, its size counts, and its faults are not WireGuard's.

Daemons are told the key and the mode. Each fault is silent, and each is done as a stranger would: a smaller MTU, a
program that is stopped, a rule of Nebula's own firewall, a device that is taken down, a program that is killed.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from netnslab import nebula, ownership
from netnslab.build import host_mesh_folder
from netnslab.waiting import wait_until
from tests.support.minimal_mesh import await_well, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"
NAMED_S = 30


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Four daemons with the minimal configuration."""
    with minimal_mesh("flannel-nebula", tmp_path_factory.mktemp("flannel-nebula")) as (lab, daemons, _):
        yield lab, daemons


def test_nebula_is_a_layer_below_and_no_mesh_of_its_own(mesh):
    """Between flannel-wg and the network card, with its size; nodes go by their addresses there."""
    lab, daemons = mesh
    await_well(lab, daemons, pairs=3)
    for node in lab.topology.nodes.values():
        view = json.loads(daemons.control(node.name, "topology", "--json").stdout)["view"]
        assert [
            ("wireguard", "flannel-wg", 1220, "nebula1"),
            ("nebula", "nebula1", 1300, "eth0"),
            ("underlay", "eth0", 1500, ""),
        ] == [(each["kind"], each["device"], each["mtu_bytes"], each.get("over", "")) for each in view["layers"]]
        assert ["flannel"] == view["profiles"]
        assert nebula.address(node) == view["node_ip"]
        assert [] == daemons.status(node.name)["findings"]


def test_what_nebula_does_is_named_as_nebulas(mesh):
    """At three nodes at once, then otherwise at two of them; c1 hears of c2 alone, and knows what is between."""
    lab, daemons = mesh
    await_well(lab, daemons, pairs=3)
    wait_until(
        lambda: all('"nebula1"' in lab.node(name).run(["cat", GOOD_STATE]).stdout for name in lab.topology.nodes),
        timeout_s=60,
        what="good states",
        poll_s=0.5,
    )
    lab.node("c2").run(["ip", "link", "set", nebula.DEVICE, "mtu", "1000"], check=True)
    os.kill(nebula.process_of(lab.node("d1").space).pid, signal.SIGSTOP)
    _filter(lab, "e1", "icmp")

    smaller = _await(daemons, "c2", "mtu-misconfigured")
    assert "configure MTU 1300 on nebula1: ip link set dev nebula1 mtu 1300" in smaller
    assert "nobody takes what is sent: its program hangs" in _await(daemons, "d1", "underlay-silent")
    assert "packets have gone into it" in _await(daemons, "e1", "underlay-silent")
    _await_verdict(daemons, "c1", _is_told_of)

    lab.node("e1").run(["ip", "link", "set", nebula.DEVICE, "down"], check=True)
    os.kill(nebula.process_of(lab.node("d1").space).pid, signal.SIGKILL)
    assert "administratively down" in _await(daemons, "e1", "underlay-device-down")
    assert "which flannel-wg ran over while all was well" in _await(daemons, "d1", "underlay-device-missing")


def _filter(lab, name, protocol):
    """Other rules for Nebula's firewall, which reads them when it is told to."""
    node = lab.topology.nodes[name]
    nebula.write_config(lab.topology, node, host_mesh_folder(ownership.read(lab.lab_id)), protocol=protocol)
    os.kill(nebula.process_of(lab.node(name).space).pid, signal.SIGHUP)


def _await(daemons, node, fault):
    """What a node says of nebula1, once it is that, and all that it says of its devices; its verdicts are the same."""

    def told():
        return [each for each in daemons.status(node)["findings"] if each["severity"] != "ok"]

    def is_named():
        return [(fault, nebula.DEVICE, node)] == [(each["fault"], each["device"], each["culprit"]) for each in told()]

    wait_until(is_named, timeout_s=NAMED_S, what=f"{node} to name {fault}", poll_s=0.25)
    because = "\n".join(told()[0]["because"])
    _await_verdict(daemons, node, lambda each: (each["fault"], each["culprit"]) == (fault, node))
    return because


def _await_verdict(daemons, node, is_it):
    """Wait until one of a node's pairs has such a verdict."""

    def has():
        return any(is_it(pair["verdict"]) for pair in daemons.status(node)["pairs"])

    wait_until(has, timeout_s=NAMED_S, what=f"a verdict of {node}", poll_s=0.25)


def _is_told_of(verdict):
    return any("the underlay of flannel-wg is nebula1 of Nebula" in each for each in verdict["because"])
