"""More than one thing broken: the next good path, or none and the routes left alone, and either way it is said."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.stage import RESTORE_S, VERDICT_S

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LINK_PORTS = {1: 51830, 2: 51831, 3: 51832}


@pytest.fixture(autouse=True)
def _healthy(mesh):
    """Each test begins with a mesh that is well."""
    mesh.settle()


def test_primary_and_standby_broken_leaves_every_route_alone(mesh):
    """Both standby links of b2 are blocked, then b1's overlay fails: critical everywhere, nothing is moved."""
    nodes = ("a1", "a2", "a3", "b2", "b3")
    with ExitStack() as links:
        for port in (51830, 51832):
            links.enter_context(faults.udp_port_blocked(mesh.lab, "b2", port=port))
        wait_until(
            lambda: all(mesh.named(node)[0] == "standby-down" for node in nodes),
            timeout_s=VERDICT_S * 2,
            what="the standby links to be missed",
            poll_s=0.5,
        )
        fault = faults.overlay_black_hole_new_flows(mesh.lab, "b1")
        with mesh.struck(fault) as strike:
            # b1 has its own pods' traffic only, and that still passes: it may call the fault by its name.
            wait_until(
                lambda: all(mesh.named(node)[0] == "all-paths-down" for node in nodes),
                timeout_s=VERDICT_S,
                what="all paths to be called down",
                poll_s=0.5,
            )
            severities = {mesh.pair(node)["verdict"]["severity"] for node in nodes}
            assert () == mesh.diverted()
            codes = {node: mesh.daemons.control(node, "status").returncode for node in nodes}

    assert {"critical"} == severities
    assert {2} == set(codes.values())
    told = mesh.events(strike.began_ns)
    assert [] == [event for event in told if event.name == "failover.applied"]
    assert {"a1", "a2"} & {event.node for event in told if event.name == "failover.held"}


def test_second_fault_on_the_standby_link_moves_on_to_the_next_good_path(mesh):
    """While traffic is on a standby its link is cut: the other link of the same location takes over."""
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        first = mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        began_ns = time.monotonic_ns()
        with faults.udp_port_blocked(mesh.lab, mesh.relays(first)[0], port=LINK_PORTS[first]):
            second = mesh.wait_switched(away_from=first)
            mesh.wait_restored(began_ns)
            assert mesh.connections_live_on()

    assert {1, 3} == {first, second}
    assert [] == mesh.events(strike.began_ns, "plan.refused")


def test_second_fault_on_the_standbys_overlay_is_held_and_said(mesh):
    """With b1's and b2's overlays both black no way leads to b3: the override stays, the verdict is critical."""
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        overrides = mesh.diverted()
        with faults.overlay_black_hole(mesh.lab, "b2"):
            wait_until(
                lambda: all(mesh.named(node)[0] == "all-paths-down" for node in ("a3", "b3")),
                timeout_s=VERDICT_S,
                what="all paths to be called down",
                poll_s=0.5,
            )
            assert overrides == mesh.diverted()
        wait_until(
            lambda: all(mesh.named(node)[0] != "all-paths-down" for node in ("a3", "b3")),
            timeout_s=VERDICT_S,
            what="the standby to be good again",
            poll_s=0.5,
        )
        # Whichever of b2's links answers first.
        wait_until(lambda: set(mesh.ranks().values()) in ({1}, {3}), timeout_s=RESTORE_S, what="one path", poll_s=0.5)
        mesh.traffic.wait_flowing(timeout_s=20)
        assert mesh.connections_live_on()
