"""Six services of the package under systemd as process 1, over the kernel's own WireGuard, in one machine.

Nothing but the traffic's source is a stand-in: links between nodes, standby links and the overlay are devices of a
kernel. Each service is a copy of the shipped unit, in the network of its node and with folders of its own. Six
machines with a systemd each are tried over wireguard-go (tests/lab/test_systemd_mesh.py): in a guest, where a system
call is dear, they would take ten minutes to boot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netnslab.waiting import pause_until
from tests.support import guest_machines
from tests.support.systemd_machine import FOR_MACHINES
from tests.support.systemd_mesh import (
    BACK_S,
    GREEN_S,
    LEADER,
    SECOND_NS,
    SENDER,
    Built,
    built_mesh,
    come_and_go,
    is_green,
    replace,
    wait_for_green,
)
from tests.support.systemd_nodes import in_one

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

HOUR_S = 3600
WATCHED_NS = 4 * SECOND_NS
RATE = 10
"""New flows a second and direction: all six nodes share one processor."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The mesh and its services, all of which have been green."""
    supplies = guest_machines.supplies()
    folder: Path = tmp_path_factory.mktemp("systemd-units")
    with built_mesh(in_one(folder, supplies.root, supplies.packages, rate=RATE)) as built:
        yield built


@pytest.fixture
def green(built: Built) -> Built:
    """The mesh, green."""
    wait_for_green(built.units)
    built.stage.traffic.wait_flowing()
    return built


def test_all_are_green_in_ten_seconds_over_the_kernels_wireguard(built):
    """With a key and a mode in the configuration, and nothing of the unit's sandbox refused by this kernel."""
    assert built.seconds * built.share < GREEN_S, built
    for node in built.units.nodes:
        assert "0" == built.units.property(node, "NRestarts"), node
    links = built.stage.lab.node(LEADER).run(["ip", "-br", "link", "show", "type", "wireguard"], check=True).stdout
    assert {"kilo0", "mw"} == {link.split()[0] if link.startswith("kilo0") else link[:2] for link in links.splitlines()}


@pytest.mark.parametrize("number", ["STOP", "KILL"])
@pytest.mark.parametrize("process", ["engine", "agent"])
def test_either_process_is_replaced_and_links_and_traffic_stay(green, process, number):
    """Green again in fifteen seconds, on a leader, with the devices of before and without a lost flow."""
    assert replace(green, process, number) < BACK_S


def test_services_come_and_go_during_a_failover_without_a_lost_flow(green):
    """The seed's fault is healed; restart, upgrade and the way back of who carries the traffic lose nothing."""
    come_and_go(green)


def test_a_clock_that_is_set_is_no_fault(green):
    """An hour ahead, an hour behind, and right again: all nodes stay green, and no flow is lost."""
    began_ns = time.monotonic_ns()
    for step_s in (HOUR_S, -2 * HOUR_S, HOUR_S):
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + step_s * SECOND_NS)
        stepped_ns = time.monotonic_ns()
        while time.monotonic_ns() < stepped_ns + WATCHED_NS:
            assert [] == [node for node in green.units.nodes if not is_green(green.units, node)]
            pause_until(time.monotonic_ns() + SECOND_NS)

    assert () == green.stage.diverted()
    assert 0 == green.stage.lost(began_ns, time.monotonic_ns())


def test_the_journal_is_for_people(built):
    """After all of that: what each service has told is text, the failover is in it, and no traceback."""
    told = {node: built.units.journal(node) for node in built.units.nodes}
    lines = [line for text in told.values() for line in text.splitlines()]

    assert [] == [line for line in lines if FOR_MACHINES.search(line) or "Traceback" in line]
    assert "failover.applied" in told[SENDER]
