"""A dashboard for Grafana, as JSON that its import page takes."""

from __future__ import annotations

import json
from typing import NamedTuple


class Panel(NamedTuple):
    """One panel; `queries` are expressions with their legends."""

    title: str
    kind: str
    unit: str
    width: int
    queries: tuple[tuple[str, str], ...]
    about: str = ""


_AT = 'instance=~"$instance"'
_TO = f'{_AT},location=~"$location"'


def _lost_share(labels: str, selector: str) -> str:
    """The share of probes that were lost lately, for each set of labels."""
    lost, sent = (
        f"sum by ({labels}) (rate(meshwatch_probes_{what}_total{{{selector}}}[$__rate_interval]))"
        for what in ("lost", "sent")
    )
    return f"{lost} / {sent}"


PANELS = (
    Panel("Worst verdict", "stat", "none", 4, ((f"max(meshwatch_severity{{{_AT}}})", "0 ok, 1 warning, 2 critical"),)),
    Panel("Engines that report", "stat", "none", 4, ((f"sum(meshwatch_up{{{_AT}}})", "up"),)),
    Panel("Incidents that go on", "stat", "none", 4, ((f"sum(meshwatch_incidents_open{{{_AT}}})", "open"),)),
    Panel(
        "Traffic lost, range",
        "stat",
        "s",
        6,
        ((f"max(increase(meshwatch_outage_seconds_total{{{_TO}}}[$__range]))", "worst node"),),
    ),
    Panel("Moves, range", "stat", "none", 6, ((f"max(increase(meshwatch_moves_total{{{_TO}}}[$__range]))", "moves"),)),
    Panel(
        "Verdicts",
        "table",
        "none",
        24,
        ((f'meshwatch_verdict{{{_TO},fault!="none"}}', ""), (f"meshwatch_fault{{{_AT}}}", "")),
        "What is broken, at which layer of which node, as each node sees it.",
    ),
    Panel(
        "Path in use",
        "state-timeline",
        "none",
        12,
        ((f"meshwatch_active_rank{{{_TO}}}", "{{instance}} to {{location}}"),),
        "0 is the primary path, others are standbys.",
    ),
    Panel(
        "Paths that answer",
        "state-timeline",
        "none",
        12,
        ((f"meshwatch_path_good{{{_TO}}}", "{{instance}} to {{location}}, {{rank}}"),),
    ),
    Panel(
        "Round trip",
        "timeseries",
        "s",
        12,
        ((f"meshwatch_path_rtt_seconds{{{_TO}}}", "{{instance}} to {{location}}, {{rank}}"),),
    ),
    Panel(
        "Probes lost, by path",
        "timeseries",
        "percentunit",
        12,
        (
            (
                _lost_share("instance, location, rank, flow", _TO),
                "{{instance}} to {{location}}, {{rank}}, {{flow}}",
            ),
        ),
        "From this node to there and back; the same path from the other end is that end's panel.",
    ),
    Panel(
        "Probes lost, by layer",
        "timeseries",
        "percentunit",
        12,
        (
            (
                _lost_share("layer, flow", _AT),
                "{{layer}}, {{flow}}",
            ),
        ),
        "Fresh flows lost while established ones live is a flow table below that does not learn.",
    ),
    Panel(
        "WireGuard handshakes",
        "timeseries",
        "s",
        12,
        ((f"meshwatch_wireguard_handshake_age_seconds{{{_AT}}}", "{{instance}} {{device}} {{peer}}"),),
    ),
    Panel(
        "Engine lateness",
        "timeseries",
        "s",
        12,
        ((f"meshwatch_engine_lateness_seconds{{{_AT}}}", "{{instance}} {{statistic}}"),),
    ),
    Panel("Engine CPU", "timeseries", "percentunit", 12, ((f"meshwatch_engine_busy_ratio{{{_AT}}}", "{{instance}}"),)),
    Panel(
        "Overlay device",
        "timeseries",
        "none",
        12,
        (
            (f"vxlan_fdb_entries_total{{{_AT}}}", "{{instance}} FDB entries"),
            (f"vxlan_stale_neighbor_entries{{{_AT}}}", "{{instance}} STALE neighbours"),
        ),
    ),
    Panel("Canaries", "state-timeline", "none", 12, ((f"meshwatch_canary_up{{{_AT}}}", "{{instance}} {{canary}}"),)),
)

_COLUMNS = 24
_HEIGHTS = {"stat": 4}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> str:
    """The JSON."""
    model = {
        "title": "meshwatchd",
        "uid": "meshwatchd",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["meshwatchd", "wireguard", "vxlan"],
        "templating": {"list": [_source_variable(), _variable("instance"), _variable("location")]},
        "panels": _panels(),
    }
    return json.dumps(model, indent=2) + "\n"


def _panels() -> list[dict[str, object]]:
    panels: list[dict[str, object]] = []
    left = top = 0
    row_height = 0
    for number, panel in enumerate(PANELS, 1):
        if left + panel.width > _COLUMNS:
            left, top, row_height = 0, top + row_height, 0
        height = _HEIGHTS.get(panel.kind, 8)
        panels.append(
            {
                "id": number,
                "title": panel.title,
                "description": panel.about,
                "type": panel.kind,
                "datasource": _SOURCE,
                "gridPos": {"x": left, "y": top, "w": panel.width, "h": height},
                "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                "targets": [_target(index, panel.kind, *query) for index, query in enumerate(panel.queries)],
            }
        )
        left, row_height = left + panel.width, max(row_height, height)
    return panels


def _target(index: int, kind: str, expression: str, legend: str) -> dict[str, object]:
    target: dict[str, object] = {"refId": "ABCDEF"[index], "expr": expression, "legendFormat": legend}
    if kind in ("table", "stat"):
        target |= {"instant": True, "format": "table" if kind == "table" else "time_series"}
    return target | {"datasource": _SOURCE}


def _source_variable() -> dict[str, object]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(label: str) -> dict[str, object]:
    metric = "meshwatch_up" if label == "instance" else "meshwatch_active_rank"
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({metric}, {label})",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
