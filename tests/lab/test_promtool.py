"""Prometheus' own judge reads our metrics, our rules, and the rules' unit tests."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from meshwatchd.adapters.metrics.families import render
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.audit import OverlayFigures
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_status import MOVED, NOW_NS, TUNNELLED

pytestmark = pytest.mark.lab


def _promtool(*arguments: str, data: bytes = b"") -> str:
    done = subprocess.run(["promtool", *arguments], input=data, capture_output=True, check=False, timeout=60)
    return f"{done.returncode} {(done.stdout + done.stderr).decode()}"


def test_metrics_are_clean():
    """Names, units and types as the project's guide has them."""
    incidents = IncidentTracker()
    for line in HISTORY_LINES:
        incidents.take(line)
    counters = {"loop-lateness-p99-ns": 1, "loop-busy-percent": 1, "probes-open": 1, "loop-turns": 4}
    status = msgspec.structs.replace(MOVED, tunnels=TUNNELLED.tunnels, counters=counters)
    text = render(status, OverlayFigures(fdb_entries=1), incidents, now_ns=NOW_NS)

    assert "0 " == _promtool("check", "metrics", data=text)
    assert "0 " != _promtool("check", "metrics", data=text.replace(b"_seconds", b"_milliseconds"))


def test_rules_are_accepted(root):
    """All of them."""
    said = _promtool("check", "rules", str(root / "etc/prometheus/meshwatchd.rules.yml"))
    assert said.startswith("0 ")
    assert "SUCCESS" in said


def test_rules_fire_when_they_should(root, tmp_path):
    """And the tests of them can fail: with a rule that waits for longer they do."""
    cases = root / "tests/promtool/rules_test.yml"
    assert _promtool("test", "rules", str(cases)).startswith("0 ")

    rules = (root / "etc/prometheus/meshwatchd.rules.yml").read_text(encoding="utf-8")
    (tmp_path / "rules.yml").write_text(rules.replace("for: 1m\n", "for: 1h\n"), encoding="utf-8")
    (tmp_path / "cases.yml").write_text(
        cases.read_text(encoding="utf-8").replace("../../etc/prometheus/meshwatchd.rules.yml", "rules.yml"),
        encoding="utf-8",
    )
    assert not _promtool("test", "rules", str(tmp_path / "cases.yml")).startswith("0 ")
