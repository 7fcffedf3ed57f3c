"""Which files are made, and from what."""

from __future__ import annotations

from scripts.generate import alerts, dashboard, faults

FOLDERS: tuple[str, ...] = ()
"""Folders that hold nothing else."""


def generated() -> dict[str, str]:
    """The text of each file by its name from the repository's root."""
    return {
        "etc/prometheus/meshwatchd.rules.yml": alerts.rules(),
        "etc/grafana/meshwatchd.json": dashboard.dashboard(),
        "docs/alerts.md": alerts.page(),
        "docs/faults.md": faults.page(),
    }
