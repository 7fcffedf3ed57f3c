"""`make install`: beside what runs, in its place by one rename, and never at its expense."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.tree import ROOT
from tests.support.wheels import put_wheels

# make exports the checkout's path for the tests.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _interpreter() -> str:
    """That of the environment's making, which has the modules that make another one."""
    return str(getattr(sys, "_base_executable", sys.executable))


class Machine:
    """A place to install into, with wheels that need no network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "usr/lib/meshwatchd"
        self.command = folder / "usr/bin/meshwatchd"
        self.config = folder / "etc/meshwatchd/meshwatchd.toml"
        self.unit = folder / "usr/lib/systemd/system/meshwatchd.service"
        self.locked = folder / "locked.txt"
        self.locked.touch()

    def install(self, wheels: Path | None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/install; without wheels it looks for an index."""
        return self._run("install", "--wheels", str(wheels or ""), **environment)

    def kill_install(self, wheels: Path, *, after_s: float) -> None:
        """Run scripts/install, and end all its processes at once, unless it has ended."""
        with subprocess.Popen(
            self._command("install", "--wheels", str(wheels)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        ) as installing:
            try:
                installing.wait(after_s)
            except subprocess.TimeoutExpired:
                os.killpg(installing.pid, signal.SIGKILL)

    def uninstall(self, *, purge: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/uninstall."""
        return self._run("uninstall", "--purge", purge, "--destdir", str(self.folder), prefix="/usr", sysconfdir="/etc")

    def uninstall_kube(self, *, purge: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/uninstall-kube."""
        place = ("--destdir", str(self.folder))
        return self._run("uninstall-kube", "--purge", purge, *place, prefix="/usr", sysconfdir="/etc")

    def _run(
        self, script: str, *arguments: str, prefix: str = "", sysconfdir: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        command = self._command(script, *arguments, prefix=prefix, sysconfdir=sysconfdir)
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**self._environment(), **environment}
        )

    def _command(self, script: str, *arguments: str, prefix: str = "", sysconfdir: str = "") -> list[str]:
        place = ["--prefix", prefix or str(self.folder / "usr")]
        place += ["--sysconfdir", sysconfdir or str(self.folder / "etc")]
        return [str(ROOT / "scripts" / script), *arguments, *place]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LOCKED": str(self.locked), "PYTHON": _interpreter()}

    def say(self) -> str:
        """What the installed command prints."""
        ran = subprocess.run([self.command], capture_output=True, text=True, check=True, env=ENVIRONMENT)
        return ran.stdout.strip()

    def versions(self) -> list[str]:
        """Those that are kept, without the time of their installation."""
        return sorted(path.name.partition("-")[0] for path in (self.home / "versions").iterdir())


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """With version 1 installed: most tests show that it stays, and the last one goes on from there."""
    folder = tmp_path_factory.mktemp("machine")
    made = Machine(folder)
    done = made.install(put_wheels(folder / "wheels", "1"))
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "1" == made.say()
    return made


def test_an_unreachable_index_leaves_the_old_version_working(machine):
    """It left no command at all, and the engine that ran could not start an agent any more."""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    done = machine.install(None, **nowhere, PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="", PIP_NO_INDEX="1")

    assert 1 == done.returncode
    assert "install: nothing was changed" in done.stderr
    assert "make install WHEELS=FOLDER" in done.stderr
    assert "1" == machine.say()
    assert ["1"] == machine.versions()


@pytest.mark.parametrize(
    ("wheels", "reason"),
    [
        ({"broken": "import no_such_module"}, "cannot be loaded; nothing was changed"),
        ({"refuses": "mine"}, "refuses the configuration for the reason above; nothing was changed"),
    ],
)
def test_a_version_that_proves_bad_is_not_switched_to(machine, tmp_path, wheels, reason):
    """One that lacks a module, or that would refuse to start on what this node is configured to."""
    before = machine.config.read_text()
    machine.config.write_text("mine")
    done = machine.install(put_wheels(tmp_path / "wheels", "2", **wheels))

    assert 1 == done.returncode
    assert reason in done.stderr
    assert "1" == machine.say()
    assert ["1"] == machine.versions()
    assert "mine" == machine.config.read_text()
    machine.config.write_text(before)


@pytest.mark.timeout(600)
def test_the_version_before_is_kept_and_older_ones_are_not(machine, tmp_path):
    """Unless a process runs on one: its engine starts agents from there. Then a restart is asked for."""
    with subprocess.Popen([machine.command, "--wait"], stdin=subprocess.PIPE, env=ENVIRONMENT) as running:
        for version in ("2", "3"):
            done = machine.install(put_wheels(tmp_path / "wheels", version))
            assert "next: systemctl restart meshwatchd" in done.stdout, done.stderr
        assert "3" == machine.say()
        assert ["1", "2", "3"] == machine.versions()
        running.communicate()
    done = machine.install(put_wheels(tmp_path / "wheels", "4"))

    assert "restart" not in done.stdout
    assert ["3", "4"] == machine.versions()
    assert (machine.home / "previous").readlink().name.startswith("3-")
    assert machine.unit.is_file()
    assert not machine.unit.is_symlink()


def test_links_to_the_unit_of_a_version_are_put_right(machine, tmp_path):
    """The unit was a link, of which `systemctl enable` had made two that led nowhere once that version was gone."""
    units, version = machine.folder / "etc/systemd/system", machine.home / "versions/1-gone/lib/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True)
    links = (units / machine.unit.name, units / "multi-user.target.wants" / machine.unit.name)
    for link in links:
        link.symlink_to(version / machine.unit.name)
    machine.unit.unlink()
    machine.unit.symlink_to(version / machine.unit.name)
    assert 0 == machine.install(put_wheels(tmp_path / "wheels", "4")).returncode

    assert not links[0].is_symlink()
    assert machine.unit == links[1].readlink()
    assert (ROOT / "systemd/meshwatchd.service").read_text() == machine.unit.read_text()
    assert not machine.unit.is_symlink()
    assert [machine.unit.name] == [path.name for path in machine.unit.parent.iterdir()]


def test_nobody_can_replace_a_socket_of_somebody_else():
    """Members of the group add theirs to the folder, where a request tells a private key to whoever listens."""
    [line] = [each for each in (ROOT / "systemd/meshwatchd.tmpfiles").read_text().splitlines() if each[:1] == "d"]

    assert ["/run/wireguard", "1775", "root", "meshwatch"] == line.split()[1:5]


def test_the_same_once_more_keeps_the_version_before(machine, tmp_path):
    """As after an installation that was interrupted at its end: going back led from 4 to 4, and 3 was gone."""
    wheels = put_wheels(tmp_path / "wheels", "4")
    assert 0 == machine.install(wheels).returncode

    assert ["3", "4"] == machine.versions()
    assert (machine.home / "previous").readlink().name.startswith("3-")
    assert "4" == machine.say()


@pytest.mark.parametrize("damaged", ["meshwatchd", "pip"])
def test_a_damaged_wheel_is_not_installed(machine, tmp_path, damaged):
    """Cut short, as by a copy that was interrupted."""
    wheels, before = put_wheels(tmp_path / "wheels", "5"), (machine.say(), machine.versions())
    (wheel,) = wheels.glob(f"{damaged}-*.whl")
    wheel.write_bytes(wheel.read_bytes()[: wheel.stat().st_size // 2])
    done = machine.install(wheels)

    assert (1, f"install: {wheels} does not fit; nothing was changed") == (
        done.returncode,
        done.stderr.splitlines()[-1],
    )
    assert before == (machine.say(), machine.versions())


def test_what_is_killed_leaves_what_runs_and_is_made_good_by_the_next(machine, tmp_path):
    """SIGKILL to all of it, early and late; the remains go with the next installation."""
    wheels, before = put_wheels(tmp_path / "wheels", "6"), machine.say()
    for seconds in (0.2, 0.8):
        machine.kill_install(wheels, after_s=seconds)
        assert machine.say() in {before, "6"}
    done = machine.install(wheels)

    assert (0, "6") == (done.returncode, machine.say()), done.stderr
    assert [before, "6"] == machine.versions()
    assert [] == list(machine.home.glob(".*.new"))


def test_what_is_uninstalled_leaves_nothing_but_what_people_wrote(tmp_path):
    """And with purge nothing at all: the lists of files before and after are the same."""
    machine = Machine(tmp_path)

    def files() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if not path.is_dir() or path.is_symlink()}

    wheels = put_wheels(tmp_path / "wheels", "1")
    before = files()
    done = machine._run(
        "install", "--wheels", str(wheels), "--destdir", str(tmp_path), prefix="/usr", sysconfdir="/etc"
    )
    assert 0 == done.returncode, done.stderr
    # Of a folder with a name too long for the kernel's first line, pip makes a script that a shell begins.
    script = (machine.home / "current/bin/meshwatchd").read_text()
    assert "/usr/lib/meshwatchd/versions/1-" in "".join(script.splitlines()[:2])
    assert str(tmp_path) not in script
    assert str(tmp_path) not in (machine.home / "current/pyvenv.cfg").read_text()

    assert 0 == machine.uninstall(purge="").returncode
    assert {machine.config} == files() - before
    settings = machine.config.with_name("kube.toml")
    settings.touch()
    assert 0 == machine.uninstall(purge="yes").returncode
    assert {settings} == files() - before, "what meshwatchd-kube is told is not ours"
    settings.unlink()
    assert 0 == machine.uninstall(purge="yes").returncode
    assert before == files()
    assert not machine.config.parent.exists()


def test_a_kubeconfig_that_is_left_is_roots_alone(tmp_path):
    """The group that read it is gone after a purge, and its number may be given to another one."""
    machine = Machine(tmp_path)
    settings, kubeconfig = (machine.config.with_name(name) for name in ("kube.toml", "kubeconfig"))
    kubeconfig.parent.mkdir(parents=True)
    settings.touch()
    kubeconfig.touch()
    kubeconfig.chmod(0o640)
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(kubeconfig, -1, 4711)

    assert "==> kept: /etc/meshwatchd/kube.toml; " in machine.uninstall_kube(purge="").stdout
    assert 0o640 == kubeconfig.stat().st_mode & 0o777
    done = machine.uninstall_kube(purge="yes")
    assert 0 == done.returncode, done.stderr
    assert [kubeconfig] == list(kubeconfig.parent.iterdir())
    assert (0o600, 0 if is_root else os.getegid()) == (kubeconfig.stat().st_mode & 0o777, kubeconfig.stat().st_gid)
    assert done.stdout.splitlines()[-1].startswith("==> kept: /etc/meshwatchd/kubeconfig, ")
    kubeconfig.unlink()
    assert ("", "") == (machine.uninstall_kube(purge="yes").stdout, done.stderr)
