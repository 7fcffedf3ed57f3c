"""A daemon that is stopped for seconds: it accuses nobody when it wakes, and nobody moves traffic meanwhile.

To the others its node is one that answers nothing while everything relayed through it arrives: they may say so.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netnslab.waiting import pause_until, wait_until
from tests.support.stage import SECOND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

STALL_NS = 3 * SECOND
AFTER_NS = 2 * SECOND
MOVES = ("failover.proposed", "failover.applied", "failover.advised", "failback.applied")


@contextmanager
def stopped(mesh, node: str) -> Iterator[None]:
    """The engine alone, by signal: its agent sees it stand still."""
    pid = mesh.daemons.engine_pid(node)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(mesh, node: str) -> Iterator[None]:
    """Both processes, as a container runtime pauses them; in a cgroup of our own, which is removed."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = next((Path(where) for _what, where, kind, *_rest in mounts if kind == "cgroup2"), None)
    if root is None:
        pytest.skip("no cgroup v2 hierarchy here")
    pids = (mesh.daemons.engine_pid(node), mesh.daemons.agent_pid(node))
    homes = [home_of(pid) for pid in pids]
    group = root / f"meshwatchd-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        wait_until(
            lambda: "frozen 1" in (group / "cgroup.events").read_text(), timeout_s=5, what="the freezer", poll_s=0.01
        )
        yield
    finally:
        (group / "cgroup.freeze").write_text("0")
        for pid, home in zip(pids, homes, strict=True):
            (root / home / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def home_of(pid: int) -> str:
    """The group of a process in the one hierarchy of version 2 (cgroups(7)), relative to its root."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line for line in lines if line.startswith("0::")).removeprefix("0::").lstrip("/")


# A node of its own each: what a daemon says of its stalls it says once a minute.
@pytest.mark.parametrize(("stall", "node"), [(stopped, "b1"), (frozen, "b3")])
def test_a_daemon_that_stood_still_accuses_nobody(mesh, stall, node):
    """A leader and a member, for 3 s: no word against others, no move of anybody, and health at the end."""
    mesh.settle()
    began_ns = time.monotonic_ns()
    with stall(mesh, node):
        pause_until(began_ns + STALL_NS)
    pause_until(time.monotonic_ns() + AFTER_NS)
    mesh.settle()

    told = mesh.events(began_ns)
    assert [] == [event for event in told if event.name in MOVES]
    said = [event for event in told if event.name == "verdict.changed"]
    assert [] == [event for event in said if event.node == node]
    accused = {(each.fields["fault"], each.fields["culprit"]) for each in said}
    assert {("node-unreachable", node), ("none", "")} >= accused
    assert [node] == sorted({each.node for each in told if each.name == "clock.stalled" and is_long(each)})


def is_long(event) -> bool:
    """Whether it is the stall that was made; a loaded machine has small ones of its own."""
    return bool(event.fields["late_ns"] > SECOND)
