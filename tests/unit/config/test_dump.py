"""The sample and the effective configuration are files that the program accepts."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from meshwatchd.config.dump import dump_effective, sample
from meshwatchd.config.load import load
from meshwatchd.model.settings import DaemonSettings, Settings

INSTALLED = Path(__file__).parents[3] / "etc/meshwatchd/meshwatchd.toml"


def test_the_sample_loads_as_it_is_and_says_the_defaults():
    """A person may enable the service before having read the file."""
    settings = load(INSTALLED)
    named = msgspec.structs.replace(settings, daemon=msgspec.structs.replace(settings.daemon, node=""))
    assert Settings() == named


def test_the_example_in_the_sample_loads_when_uncommented(tmp_path):
    """An example that does not work is worse than none."""
    text = re.sub(r"^#(?! )", "", sample(), flags=re.MULTILINE).replace('node = ""', 'node = "b3"', 1)
    path = tmp_path / "meshwatchd.toml"
    path.write_text(text)
    assert ["a1", "a2", "a3", "b1", "b2", "b3"] == [node.name for node in load(path).mesh.node]


def test_the_effective_configuration_loads_to_the_same_settings(tmp_path, mesh_toml):
    """What --dump-config prints can be used as the file."""
    path, again = tmp_path / "one.toml", tmp_path / "two.toml"
    path.write_text(mesh_toml)
    settings = load(path)
    again.write_text(dump_effective(settings))
    assert settings == load(again)


def test_an_absent_value_is_left_out():
    """TOML has no word for nothing."""
    text = dump_effective(Settings(daemon=DaemonSettings(node="b3")))
    assert "None" not in text
    assert "null" not in text
    assert 'node = "b3"' in text


def test_every_line_of_the_sample_fits_a_terminal():
    """Long numbers are not broken in their middle either."""
    assert [] == [line for line in sample().splitlines() if len(line) > 100]
    assert "20 000" in sample()
