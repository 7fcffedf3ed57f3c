"""The engine process from start to stop, as a supervisor sees it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meshwatchd.adapters.namespace_lock import NamespaceLock, names_of
from meshwatchd.adapters.process import InstanceLock
from meshwatchd.model.settings import DaemonSettings, Settings
from meshwatchd.runtime.boot import EXIT_NOT_ALONE, Boot
from meshwatchd.runtime.engine_process import _is_alone, run
from tests.support.netns import Space, namespace


def test_second_daemon_names_the_first(tmp_path, capsys):
    """Exit 1, one line with the pid, and nothing else is touched."""
    lock = InstanceLock(tmp_path / "engine.lock")
    lock.acquire()
    daemon = DaemonSettings(node="a1", runtime_dir=str(tmp_path), state_dir=str(tmp_path / "state"))

    status = run(Boot(config=str(tmp_path / "none.toml"), settings=Settings(daemon=daemon)))
    lock.release()

    assert EXIT_NOT_ALONE == status
    assert os.getpid() == json.loads(capsys.readouterr().err)["pid"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("other", "what"),
    [({"port": 18618, "protocol": 118}, "probe.port"), ({"port": 1, "protocol": 117}, "kernel.protocol")],
)
def test_a_daemon_of_other_directories_is_found_by_what_both_would_use(tmp_path, capsys, other, what):
    """Each would take the other's rules for remnants: the second one ends before it touches anything."""
    settings = Settings(daemon=DaemonSettings(node="a1", runtime_dir=str(tmp_path), state_dir=str(tmp_path / "state")))
    first = NamespaceLock(names_of(**other))
    assert () == first.acquire()

    status = run(Boot(config=str(tmp_path / "none.toml"), settings=settings))
    first.release()

    said = json.loads(capsys.readouterr().err)
    assert EXIT_NOT_ALONE == status
    assert (os.getpid(), f"stop it, or give this one another {what}") == (said["pid"], said["remedy"])
    assert not (tmp_path / "state").exists()
    assert InstanceLock(tmp_path / "engine.lock").acquire() is None


def test_a_name_that_anybody_has_taken_keeps_no_daemon_from_starting(capsys):
    """Its process does not listen, so nobody knows whose it is."""
    name = f"meshwatchd/test/{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(f"\0{name}")

        assert _is_alone(NamespaceLock((name,)))
    assert "start.unguarded" == json.loads(capsys.readouterr().err)["event"]


def _config(folder: Path) -> Path:
    key = folder / "mesh.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    key.chmod(0o400)
    path = folder / "meshwatchd.toml"
    path.write_text(
        f'[daemon]\nnode = "a1"\nruntime_dir = "{folder}/run"\nstate_dir = "{folder}/state"\n'
        f'[auth]\nkey_file = "{key}"\n'
    )
    return path


@contextmanager
def _daemon(space: Space, config: Path, notify: Path) -> Iterator[subprocess.Popen[str]]:
    command = ["ip", "netns", "exec", space.name, sys.executable, "-P", "-m", "meshwatchd.runtime.main"]
    environment = {**os.environ, "NOTIFY_SOCKET": str(notify)}
    process = subprocess.Popen([*command, "--config", str(config)], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.lab
def test_daemon_gets_ready_keeps_the_watchdog_fed_and_stops_in_order(tmp_path):
    """READY after the first dump, WATCHDOG while it runs, STOPPING and status 0 on SIGTERM, its agent gone with it."""
    with namespace() as space, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        notify = tmp_path / "notify"
        systemd.bind(str(notify))
        systemd.settimeout(20)
        space.ip("rule", "add", "pref", "5460", "lookup", "7701", "protocol", "117")
        with _daemon(space, _config(tmp_path), notify) as process:
            said = [systemd.recv(100), systemd.recv(100)]
            pids = subprocess.run(["ip", "netns", "pids", space.name], capture_output=True, text=True, check=True)
            process.send_signal(signal.SIGTERM)
            said.append(systemd.recv(100))
            status = process.wait(20)

        assert [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"] == said
        assert 0 == status
        assert 2 == len(pids.stdout.split())
        assert [] == [pid for pid in pids.stdout.split() if Path("/proc", pid).exists()]
        assert "5460:" in space.ip("rule")


@pytest.mark.lab
def test_agent_killed_is_agent_restarted(tmp_path):
    """The engine stays, and says READY once only; a new agent reports to it."""
    with namespace() as space, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        notify = tmp_path / "notify"
        systemd.bind(str(notify))
        systemd.settimeout(20)
        with _daemon(space, _config(tmp_path), notify) as process:
            assert b"READY=1" == systemd.recv(100)
            [agent] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(agent), signal.SIGKILL)
            said = {systemd.recv(100) for _ in range(3)}
            [successor] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

        assert {b"WATCHDOG=1"} == said
        assert agent != successor
