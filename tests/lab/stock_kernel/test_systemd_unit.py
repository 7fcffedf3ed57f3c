"""The package under systemd as process 1 of a container, on a kernel with WireGuard: the unit as shipped, no drop-in.

Where the running kernel has no WireGuard, everything else that is tried under systemd is tried over wireguard-go.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netnslab.waiting import wait_until
from tests.support import guest_machines
from tests.support.systemd_machine import FOR_MACHINES, Machine, booted

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

ANSWER_S = 30.0
"""A guest has one processor, in which system calls are dear."""
NOT_WATCHING = 4
"""What `meshwatchctl status` ends with where there is no mesh: the daemon answers."""
CONFIG, KEY = "/etc/meshwatchd/meshwatchd.toml", "/etc/meshwatchd/mesh.key"
DROP_IN = "/run/systemd/system/meshwatchd.service.d/device.conf"
# Without "+": with the user, the capabilities and the filters of the daemon.
AS_THE_DAEMON = "[Service]\nExecStartPre=/usr/sbin/ip link add mwtest type wireguard\n"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine with the package, whose service is enabled and started."""
    with booted("mwguest", guest_machines.root()) as machine:
        machine.write(CONFIG, '[daemon]\nmode = "enforce"\n')
        machine.sh(f"(umask 077; head -c 32 /dev/urandom | base64 >{KEY})")
        machine.read("systemctl", "enable", "--now", "--quiet", "meshwatchd")
        yield machine


def wait_for_answer(machine: Machine) -> None:
    """Wait until the daemon answers: engine, agent and control socket work."""
    wait_until(
        lambda: machine.run("meshwatchctl", "status").returncode == NOT_WATCHING,
        timeout_s=ANSWER_S,
        what="an answer of the daemon",
        poll_s=0.5,
    )


def test_the_service_starts_answers_and_has_a_journal_for_people(machine):
    """Nothing of the unit's sandbox is refused by this kernel."""
    wait_for_answer(machine)
    told = machine.read("journalctl", "--unit=meshwatchd", "--no-pager", "--output=cat")

    assert "topology.rejected" in told
    assert not FOR_MACHINES.search(told), told
    assert "" == machine.property("DropInPaths")
    assert "0" == machine.property("NRestarts")


def test_the_unit_lets_the_daemon_make_devices_of_the_kernels_wireguard(machine):
    """By ip(8), in place of the daemon: same user, same capabilities, same filters."""
    machine.write(DROP_IN, AS_THE_DAEMON)
    machine.read("systemctl", "daemon-reload")
    machine.read("systemctl", "restart", "meshwatchd")
    wait_for_answer(machine)

    assert "wireguard" in machine.read("ip", "-d", "link", "show", "dev", "mwtest")
