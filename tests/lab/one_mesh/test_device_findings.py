"""What a WireGuard device and sysctls do to packets in silence, named on the node that has it, and nothing else."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netnslab import state_faults
from netnslab.waiting import wait_until
from tests.support.stage import Stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NAMED_S = 20


@contextmanager
def _written(mesh: Stage, node: str, path: str, value: str) -> Iterator[None]:
    """A sysctl set for a while."""
    place = mesh.lab.node(node)
    before = place.run(["cat", f"/proc/sys/net/ipv4/{path}"], check=True).stdout.strip()
    place.run(["sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{path}"], check=True)
    try:
        yield
    finally:
        place.run(["sh", "-c", f"echo {before} > /proc/sys/net/ipv4/{path}"], check=True)


def _await(mesh: Stage, since_ns: int, *names: str) -> list[tuple[str, object, object]]:
    """Node, fault and device of each event of these names, once there is one."""
    found = wait_until(lambda: mesh.events(since_ns, *names), timeout_s=NAMED_S, what=f"{names}", poll_s=0.3)
    return [(each.node, each.fields["fault"], each.fields["device"]) for each in found]


@pytest.mark.parametrize(
    ("setting", "finding"),
    [
        (("b2", "ip_forward", "0"), ("b2", "forwarding-off", "")),
        (("b3", "conf/flannel.1/rp_filter", "1"), ("b3", "rp-filter-strict", "flannel.1")),
    ],
)
def test_a_sysctl_that_loses_packets_is_named(mesh, setting, finding):
    """On that node and on no other, and its end is told."""
    mesh.settle()
    began_ns = time.monotonic_ns()
    with _written(mesh, *setting):
        assert [finding] == _await(mesh, began_ns, "fault.raised")
    assert [finding] == _await(mesh, began_ns, "fault.cleared")


def test_a_prefix_that_another_peer_takes_is_named(mesh):
    """WireGuard gives it away without a word; only packets to that prefix are lost."""
    mesh.settle()
    place, victim = mesh.lab.node("b1"), mesh.lab.topology.nodes["a2"].pod_cidr
    wait_until(
        lambda: place.run(["cat", "/var/lib/meshwatchd/overlay-good.json"]).stdout, timeout_s=60, what="a good state"
    )
    lines = place.run(["wg", "show", "kilo0", "allowed-ips"], check=True).stdout.split()
    thief = subprocess.run(["wg", "genkey"], check=True, capture_output=True, text=True).stdout
    key = subprocess.run(["wg", "pubkey"], input=thief, check=True, capture_output=True, text=True).stdout.strip()
    began_ns = time.monotonic_ns()
    place.run(["wg", "set", "kilo0", "peer", key, "allowed-ips", victim], check=True)
    try:
        assert [("b1", "allowed-ips-stolen", "kilo0")] == _await(mesh, began_ns, "fault.raised")
    finally:
        place.run(["wg", "set", "kilo0", "peer", key, "remove"], check=True)
        place.run(["wg", "set", "kilo0", "peer", lines[0], "allowed-ips", ",".join(lines[1:])], check=True)
    assert [("b1", "allowed-ips-stolen", "kilo0")] == _await(mesh, began_ns, "fault.cleared")


@pytest.mark.parametrize("kind", ["allowed-ips-missing", "pod-route-diverted"])
def test_pods_that_are_dead_beside_their_node_are_named(mesh, kind):
    """By AllowedIPs without them, and by a policy rule above Kilo's; no canary asks, and every probe is answered."""
    mesh.settle()
    began_ns = time.monotonic_ns()
    with state_faults.make(mesh.lab, kind):
        assert [("b1", kind, "kilo0")] == _await(mesh, began_ns, "fault.raised")
    assert [("b1", kind, "kilo0")] == _await(mesh, began_ns, "fault.cleared")
