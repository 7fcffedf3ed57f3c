"""Which files are made, and from what."""

from __future__ import annotations

from meshwatchd.config.dump import sample_of
from meshwatchkube.settings import Settings as KubeSettings
from scripts.generate import alerts, dashboard, faults, manifests, manual

FOLDERS = ("man", "completions/bash", "completions/zsh", "completions/fish")
"""Folders that hold nothing else."""


KUBE_HEADER = """\
Configuration of meshwatchd-kube. Every value below is the default, by which nothing is changed: begin with the modes at
"dry-run". Check it with `meshwatchd-kube --check`.
"""


def generated() -> dict[str, str]:
    """The text of each file by its name from the repository's root."""
    return {
        "etc/prometheus/meshwatchd.rules.yml": alerts.rules(),
        "etc/grafana/meshwatchd.json": dashboard.dashboard(),
        "docs/alerts.md": alerts.page(),
        "docs/faults.md": faults.page(),
        "man/meshwatchctl.1": manual.control_page(),
        "man/meshwatchd.8": manual.daemon_page(),
        "kube/manifests/base/prometheusrule.yaml": manifests.prometheus_rule(),
        "kube/manifests/base/dashboard.yaml": manifests.dashboard_map(),
        "kube/kube.toml": sample_of(KubeSettings, KUBE_HEADER),
        **{path: manual.completion(shell) for shell, path in manual.SHELLS.items()},
    }
