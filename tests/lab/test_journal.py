"""The journal of a real mesh, replayed: every engine decides as it did."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from netnslab import faults
from tests.support.stage import QUICK, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

SETTINGS: Mapping[str, Mapping[str, object]] = {**QUICK, "daemon": {"journal_mib": 16}}


def test_every_engine_of_a_lab_decides_the_same_once_more(tmp_path):
    """A fault of new flows, failover, failback, and the end of the daemons: all of it once more."""
    with stage(tmp_path, settings=SETTINGS) as mesh:
        with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")):
            mesh.wait_switched()
        mesh.wait_home()
        nodes = mesh.nodes
        mesh.daemons.stop()
        for node in nodes:
            command = [sys.executable, "-P", "-m", "meshwatchd.cli.main", "replay", "/run/meshwatchd/journal"]
            done = mesh.lab.node(node).run(command)
            assert 0 == done.returncode, f"{node}: {done.stdout[-3000:]}{done.stderr}"
            assert "the same" in done.stdout.splitlines()[-1]
            assert "failover.applied" in done.stdout
