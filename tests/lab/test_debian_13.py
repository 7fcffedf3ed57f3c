"""Debian 13 under its own systemd: each way to install, with what the tests of Debian 12 demand, and nothing is left.

One machine for all: the .deb, the sources with the distribution's Python, the .rpm as Debian's rpm installs it, and the
system extension. Each test of another way than the .deb begins on the machine without any.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from netnslab.waiting import wait_until
from tests.lab import test_systemd as debian_12
from tests.lab.test_systemd import BACK_S, CONFIG, KEY, LISTED, MAKE_KEY, wait_for_answer
from tests.meta.tree import ROOT
from tests.support.systemd_machine import Machine, booted

pytestmark = [pytest.mark.timeout(400)]

PYTHON = "3.13"
EXTENSIONS = "/var/lib/extensions"
RULE = "to 10.97.0.0/16 table 77 protocol 117"


class Empty(NamedTuple):
    """A machine without meshwatchd.

    Attributes:
        before: what it holds.
    """

    machine: Machine
    before: list[str]

    def assert_is_as_before(self):
        """Nothing was left but rpm's own records."""
        after = listed(self.machine)
        assert ([], []) == (sorted(set(self.before) - set(after)), sorted(set(after) - set(self.before)))


def listed(machine):
    """What a machine holds, without records of rpm."""
    return [line for line in machine.sh(LISTED).splitlines() if not line.startswith("/var/lib/rpm")]


def run(machine, *argv):
    """Run a command that has to succeed; what it prints is shown where it does not."""
    ran = machine.run(*argv)
    assert 0 == ran.returncode, ran.stdout + ran.stderr


def engine(machine):
    """The first arguments of the engine's process: its interpreter, and how it is started."""
    return machine.read("cat", f"/proc/{machine.property('MainPID')}/cmdline").split("\0")


@pytest.fixture(scope="module")
def machine(base_13, packages, others, wheels_313):
    """The machine, which has Debian's Python and rpm, and sees all that is installed."""
    places = {"packages": packages, "others": others, "wheels": wheels_313, "checkout": ROOT}
    bound = [f"--bind-ro={folder}:/{name}" for name, folder in places.items()]
    with booted("mwtrixie", base_13, *bound) as machine:
        yield machine


@pytest.fixture(scope="module")
def installed(machine):
    """The .deb as the tests of Debian 12 want it."""
    return debian_12.install(machine)


@pytest.fixture
def empty(machine):
    """The machine, from which the .deb is gone."""
    machine.run("dpkg", "--purge", "meshwatchd")
    return Empty(machine, listed(machine))


# Of those tests the ones that a distribution may answer differently. They run in this order.
running = debian_12.running
test_an_installation_is_quick_and_the_unit_is_as_it_should_be = (
    debian_12.test_an_installation_is_quick_and_the_unit_is_as_it_should_be
)
test_both_processes_have_what_the_unit_gives_them_and_no_more = (
    debian_12.test_both_processes_have_what_the_unit_gives_them_and_no_more
)


@pytest.mark.parametrize(("process", "number"), [("engine", "STOP"), ("agent", "KILL")])
def test_a_process_comes_back(running, process, number):
    """By the watchdog, and by the engine."""
    debian_12.test_either_process_comes_back(running, process, number)


def test_the_check_refuses_what_the_service_refuses(running):
    """One refusal of many."""
    debian_12.test_the_check_refuses_what_the_service_refuses(running, debian_12.REFUSED["a key of another user"])


test_an_upgrade_and_the_way_back_keep_the_service_running = (
    debian_12.test_an_upgrade_and_the_way_back_keep_the_service_running
)
test_removal_keeps_what_is_somebodys_work_and_purging_nothing = (
    debian_12.test_removal_keeps_what_is_somebodys_work_and_purging_nothing
)


def test_the_sources_are_installed_with_the_distributions_python(empty):
    """From wheels that were made elsewhere for that Python; there and back to the version before, and away."""
    machine = empty.machine
    run(machine, "make", "-C", "/checkout", "install", "WHEELS=/wheels")
    assert f"Python {PYTHON}" in machine.read("/usr/lib/meshwatchd/current/bin/python3", "--version")
    machine.sh(MAKE_KEY)
    run(machine, "systemctl", "enable", "--now", "meshwatchd")
    wait_for_answer(machine)
    first = machine.read("readlink", "/usr/lib/meshwatchd/current").strip()
    assert first in engine(machine)[0] + machine.read("cat", f"/proc/{machine.property('MainPID')}/environ")
    assert f"python{PYTHON}" in machine.read("readlink", f"/proc/{machine.property('MainPID')}/exe")

    run(machine, "make", "-C", "/checkout", "install", "WHEELS=/wheels")
    assert first != machine.read("readlink", "/usr/lib/meshwatchd/current").strip()
    run(machine, "meshwatchctl", "rollback")
    assert first == machine.read("readlink", "/usr/lib/meshwatchd/current").strip()
    run(machine, "systemctl", "restart", "meshwatchd")
    wait_for_answer(machine)
    run(machine, "make", "-C", "/checkout", "uninstall", "PURGE=yes")
    empty.assert_is_as_before()


def test_an_rpm_comes_is_upgraded_and_goes(empty):
    """What runs is of the version that is installed; keys, identity and a changed configuration stay, nothing else."""
    machine = empty.machine
    run(machine, "rpm", "--install", "--nodeps", "/others/now.rpm")
    assert "inactive" == machine.property("ActiveState")
    for target in ("install", "uninstall"):
        refused = machine.run("make", "-C", "/checkout", target, "WHEELS=/wheels")
        assert "is installed as a package here" in refused.stderr
    machine.sh(f"{MAKE_KEY}; echo '# ours' >>{CONFIG}")
    run(machine, "systemctl", "enable", "--now", "meshwatchd")
    wait_for_answer(machine)
    assert "" == machine.run("rpm", "--verify", "--nodeps", "--nomtime", "--noconfig", "meshwatchd").stdout
    first = engine(machine)
    run(machine, "rpm", "--upgrade", "--nodeps", "/others/later.rpm")
    wait_for_answer(machine)
    (version,) = machine.read("ls", "/usr/lib/meshwatchd/versions").split()
    assert version.endswith("+next")
    assert f"/versions/{version}/" in machine.read("readlink", f"/proc/{machine.property('MainPID')}/exe")
    assert first != engine(machine)
    assert "enabled" == machine.property("UnitFileState")
    assert "# ours" in machine.read("tail", "-n", "1", CONFIG)

    run(machine, "rpm", "--erase", "meshwatchd")
    assert {KEY, f"{CONFIG}.rpmsave"} == set(machine.sh("ls -d /etc/meshwatchd/*").split())
    assert "not-found" == machine.property("LoadState")
    assert "identity.key" in machine.sh("ls /var/lib/meshwatchd"), "or all others would refuse it when it comes back"
    machine.sh("rm -r /etc/meshwatchd /var/lib/meshwatchd; userdel meshwatch")
    empty.assert_is_as_before()


def test_a_system_extension_is_merged_serves_and_is_unmerged(empty):
    """Without a configuration it fails once, and does not try for ever; with one it starts as soon as it is merged.

    The extension is a folder, as systemd takes them as well: for an image it would allocate loop devices of the host.
    """
    machine = empty.machine
    machine.sh(f"mkdir -p {EXTENSIONS}; cp -a /others/meshwatchd {EXTENSIONS}/")
    run(machine, "systemd-sysext", "refresh")
    wait_until(lambda: machine.property("ActiveState") == "failed", timeout_s=BACK_S, what="a refusal", poll_s=0.2)
    verified = machine.run("systemd-analyze", "verify", "--man=no", "meshwatchd.service", "meshwatchd-sysext.service")
    assert ("", "", 0) == (verified.stdout, verified.stderr, verified.returncode)
    told = debian_12.journal(machine).splitlines()
    assert 1 == len([line for line in told if f"{CONFIG}: there is no such file" in line]), told
    unmerge(machine)

    machine.write(CONFIG, '[daemon]\nmode = "enforce"\n')
    machine.sh(MAKE_KEY)
    run(machine, "systemd-sysext", "refresh")
    wait_for_answer(machine)
    assert "/usr/lib/meshwatchd/versions/" in machine.read("readlink", f"/proc/{machine.property('MainPID')}/exe")
    rules = machine.sh(f"ip rule add {RULE}; ip rule show; ip rule del {RULE}")
    assert re.search(r"10\.97\.0\.0/16 .* proto meshwatchd", rules)
    run(machine, "systemctl", "stop", "meshwatchd")
    run(machine, "meshwatchctl", "sweep")
    assert "inactive" == machine.property("ActiveState"), "an operator who stops it has stopped it"
    unmerge(machine)
    assert "not-found" == machine.property("LoadState")
    machine.sh("rm -r /etc/meshwatchd /var/lib/meshwatchd /run/meshwatchd /run/meshwatchd.keys; userdel meshwatch")
    machine.sh(f"rm -r {EXTENSIONS}; rmdir /run/wireguard")
    empty.assert_is_as_before()


def unmerge(machine):
    """As docs/install.md has it; what has prepared the extension is stopped last, since its target upholds it."""
    run(machine, "systemd-sysext", "unmerge")
    machine.run("systemctl", "stop", "meshwatchd-sysext", "meshwatchd")
    machine.run("systemctl", "reset-failed", "meshwatchd")
