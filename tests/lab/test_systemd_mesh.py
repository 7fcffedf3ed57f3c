"""Six machines with systemd and the package: from `systemctl enable --now` to an upgrade during a failover.

They are Debian 12 and Debian 13 in turn, so each location has both. Processes are stopped and killed over the kernel's
WireGuard (tests/lab/stock_kernel/test_systemd_units.py).
"""

from __future__ import annotations

import pytest

from tests.support.systemd_machine import install
from tests.support.systemd_mesh import GREEN_S, built_mesh, come_and_go
from tests.support.systemd_nodes import services

pytestmark = [pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def built(base, base_13, packages, tmp_path_factory):
    """The mesh and its services, all of which have been green."""
    folder = tmp_path_factory.mktemp("systemd-mesh")
    installed = [install(packages / "now.deb", each, tmp_path_factory.mktemp("root")) for each in (base, base_13)]
    with built_mesh(services(folder, installed, packages)) as built:
        yield built


def test_three_nodes_are_debian_12_and_three_debian_13(built):
    """Each location has both."""
    releases = {
        node: machine.sh(". /etc/os-release; echo $VERSION_ID") for node, machine in built.units.machines.items()
    }

    assert {"a": {"12", "13"}, "b": {"12", "13"}} == {
        location: {release.strip() for node, release in releases.items() if node.startswith(location)}
        for location in ("a", "b")
    }


def test_all_are_green_in_ten_seconds(built):
    """With a key and a mode in the configuration and nothing else; of processors that others do not use."""
    assert built.seconds * built.share < GREEN_S, built


def test_services_come_and_go_during_a_failover_without_a_lost_flow(built):
    """The seed's fault is healed; restart, upgrade and the way back of who carries the traffic lose nothing.

    That is a node whose kernel diverts what its pod sends, and the relay that it goes through. Two versions are in the
    mesh between upgrade and the way back.
    """
    come_and_go(built)
