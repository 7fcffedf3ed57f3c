"""Six machines with systemd and the package: from `systemctl enable --now` to an upgrade during a failover.

They are Debian 12 and Debian 13 in turn, so each location has both.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from datetime import datetime

import pytest

from netnslab.waiting import wait_until
from tests.support.systemd_machine import install
from tests.support.systemd_mesh import BACK_S, GREEN_S, SENDER, built_mesh, come_and_go, replace, wait_for_green

pytestmark = [pytest.mark.timeout(400)]

RULES_BACK_S = 1.0
# A bridge, since not every kernel has dummy devices.
DEVICE = "[NetDev]\nName=theirs0\nKind=bridge\n"
NETWORK = """\
[Match]
Name=theirs0

[Network]
Address=10.99.0.1/24
ConfigureWithoutCarrier=yes

[RoutingPolicyRule]
To=10.98.0.0/16
Table=77
Priority=12345
"""
TIDY = """
systemctl stop --quiet systemd-networkd.socket systemd-networkd
ip link del theirs0 || true
ip rule del priority 12345 || true
rm /etc/systemd/network/30-theirs.*
"""


@pytest.fixture(scope="module")
def built(base, base_13, packages, tmp_path_factory):
    """The mesh and its services, all of which have been green."""
    folder = tmp_path_factory.mktemp("systemd-mesh")
    installed = [install(packages / "now.deb", each, tmp_path_factory.mktemp("root")) for each in (base, base_13)]
    with built_mesh(folder, installed, packages) as built:
        yield built


@pytest.fixture
def green(built):
    """The mesh, green."""
    wait_for_green(built.units)
    built.stage.traffic.wait_flowing()
    return built


@pytest.fixture
def theirs(green):
    """A node on which networkd manages a device and a policy rule of somebody else."""
    machine = green.units.machines[SENDER]
    machine.write("/etc/systemd/network/30-theirs.netdev", DEVICE)
    machine.write("/etc/systemd/network/30-theirs.network", NETWORK)
    try:
        machine.read("systemctl", "start", "systemd-networkd")
        wait_until(lambda: is_configured(machine), timeout_s=10, what="a device of networkd", poll_s=0.2)
        yield machine
    finally:
        machine.sh(TIDY)


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


@pytest.mark.parametrize("number", ["STOP", "KILL"])
@pytest.mark.parametrize("process", ["engine", "agent"])
def test_either_process_is_replaced_and_links_and_traffic_stay(green, process, number):
    """Green again in fifteen seconds, on a leader; the processes that carry standby links are those of before."""
    assert replace(green, process, number) < BACK_S


def is_configured(machine):
    """Whether networkd has finished with its device."""
    return machine.run("networkctl", "list", "--no-legend", "theirs0").stdout.split()[-1:] == ["configured"]


def held(machine):
    """All policy rules, and our routes and those of networkd's device."""
    routes = machine.sh("ip route show table all proto 117; ip route show dev theirs0")
    return sorted([*machine.read("ip", "rule").splitlines(), *routes.splitlines()])


@contextmanager
def watched(machine, path):
    """A file that gets each change of a policy rule, with its time, from now on."""
    with path.open("w") as output:
        monitor = subprocess.Popen(machine.command(["ip", "-ts", "monitor", "rule"]), stdout=output)
        try:
            touch = "ip rule add priority 12346 to 10.97.0.0/16 table 77; ip rule del priority 12346"
            wait_until(lambda: machine.sh(touch) or path.read_text(), timeout_s=10, what="a change that is seen")
            yield path
        finally:
            monitor.kill()
            monitor.wait()


def ours(lines, *, deleted):
    """The instants, in seconds, at which rules of ours were deleted or made."""
    return [
        datetime.fromisoformat(line[1 : line.index("]")]).timestamp()
        for line in lines.read_text().splitlines()
        if "proto meshwatchd" in line and deleted == ("] Deleted " in line)
    ]


def test_rules_that_networkd_has_removed_are_back_within_a_second(green, theirs, tmp_path):
    """By default it deletes the policy rules that it does not know when it configures a device again."""
    before = held(theirs)
    with watched(theirs, tmp_path / "rules") as lines:
        began_ns = time.monotonic_ns()
        theirs.read("networkctl", "reconfigure", "theirs0")
        wait_until(lambda: ours(lines, deleted=True), timeout_s=10, what="networkd to remove rules")
        wait_until(lambda: held(theirs) == before, timeout_s=10, what="the rules of before", poll_s=0.1)

    assert max(ours(lines, deleted=False)) - min(ours(lines, deleted=True)) < RULES_BACK_S
    assert any(line.startswith("12345:") for line in before)
    assert 0 == green.stage.lost(began_ns, time.monotonic_ns())
