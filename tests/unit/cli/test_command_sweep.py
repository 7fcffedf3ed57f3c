"""`meshwatchctl sweep`: what it says, and when it does not sweep."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.process import InstanceLock
from meshwatchd.cli import command_sweep
from meshwatchd.cli.main import main
from meshwatchd.model.errors import KernelError
from tests.support.control_room import Backend, control_room


@pytest.fixture
def config(tmp_path):
    """A configuration whose folders are the test's."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(f'[daemon]\nruntime_dir = "{tmp_path}"\nstate_dir = "{tmp_path}"\n[kernel]\ntable_base = 7600\n')
    return path


@pytest.fixture
def swept(monkeypatch):
    """The kernel's part, which is tested with a kernel: what it was asked, and what it finds."""
    calls = []

    def sweep(settings, *, is_dry_run):
        calls.append((settings.kernel.table_base, is_dry_run))
        return ["rule pref 5400", "device mw0"]

    monkeypatch.setattr(command_sweep, "_sweep", sweep)
    return calls


def test_each_object_is_named(config, swept, capsys):
    """And the numbers come from the configuration."""
    assert 0 == main(["sweep", "--config", str(config)])
    assert [(7600, False)] == swept
    assert "removed rule pref 5400\nremoved device mw0\n" == capsys.readouterr().out


def test_a_dry_run_says_so(config, swept, capsys):
    """In JSON as well."""
    assert 0 == main(["sweep", "--dry-run", "--config", str(config)])
    assert 0 == main(["--json", "sweep", "--dry-run", "--config", str(config)])
    assert [(7600, True), (7600, True)] == swept
    out = capsys.readouterr().out
    assert "would remove device mw0\n" in out
    assert '{"dry_run":true,"removed":["rule pref 5400","device mw0"]}\n' in out


def test_under_a_running_daemon_nothing_is_swept(tmp_path, config, swept, capsys):
    """It would put everything back, in the middle of which traffic would be cut."""
    with control_room(tmp_path / "control.sock", Backend()):
        assert 1 == main(["sweep", "--config", str(config)])
        assert "meshwatchd is running and would put all of it back; stop it first" in capsys.readouterr().err
        assert 0 == main(["sweep", "--dry-run", "--config", str(config)])
    assert [(7600, True)] == swept


def test_under_an_engine_whose_agent_does_not_answer_nothing_is_swept(tmp_path, config, swept, capsys):
    """The agent may be wedged or between two lives; the engine puts its rules back by itself."""
    lock = InstanceLock(tmp_path / "engine.lock")
    lock.acquire()
    try:
        assert 1 == main(["sweep", "--config", str(config)])
    finally:
        lock.release()
    assert "meshwatchd is running" in capsys.readouterr().err
    assert 0 == main(["sweep", "--config", str(config)])
    assert [(7600, False)] == swept


def test_under_a_daemon_at_another_socket_nothing_is_swept(tmp_path, config, swept):
    """One that was started with --config has its own runtime directory; whoever sweeps names its socket."""
    path = tmp_path / "elsewhere.sock"
    with control_room(path, Backend()):
        assert 1 == main(["--socket", str(path), "sweep", "--config", str(config)])
    assert [] == swept


def test_a_configuration_that_cannot_be_used_sweeps_nothing(tmp_path, swept, capsys):
    """Wrong numbers would mark somebody else's objects."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text("[kernel]\ntable_base = 254\n")
    assert 2 == main(["sweep", "--config", str(path)])
    assert f"meshwatchctl: {path}: kernel.table_base: " in capsys.readouterr().err
    assert [] == swept


def test_the_kernels_refusal_is_a_line(config, monkeypatch, capsys):
    """Without root, for instance."""

    def sweep(settings, *, is_dry_run):
        raise KernelError("delete rule 5400", 1, "Operation not permitted")

    monkeypatch.setattr(command_sweep, "_sweep", sweep)
    assert 1 == main(["sweep", "--config", str(config)])
    assert "meshwatchctl: delete rule 5400: Operation not permitted (errno 1)\n" == capsys.readouterr().err
