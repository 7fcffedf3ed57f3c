"""The process: what it is told, and what it says when it cannot."""

from __future__ import annotations

import io
import sys
import time

import msgspec
import pytest

from meshwatchd.bisect import __main__ as program
from meshwatchd.config.dump import dump_effective
from tests.support.lab_mesh import settings_for


@pytest.fixture
def config(tmp_path):
    """A configuration file of b3 without a key."""
    settings = settings_for("b3")
    nodes = tuple(msgspec.structs.replace(node, standby_public_key=None) for node in settings.mesh.node)
    locations = tuple(msgspec.structs.replace(location, standbys=()) for location in settings.mesh.location)
    mesh = msgspec.structs.replace(settings.mesh, node=nodes, location=locations)
    auth = msgspec.structs.replace(settings.auth, key_file=str(tmp_path / "mesh.key"))
    file = tmp_path / "meshwatchd.toml"
    file.write_text(dump_effective(msgspec.structs.replace(settings, auth=auth, mesh=mesh)))
    return file


def test_a_node_that_is_not_of_the_mesh_ends_it_with_the_names_there_are(config, capsys):
    """Status 1 and one line; nothing on standard output, where a result would be."""
    assert 1 == program.main(["--config", str(config), "x9"])

    captured = capsys.readouterr()
    assert "" == captured.out
    assert "x9" in captured.err
    assert "b1" in captured.err


def test_a_missing_key_ends_it_with_the_remedy(config, capsys):
    """Without the key nobody would answer."""
    assert 1 == program.main(["--config", str(config), "b1"])
    assert "mesh.key" in capsys.readouterr().err


def test_the_time_limit_counts_from_the_start_of_the_process():
    """Loading scapy is a good part of it: the process is older than its first line, and not by much."""
    age_ns = time.monotonic_ns() - program.process_started_ns()

    assert 0 < age_ns < 24 * 3600 * 1_000_000_000
    assert age_ns > time.process_time_ns() // 2


def test_the_agents_mesh_comes_before_the_files(config, capsys, monkeypatch):
    """What was found out is on standard input; an empty one means as declared."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"location":[],"node":[]}')))
    assert 1 == program.main(["--config", str(config), "--mesh-stdin", "b1"])
    assert "no node b3" in capsys.readouterr().err

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert 1 == program.main(["--config", str(config), "--mesh-stdin", "b1"])
    assert "mesh.key" in capsys.readouterr().err
