"""Alert rules and dashboard as objects of Kubernetes: a PrometheusRule, and a ConfigMap for Grafana's sidecar."""

from __future__ import annotations

import textwrap

from scripts.generate import alerts, dashboard

_RULE = """\
# Made by `python -m scripts.generate` from scripts/generate/alerts.py.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: meshwatchd
  namespace: kube-system
spec:
"""
_DASHBOARD = """\
# Made by `python -m scripts.generate` from scripts/generate/dashboard.py.
apiVersion: v1
kind: ConfigMap
metadata:
  name: meshwatchd-dashboard
  namespace: kube-system
  labels:
    grafana_dashboard: "1"
data:
  meshwatchd.json: |
"""


def prometheus_rule() -> str:
    """The alert rules for the Prometheus operator."""
    _, _, rules = alerts.rules().partition("\n")
    return _RULE + textwrap.indent(rules, "  ")


def dashboard_map() -> str:
    """The dashboard as a ConfigMap."""
    return _DASHBOARD + textwrap.indent(dashboard.dashboard(), "    ")
