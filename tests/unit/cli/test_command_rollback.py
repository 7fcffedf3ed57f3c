"""`meshwatchctl rollback`: two links change places, where that leaves a daemon that works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from meshwatchd.cli.main import main

UNIT = "meshwatchd.service"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Two versions; the one in force is the interpreter's own."""
    home, units = tmp_path / "lib/meshwatchd", "lib/systemd/system"
    for name in ("1", "2"):
        (home / "versions" / name / "bin").mkdir(parents=True)
        (home / "versions" / name / units).mkdir(parents=True)
        (home / "versions" / name / units / UNIT).write_text(f"unit of {name}", encoding="ascii")
    (tmp_path / units).mkdir(parents=True)
    (tmp_path / units / UNIT).write_text("unit of 2", encoding="ascii")
    put_daemon(home, 0)
    (home / "current").symlink_to("versions/2")
    (home / "previous").symlink_to("versions/1")
    monkeypatch.setattr(sys, "prefix", str(home / "versions/2"))
    return home


def put_daemon(home: Path, status: int) -> None:
    """The version before, and what its --check says."""
    command = home / "versions/1/bin/meshwatchd"
    command.write_text(f'#!/bin/sh\necho "$*: key: is wrong" >&2\nexit {status}\n', encoding="ascii")
    command.chmod(0o755)


def unit(home: Path) -> str:
    """What systemd would find."""
    (found,) = (home.parent / "systemd/system").iterdir()
    assert not found.is_symlink()
    return found.read_text(encoding="ascii")


def links(home: Path) -> tuple[str, str]:
    """What is in force, and what is kept."""
    return str((home / "current").readlink()), str((home / "previous").readlink())


def test_the_version_before_is_in_force_again(home, capsys):
    """And the later one can be come back to."""
    assert 0 == main(["rollback"])
    assert ("versions/1", "versions/2") == links(home)
    assert "unit of 1" == unit(home)
    assert "1 is in force, 2 is kept; next: systemctl" in capsys.readouterr().out
    put_daemon(home, 0)
    (home / "versions/2/bin/meshwatchd").symlink_to(home / "versions/1/bin/meshwatchd")
    assert 0 == main(["--json", "rollback"])
    assert ("versions/2", "versions/1") == links(home)
    assert "unit of 2" == unit(home)
    assert '{"current":"2","previous":"1"}\n' == capsys.readouterr().out


def test_a_version_that_refuses_the_configuration_is_not_gone_back_to(home, capsys):
    """It would leave the node without a daemon."""
    put_daemon(home, 2)

    assert 1 == main(["rollback", "--config", "/etc/other.toml"])
    assert ("versions/2", "versions/1") == links(home)
    assert "unit of 2" == unit(home)
    assert "--check --config /etc/other.toml: key: is wrong" in capsys.readouterr().err


@pytest.mark.parametrize("prefix", ["versions/2", "versions/2/python/usr"])
def test_where_no_version_is_kept_the_remedy_is_named(home, monkeypatch, capsys, prefix):
    """As after a first installation, and with packages, whose interpreter lies deeper."""
    monkeypatch.setattr(sys, "prefix", str(home / prefix))
    (home / "previous").unlink()

    assert 1 == main(["rollback"])
    said = capsys.readouterr().err
    assert f"({home}/previous is missing)" in said
    assert "apt-get install meshwatchd=VERSION" in said
