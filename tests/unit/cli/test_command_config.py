"""`meshwatchctl config`: what is in force, and what it means."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.main import main
from meshwatchd.config.load import load


@pytest.fixture
def file(tmp_path):
    """One that sets the port."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text('[daemon]\nnode = "b3"\n[probe]\nport = 20000\n')
    return path


def test_what_is_shown_loads_to_the_same(file, tmp_path, capsys):
    """In TOML, or as JSON."""
    assert 0 == main(["config", "show", "--config", str(file)])
    other = tmp_path / "other.toml"
    other.write_text(capsys.readouterr().out)
    assert load(file) == load(other)
    assert 0 == main(["config", "show", "--config", str(file), "--json"])
    assert 20000 == msgspec.json.decode(capsys.readouterr().out)["probe"]["port"]


@pytest.mark.parametrize("key", ["probe.port", "port"])
def test_a_setting_is_explained_by_its_key_or_its_last_part(file, capsys, key):
    """With the default where the file says something else; stamp has no port."""
    assert 0 == main(["config", "explain", key, "--config", str(file)])
    out = capsys.readouterr().out
    assert "probe.port = 20000 (default 18618)\n    UDP port of segment probes," in out


def test_a_section_is_explained_as_a_whole(capsys):
    """Choices are told; without a file by the defaults."""
    assert 0 == main(["config", "explain", "daemon"])
    assert "One of observe, advise, enforce." in capsys.readouterr().out
    assert 0 == main(["config", "show", "daemon"])
    assert 'daemon.mode = "observe"\n' in capsys.readouterr().out


def test_a_key_that_is_none_names_the_nearest(capsys):
    """As typing errors in the file do."""
    assert 64 == main(["config", "explain", "probe.prot"])
    assert "there is no setting probe.prot; did you mean probe.port?" in capsys.readouterr().err


def test_a_file_that_is_wrong_names_the_place(tmp_path, capsys):
    """With the exit status of the daemon."""
    path = tmp_path / "wrong.toml"
    path.write_text("[probe]\nprot = 1\n")
    assert 2 == main(["config", "show", "--config", str(path)])
    assert f"meshwatchctl: {path}: probe.prot: unknown key" in capsys.readouterr().err
