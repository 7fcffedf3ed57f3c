"""Which files are made, and from what."""

from __future__ import annotations

from scripts.generate import alerts, dashboard, faults, manual

FOLDERS = ("man", "completions/bash", "completions/zsh", "completions/fish")
"""Folders that hold nothing else."""


def generated() -> dict[str, str]:
    """The text of each file by its name from the repository's root."""
    return {
        "etc/prometheus/meshwatchd.rules.yml": alerts.rules(),
        "etc/grafana/meshwatchd.json": dashboard.dashboard(),
        "docs/alerts.md": alerts.page(),
        "docs/faults.md": faults.page(),
        "man/meshwatchctl.1": manual.control_page(),
        "man/meshwatchd.8": manual.daemon_page(),
        **{path: manual.completion(shell) for shell, path in manual.SHELLS.items()},
    }
