"""A machine that stands still as a whole, as one that is suspended, or that a hypervisor pauses, and then goes on.

Its processes stop, and nothing passes it: for the others it is dead. When it goes on it has missed it all, and its
kernel and its daemon are those of before.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netnslab import faults
from netnslab.namespaces import Kind
from netnslab.waiting import pause_until
from tests.support.stage import SECOND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

PAUSE_NS = 15 * SECOND
AFTER_NS = 3 * SECOND


def processes(mesh, node: str) -> list[int]:
    """All of a machine: the daemon and, where the kernel has no WireGuard, what carries links."""
    network = mesh.lab.node(node).space.path(Kind.NET).stat().st_ino
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and network == _network(each)]


def _network(process: Path) -> int:
    try:
        return (process / "ns" / "net").stat().st_ino
    except OSError:
        return 0


@contextmanager
def paused(mesh, node: str) -> Iterator[faults.Fault]:
    """Nothing passes the machine, and its processes stand still."""
    pids = processes(mesh, node)
    assert mesh.daemons.engine_pid(node) in pids
    assert mesh.daemons.agent_pid(node) in pids
    with faults.leader_dead(mesh.lab, node) as fault:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield fault
        finally:
            fault.heal()
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def test_a_leader_that_goes_on_accuses_nobody_and_traffic_comes_home(mesh):
    """The others go around it within its 15 s, and nothing is lost from when it goes on."""
    node = "b1"
    mesh.settle()
    others = [each for each in mesh.nodes if each != node]
    began_ns = time.monotonic_ns()
    with paused(mesh, node):
        mesh.wait_verdicts("leader-dead", node, others)
        mesh.wait_restored(began_ns)
        pause_until(began_ns + PAUSE_NS)
    awake_ns = time.monotonic_ns()
    mesh.settle()
    lost = mesh.lost(awake_ns, time.monotonic_ns() + AFTER_NS)

    told = mesh.events(awake_ns)
    accused = {(each.fields["fault"], each.fields["culprit"]) for each in told if each.name == "verdict.changed"}
    assert {("none", ""), ("leader-dead", node)} >= accused
    proposed = [each for each in told if each.name == "failover.proposed"]
    assert {"restored"} >= {each.fields["reason"] for each in proposed}
    assert 0 == lost
