"""What is put into the directory shared with a guest."""

from __future__ import annotations

import subprocess
from pathlib import Path

from netnslab.backends.guest import guest_environment, prepare_shared


def test_command_arrives_as_it_was_given(tmp_path):
    """Spaces, quotes and dollar signs in arguments, values and directories mean nothing to the shell inside."""
    shared, cwd = tmp_path / "shared", tmp_path / "it's $HOME"
    shared.mkdir()
    cwd.mkdir()
    argument, value = "a 'b' \"$c\" `d`", "x; exit 1"
    prepare_shared(
        shared,
        ["sh", "-c", 'printf "%s|%s|%s" "$1" "$NETNSLAB_X" "$PWD"', "sh", argument],
        modules=Path("/m"),
        cwd=cwd,
        environment={"PATH": "/usr/bin:/bin", "NETNSLAB_X": value},
        limit_s=10,
    )
    done = subprocess.run(["sh", shared / "command"], capture_output=True, text=True, check=True)

    assert f"{argument}|{value}|{cwd}" == done.stdout


def test_boot_script_is_understood_by_a_shell(tmp_path):
    """The script is text in Python; a syntax error in it would only show in a booted guest."""
    prepare_shared(tmp_path, ["true"], modules=Path("/m"), cwd=Path("/"), environment={}, limit_s=1)

    assert 0 == subprocess.run(["sh", "-n", tmp_path / "boot"], check=False).returncode


def test_own_settings_are_inherited_and_strangers_are_not(monkeypatch):
    """A secret of the machine's user has no business in the guest's command file."""
    monkeypatch.setenv("MESHWATCH_UPDATE_GOLDEN", "1")
    monkeypatch.setenv("SOME_TOKEN", "secret")

    assert "1" == guest_environment()["MESHWATCH_UPDATE_GOLDEN"]
    assert "SOME_TOKEN" not in guest_environment()
