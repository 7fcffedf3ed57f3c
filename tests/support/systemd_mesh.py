"""What is asked of the services of six nodes under systemd."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.stage import Stage
from tests.support.systemd_nodes import Services

GREEN_S = 10.0
BACK_S = 15.0
GREEN_LIMIT_S = 90.0
"""Where other programs have the processors; what is asserted counts them out."""
SECOND_NS = 1_000_000_000
# It diverts the traffic of its own pod, which is what is measured.
SENDER = "a3"
# The leader that all traffic between the locations goes through; standby links end on it.
LEADER = "a1"


class Built(NamedTuple):
    """A mesh of machines.

    Attributes:
        seconds: from the last `systemctl enable --now` until all were green.
        share: how much of the processors they had meanwhile, or was idle; the rest was taken by other programs.
    """

    stage: Stage
    units: Services
    seconds: float
    share: float


@contextmanager
def built_mesh(opened: AbstractContextManager[tuple[Stage, Services]]) -> Iterator[Built]:
    """The mesh of `systemd_nodes` and its services, all of which have been green."""
    with opened as (stage, units), units:
        began_s, others_s = time.monotonic(), busy_s() - units.used_s()
        stage.lab.favour_tunnels()
        wait_for_green(units)
        seconds = time.monotonic() - began_s
        taken = (busy_s() - units.used_s() - others_s) / (seconds * (os.cpu_count() or 1))
        yield Built(stage, units, seconds, 1 - taken)


def busy_s() -> float:
    """Processor time that all programs of this machine have used since it was started, in seconds (proc(5), stat)."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def wait_for_green(units: Services) -> None:
    """Wait until all nodes are green."""
    wait_until(
        lambda: all(is_green(units, node) for node in units.nodes), timeout_s=GREEN_LIMIT_S, what="green", poll_s=0.5
    )


def is_green(units: Services, node: str) -> bool:
    """Whether `meshwatchctl status` of a node would end with 0."""
    status = units.status(node)
    return status is not None and status["is_ready"] and status["severity"] == "ok"


def is_next(version: str) -> bool:
    """Whether a version is that of scripts/later-deb."""
    return version.endswith("+next")


def come_and_go(built: Built) -> None:
    """Heal the seed's fault, and restart, upgrade and take back meanwhile; nothing may be lost by that."""
    mesh, units = built.stage, built.units
    mesh.settle()
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        rank = mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        mesh.wait_verdicts("overlay-new-flows", "b1", units.nodes)
        (relay,) = set(mesh.relays(rank)) - {LEADER}
        assert SENDER in mesh.diverted()
        steps: tuple[tuple[str, str, Callable[[], None]], ...] = (
            (relay, "restart", partial(units.restart, relay)),
            (SENDER, "restart", partial(units.restart, SENDER)),
            (SENDER, "upgrade", partial(units.install, SENDER, "later")),
            (SENDER, "rollback", partial(units.install, SENDER, "now")),
        )
        for node, name, step in steps:
            began_ns = time.monotonic_ns()
            engine = units.process(node, "engine")
            step()
            wait_until(partial(units.status, node), timeout_s=BACK_S, what="an answer", poll_s=0.5)
            mesh.wait_ranks(rank)
            if name == "upgrade":
                wait_until(lambda: is_next(units.versions(relay)[SENDER]), timeout_s=BACK_S, what="the later version")

            assert engine != units.process(node, "engine")
            assert 0 == mesh.lost(began_ns, time.monotonic_ns() + SECOND_NS), f"{name} on {node}"
            assert mesh.expected_overrides(rank) == mesh.diverted(), f"{name} on {node}"


def replace(built: Built, process: str, number: str) -> float:
    """Stop or kill a process of the leader; returns after how many seconds all was well again with another one."""
    before = carriers(built)
    victim = built.units.process(LEADER, process)
    began_ns = time.monotonic_ns()
    built.units.machines[LEADER].read("kill", f"-{number}", victim)
    wait_until(
        lambda: built.units.process(LEADER, process) not in {victim, ""} and is_green(built.units, LEADER),
        timeout_s=BACK_S,
        what=f"a green status with another {process}",
        poll_s=0.5,
    )

    seconds = (time.monotonic_ns() - began_ns) / SECOND_NS
    assert before
    assert before == carriers(built)
    assert 0 == built.stage.lost(began_ns, time.monotonic_ns())
    return seconds


def carriers(built: Built) -> list[str]:
    """What carries the leader's standby links: devices with their indices, and processes where the kernel has none."""
    devices = built.stage.lab.node(LEADER).run(["sh", "-c", "ip -o link | grep -o '^[0-9]*: mw[0-9]*'"], check=True)
    processes = built.units.machines[LEADER].run("pgrep", "--full", "wireguard-go mw")
    return [*devices.stdout.splitlines(), *processes.stdout.split()]
