"""The package under a real systemd: a machine of its own, without a mesh, from `dpkg -i` to `dpkg --purge`."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest

from netnslab.waiting import wait_until
from tests.lab.test_unit import MAX_EXPOSURE, MAX_KUBE_EXPOSURE
from tests.support import systemd_kube
from tests.support.systemd_machine import FOR_MACHINES, Machine, booted

pytestmark = [pytest.mark.timeout(300)]

INSTALL_S = 60.0
BACK_S = 15.0
ANSWER_S = 10.0
CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_RESOURCE = 12, 13, 14, 24
NOT_WATCHING = 4
"""What `meshwatchctl status` ends with where there is no mesh: the daemon answers."""
KUBE, KUBE_USER, KUBE_GROUPS = "meshwatchd-kube", "meshwatch-kube", ("meshwatch", "meshwatch-operators")
KUBE_BACK_S = 30.0
"""RestartSec=, and the Lease of a process that was killed, which nobody gives back."""
UNIT = "/sys/fs/cgroup/system.slice/meshwatchd.service"
CONFIG, KEY = "/etc/meshwatchd/meshwatchd.toml", "/etc/meshwatchd/mesh.key"
MAKE_KEY = f"(umask 077; head -c 32 /dev/urandom | base64 >{KEY})"
# What a machine holds: files that are no records of dpkg's or systemd's own, accounts, enabled units.
LISTED = r"""
find / -xdev \( -path /proc -o -path /sys -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /tmp \
    -o -path /var/tmp -o -path /root -o -path /var/lib/systemd -o -name '*-' \) -prune -o -print | sort
find /run \( -path /run/systemd -o -path /run/dbus -o -path /run/log -o -path /run/udev \) -prune -o -print | sort
md5sum /etc/passwd /etc/group /etc/shadow /etc/gshadow
"""


class Installed(NamedTuple):
    """A machine with the package.

    Attributes:
        before: what it held without.
        seconds: that dpkg has taken.
    """

    machine: Machine
    before: str
    seconds: float


@pytest.fixture(scope="module")
def installed(base, packages, kube_wheels):
    """The package installed and enabled, with a key and a mode and nothing else."""
    with booted("mwalone", base, f"--bind-ro={packages}:/packages", *systemd_kube.bound(kube_wheels)) as machine:
        yield install(machine)


def install(machine):
    """Install the package of /packages, and start the service with a key and a mode and nothing else."""
    before = machine.sh(LISTED)
    began_s = time.monotonic()
    machine.read("dpkg", "--install", "/packages/now.deb")
    seconds = time.monotonic() - began_s
    machine.write(CONFIG, '[daemon]\nmode = "enforce"\n')
    machine.sh(MAKE_KEY)
    machine.read("meshwatchd", "--check")
    machine.read("systemctl", "enable", "--now", "meshwatchd")
    wait_for_answer(machine)
    return Installed(machine, before, seconds)


@pytest.fixture
def running(installed):
    """The machine with a daemon that answers, whatever a test before has done."""
    machine = installed.machine
    machine.run("systemctl", "reset-failed", "meshwatchd")
    machine.read("systemctl", "start", "meshwatchd")
    wait_for_answer(machine)
    return machine


def wait_for_answer(machine, timeout_s=ANSWER_S):
    """Wait until the daemon answers: engine, agent and control socket work."""
    wait_until(
        lambda: machine.run("meshwatchctl", "status").returncode == NOT_WATCHING,
        timeout_s=timeout_s,
        what="an answer of the daemon",
        poll_s=0.2,
    )


def processes(machine):
    """The ids of engine and agent."""
    engine = machine.property("MainPID")
    (agent,) = machine.read("pgrep", "--parent", engine, "--full", "runtime.agent_process").split()
    return {"engine": engine, "agent": agent}


def facts(machine, pid):
    """What proc(5) says of a process."""
    lines = machine.read("cat", f"/proc/{pid}/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def can_raise_limits(machine):
    """Whether this machine's systemd may do what the unit asks for; some hosts keep that from all they run."""
    return bool(int(facts(machine, 1)["CapEff"], 16) >> CAP_SYS_RESOURCE & 1)


def journal(machine, *options, unit="meshwatchd"):
    """The messages of a unit."""
    return machine.read("journalctl", f"--unit={unit}", "--no-pager", "--output=cat", *options)


def test_an_installation_is_quick_and_the_unit_is_as_it_should_be(installed):
    """As README says; systemd finds nothing wrong with what is installed."""
    exposed = installed.machine.read("systemd-analyze", "security", "--no-pager", "meshwatchd.service")
    verified = installed.machine.run("systemd-analyze", "verify", "--man=no", "meshwatchd.service")

    assert installed.seconds < INSTALL_S
    found = re.search(r"Overall exposure level for meshwatchd.service: ([\d.]+)", exposed)
    assert found
    assert float(found[1]) <= MAX_EXPOSURE
    assert ("", "", 0) == (verified.stdout, verified.stderr, verified.returncode)


def test_both_processes_have_what_the_unit_gives_them_and_no_more(running):
    """A user of its own, two capabilities, real time for the engine alone; read from /proc."""
    pids = processes(running)
    own = running.read("id", "-u", "meshwatch").strip()
    two = f"{1 << CAP_NET_ADMIN | 1 << CAP_NET_RAW:016x}"
    for name, pid in pids.items():
        told = facts(running, pid)
        assert [own] * 4 == told["Uid"].split(), name
        assert "0" != own
        assert {two} == {told[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")}, name
        assert ("1", "2") == (told["NoNewPrivs"], told["Seccomp"]), name
        score = running.read("cat", f"/proc/{pid}/oom_score_adj").strip()
        limits = running.read("cat", f"/proc/{pid}/limits")
        assert re.search(r"Max open files +16384 ", limits), name
        if can_raise_limits(running):
            assert "-900" == score, name
            assert re.search(r"Max locked memory +unlimited +unlimited", limits), name
    scheduled = {name: running.read("ps", "-o", "cls=,rtprio=", pid).split() for name, pid in pids.items()}

    assert {"engine": ["RR", "1"], "agent": ["TS", "-"]} == scheduled
    if can_raise_limits(running):
        assert int(facts(running, pids["engine"])["VmLck"].split()[0]) > 0


def test_nothing_in_the_unit_keeps_the_engine_from_locking_its_memory(running):
    """Also proven where the limit cannot be raised: then by the capability that needs no limit."""
    drop_in = "/run/systemd/system/meshwatchd.service.d/lock.conf"
    running.write(drop_in, "[Service]\nAmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_IPC_LOCK\n")
    try:
        running.read("systemctl", "daemon-reload")
        running.read("systemctl", "restart", "meshwatchd")
        wait_for_answer(running)
        wait_until(
            lambda: int(facts(running, processes(running)["engine"])["VmLck"].split()[0]) > 0,
            timeout_s=ANSWER_S,
            what="locked memory",
        )
    finally:
        running.read("rm", drop_in)
        running.read("systemctl", "daemon-reload")
        running.read("systemctl", "restart", "meshwatchd")


def test_status_shows_lines_for_people(running):
    """`systemctl status` says what runs and the last words, in which there is no JSON and no number of nanoseconds."""
    shown = running.read("systemctl", "status", "--no-pager", "--full", "meshwatchd")

    assert "Active: active (running)" in shown
    told = journal(running)
    assert "topology.rejected" in told
    assert not FOR_MACHINES.search(told), told


def test_a_reload_brings_another_key_and_refuses_one_that_is_none(running):
    """The engine is the same before and after; a refusal is a line in the terminal, and what runs goes on."""
    engine = processes(running)["engine"]
    running.sh(MAKE_KEY)
    running.read("systemctl", "reload", "meshwatchd")
    wait_until(lambda: "config.reloaded" in journal(running), timeout_s=ANSWER_S, what="config.reloaded", poll_s=0.2)
    running.write(KEY, "no key\n", "600")
    refused = running.run("systemctl", "reload", "meshwatchd")
    told = journal(running, "--lines=20")
    running.sh(MAKE_KEY)
    running.read("systemctl", "reload", "meshwatchd")

    assert 1 == refused.returncode
    assert KEY in told
    assert engine == processes(running)["engine"]
    wait_for_answer(running)


@pytest.mark.parametrize("number", ["STOP", "KILL"])
@pytest.mark.parametrize("process", ["engine", "agent"])
def test_either_process_comes_back(running, process, number):
    """Killed or stopped, by whatever: within fifteen seconds all works again."""
    victim = processes(running)[process]
    running.read("kill", f"-{number}", victim)
    began_s = time.monotonic()
    wait_until(lambda: not is_serving(running, victim), timeout_s=BACK_S, what="the end of what was hit", poll_s=0.1)
    wait_for_answer(running, BACK_S - (time.monotonic() - began_s))

    assert victim not in processes(running).values()


def is_serving(machine, pid):
    """Whether a process, stopped or not, is one of the daemon's two."""
    return (
        pid
        in machine.run(
            "sh", "-c", f"echo {machine.property('MainPID')}; pgrep -P {machine.property('MainPID')}"
        ).stdout.split()
    )


def test_an_agent_in_a_frozen_group_keeps_neither_socket_nor_port(running):
    """A frozen process obeys no signal but SIGKILL; the next agent has the socket and the ports."""
    held = ports(running)
    victim = processes(running)["agent"]
    running.sh(f"mkdir {UNIT}/ice; echo {victim} >{UNIT}/ice/cgroup.procs; echo 1 >{UNIT}/ice/cgroup.freeze")
    try:
        wait_until(lambda: not is_serving(running, victim), timeout_s=BACK_S, what="the end of the agent", poll_s=0.1)
        wait_for_answer(running)

        assert held
        wait_until(lambda: held == ports(running), timeout_s=BACK_S, what=f"the ports {held}", poll_s=0.2)
    finally:
        running.run("sh", "-c", f"echo 0 >{UNIT}/ice/cgroup.freeze; sleep 0.2; rmdir {UNIT}/ice")


def ports(machine):
    """The UDP ports that processes of the unit hold."""
    lines = machine.read("ss", "--no-header", "--udp", "--listening", "--numeric", "--processes").splitlines()
    pids = processes(machine).values()
    return sorted(line.split()[3] for line in lines if any(f"pid={pid}," in line for pid in pids))


def test_a_second_daemon_says_one_line_and_harms_nothing(running):
    """By accident, as root in a terminal, while the unit runs."""
    before = processes(running)
    second = running.run("meshwatchd")

    assert 1 == second.returncode
    assert 1 == len((second.stdout + second.stderr).splitlines())
    assert f"process {before['engine']} is the meshwatchd of this node" in second.stderr
    wait_for_answer(running)
    assert before == processes(running)


def test_an_ordinary_user_hears_which_group_to_join(running):
    """Status 77 (EX_NOPERM), and with the group `status` answers; what changes something is refused still."""
    as_somebody = ["setpriv", "--reuid=4711", "--regid=4711"]
    refused = running.run(*as_somebody, "--clear-groups", "meshwatchctl", "status")
    group = running.read("id", "-g", "meshwatch").strip()
    allowed = running.run(*as_somebody, f"--groups={group}", "meshwatchctl", "status")
    acted = running.run(*as_somebody, f"--groups={group}", "meshwatchctl", "pause", "--reason", "test")

    assert 77 == refused.returncode, refused.stdout + refused.stderr
    assert "meshwatch" in refused.stderr
    assert "group" in refused.stderr
    assert NOT_WATCHING == allowed.returncode, allowed.stdout + allowed.stderr
    assert 77 == acted.returncode, acted.stdout + acted.stderr


REFUSED = {
    "no key": f"rm {KEY}",
    "a key of another user": f"chown daemon {KEY}",
    "a key that others can read": f"chmod 644 {KEY}",
    "a key behind a link that leads nowhere": f"ln -sf ~root/nowhere {KEY}",
    "a configuration that only root can read": f"chmod 600 {CONFIG}",
    "a configuration behind a link into root's folder": f"mv {CONFIG} ~root/; ln -s ~root/meshwatchd.toml {CONFIG}",
    "a setting that there is not": f"echo 'colour = 1' >>{CONFIG}",
}


@pytest.mark.parametrize("broken", REFUSED.values(), ids=REFUSED)
def test_the_check_refuses_what_the_service_refuses(running, broken):
    """A line about the same file, status 2, and the unit is in state failed instead of trying for ever."""
    saved = "/etc/meshwatchd.saved"
    running.sh(f"cp -a /etc/meshwatchd {saved}; {broken}")
    try:
        checked = running.run("meshwatchd", "--check")
        running.run("systemctl", "restart", "meshwatchd")
        wait_until(
            lambda: running.property("ActiveState") in {"failed", "active"}, timeout_s=BACK_S, what="the service's end"
        )
        state, status = running.property("ActiveState"), running.property("ExecMainStatus")
        told = journal(running, "--lines=20")
    finally:
        running.sh(f"rm -rf /etc/meshwatchd /etc/theirs; mv {saved} /etc/meshwatchd")

    assert (2, "failed", "2") == (checked.returncode, state, status), checked.stdout + checked.stderr + told
    assert 1 == len(checked.stderr.splitlines()), checked.stderr
    assert checked.stderr.split()[0] in told


def test_meshwatchd_kube_comes_and_goes_beside_a_daemon_that_goes_on(running, tmp_path):
    """From installation to removal: what it may do, what it writes, how it ends, and that nothing of it is left."""
    before = held(running)
    with systemd_kube.installed(running, tmp_path) as api:
        analyzed = running.run("systemd-analyze", "verify", "--man=no", f"{KUBE}.service")
        assert ("", "", 0) == (analyzed.stdout, analyzed.stderr, analyzed.returncode)
        exposed = running.read("systemd-analyze", "security", "--no-pager", f"{KUBE}.service")
        (exposure,) = re.findall(r"Overall exposure level for meshwatchd-kube.service: ([\d.]+)", exposed)
        assert float(exposure) <= MAX_KUBE_EXPOSURE
        assert "disabled" == running.property("UnitFileState", KUBE)
        running.read("runuser", "-u", KUBE_USER, "--", KUBE, "--check")
        running.read("systemctl", "enable", "--now", "--quiet", KUBE)
        first = wait_for_holder(running, api)
        assert_is_nobody_of_importance(running, first)
        assert_reads_the_daemon_by_its_group(running)
        daemon = processes(running)

        running.read("kill", "-KILL", first)
        second = wait_for_holder(running, api, after=first)
        assert "1" == running.property("NRestarts", KUBE)
        running.read("systemctl", "stop", KUBE)
        assert "" == systemd_kube.holder(api)
        assert ("inactive", "success") == (running.property("ActiveState", KUBE), running.property("Result", KUBE))
        told = journal(running, unit=KUBE)
        assert "kube.started node=mwalone" in told
        assert not FOR_MACHINES.search(told), told
        assert "Traceback" not in told, told
        running.read("systemctl", "start", KUBE)
        wait_for_holder(running, api, after=second)
        running.read(systemd_kube.UNINSTALL)
        assert "" == systemd_kube.holder(api)
        assert "not-found" == running.property("LoadState", KUBE)
        assert {"kubeconfig", "kube.toml"} < set(running.read("ls", "/etc/meshwatchd").split())

    after = held(running)
    assert (set(), set()) == (before - after, after - before)
    assert daemon == processes(running)
    assert NOT_WATCHING == running.run("meshwatchctl", "status").returncode


def held(machine):
    """What a machine holds, without what the daemon itself keeps."""
    return {line for line in machine.sh(LISTED).splitlines() if "/meshwatchd/" not in line or "/usr/" in line}


def wait_for_holder(machine, api, after=""):
    """Wait until another process of the unit than before holds the Lease; returns its id."""

    def is_held():
        pid = machine.property("MainPID", KUBE)
        return pid if pid not in {"0", after} and systemd_kube.holder(api) == f"mwalone_{pid}" else ""

    return wait_until(is_held, timeout_s=KUBE_BACK_S, what="the Lease to be held", poll_s=0.2)


def assert_is_nobody_of_importance(machine, pid):
    """A user of its own in three groups, no capability, and a system call filter; read from /proc."""
    told = facts(machine, pid)
    own = machine.read("id", "-u", KUBE_USER).strip()
    groups = [machine.read("getent", "group", name).split(":")[2] for name in (KUBE_USER, *KUBE_GROUPS)]
    assert "0" != own
    assert ([own] * 4, groups[:1] * 4) == (told["Uid"].split(), told["Gid"].split())
    assert set(groups) == {*groups[:1], *told["Groups"].split()}
    assert {"0" * 16} == {told[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
    assert ("1", "2") == (told["NoNewPrivs"], told["Seccomp"])


def assert_reads_the_daemon_by_its_group(machine):
    """It complains of a daemon that is away, and of nothing else; it may hold traffic, and not switch it."""
    assert "daemon.refused" not in journal(machine, unit=KUBE)
    machine.read("systemctl", "stop", "meshwatchd")
    wait_until(lambda: "daemon.refused" in journal(machine, unit=KUBE), timeout_s=ANSWER_S, what="a complaint")
    machine.read("systemctl", "start", "meshwatchd")
    wait_for_answer(machine)
    as_unit = ["systemd-run", "--quiet", "--pipe", "--wait", "--property=User=meshwatch-kube"]
    as_unit += ["--property=SupplementaryGroups=meshwatch", "--property=PrivateUsers=yes", "meshwatchctl"]
    drained = machine.run(*as_unit, "drain", "--reason", "test", "--by", "kube")
    of_all = machine.run(*as_unit, "undrain")
    undrained = machine.run(*as_unit, "undrain", "--by", "kube")
    paused = machine.run(*as_unit, "pause", "--reason", "test")
    assert (0, 0) == (drained.returncode, undrained.returncode), drained.stdout + drained.stderr + undrained.stderr
    assert 1 == of_all.returncode, "orders of others are root's to end"
    assert 77 == paused.returncode, paused.stdout + paused.stderr


def test_an_upgrade_and_the_way_back_keep_the_service_running(running):
    """What runs is of the version that is installed, and of the one before nothing is left."""
    versions = []
    for package in ("later", "now"):
        ran = running.run("dpkg", "--force-unsafe-io", "--install", f"/packages/{package}.deb")
        assert 0 == ran.returncode, ran.stdout + ran.stderr
        wait_for_answer(running)
        (version,) = running.read("ls", "/usr/lib/meshwatchd/versions").split()
        assert f"/versions/{version}/" in running.read("readlink", f"/proc/{processes(running)['engine']}/exe")
        versions.append(version)

    assert f"{versions[1]}+next" == versions[0]
    assert "0" == running.property("NRestarts")
    assert "enabled" == running.property("UnitFileState")


def test_a_rollback_of_a_package_says_what_to_do_instead(running):
    """Dpkg keeps no version before; nothing is changed."""
    asked = running.run("meshwatchctl", "rollback")

    assert 1 == asked.returncode
    assert "apt-get install meshwatchd=VERSION" in asked.stderr


def test_removal_keeps_what_is_somebodys_work_and_purging_nothing(installed, running):
    """The last test: afterwards the machine is as it was."""
    running.read("dpkg", "--remove", "meshwatchd")
    kept = running.read("ls", "/etc/meshwatchd").split()
    assert "inactive" == running.property("ActiveState")
    running.read("dpkg", "--purge", "meshwatchd")

    assert ["mesh.key", "meshwatchd.toml"] == kept
    assert installed.before.splitlines() == running.sh(LISTED).splitlines()
    assert "not-found" == running.property("LoadState")
