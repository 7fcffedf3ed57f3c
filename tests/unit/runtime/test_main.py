"""The command line: what is said, and the exit status."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from meshwatchd.runtime import engine_process
from meshwatchd.runtime.engine_process import Boot
from meshwatchd.runtime.main import EXIT_BUG, EXIT_CONFIG, EXIT_OK, main


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration that can be used, with its key."""
    key = tmp_path / "mesh.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    key.chmod(0o400)
    path = tmp_path / "meshwatchd.toml"
    path.write_text(f'[daemon]\nnode = "a1"\nruntime_dir = "{tmp_path}"\n[auth]\nkey_file = "{key}"\n')
    return path


def test_check_is_silent_when_all_is_well(config, capsys):
    """Exit 0, not a word, and no engine."""
    assert EXIT_OK == main(["--config", str(config), "--check"])
    assert ("", "") == capsys.readouterr()


def test_version_is_one_line(capsys):
    """For packagers."""
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])

    assert 0 == exit_.value.code
    assert capsys.readouterr().out.startswith("meshwatchd 0.")


@pytest.mark.parametrize("option", ["--check", "--dump-config"])
def test_unusable_configuration_is_one_line_and_status_2(tmp_path, capsys, option):
    """The line names the file; nothing is started."""
    path = tmp_path / "missing.toml"

    assert EXIT_CONFIG == main(["--config", str(path), option])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(str(path))


def test_readable_key_is_refused(config, tmp_path, capsys):
    """A mesh key that others can read is no secret."""
    (tmp_path / "mesh.key").chmod(0o644)

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert "mesh.key" in capsys.readouterr().err


def test_a_stamp_key_that_is_missing_is_found_by_the_check(config, tmp_path, capsys):
    """Only where somebody would be answered with it."""
    section = f'[stamp]\nkey_file = "{tmp_path}/stamp.key"\nmode = "authenticated"\nallow = ["10.0.0.0/8"]\n'
    config.write_text(config.read_text() + section)
    assert EXIT_OK == main(["--config", str(config), "--check"])
    config.write_text(config.read_text() + "listen = 862\n")

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert f"{tmp_path}/stamp.key: stamp.key_file: there is no such file; run: " in capsys.readouterr().err


def test_effective_configuration_is_printed(config, capsys):
    """What was set, and the defaults with it."""
    assert EXIT_OK == main(["--config", str(config), "--dump-config"])
    printed = capsys.readouterr().out

    assert 'node = "a1"' in printed
    assert "priority_base = 5400" in printed


def test_engine_gets_what_was_read(config, monkeypatch):
    """Its exit status is ours."""
    boots: list[Boot] = []

    def run(boot: Boot) -> int:
        boots.append(boot)
        return 3

    monkeypatch.setattr(engine_process, "run", run)

    assert 3 == main(["--config", str(config)])
    assert (config, "a1", bytes(32)) == (boots[0].config, boots[0].settings.daemon.node, boots[0].secret)


def test_error_nobody_expected_is_one_line_of_json_and_status_70(config, monkeypatch, capsys):
    """With the trace inside, for whoever has to mend it."""

    def break_down(_boot: Boot) -> int:
        raise RuntimeError("unheard of")

    monkeypatch.setattr(engine_process, "run", break_down)

    assert EXIT_BUG == main(["--config", str(config)])
    [line] = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert ("engine.crashed", "RuntimeError('unheard of')") == (said["event"], said["error"])
    assert "break_down" in said["trace"]
