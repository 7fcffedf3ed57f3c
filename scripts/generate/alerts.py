"""Alert rules for Prometheus, and the page that each of them sends a person to."""

from __future__ import annotations

from typing import NamedTuple

RUNBOOKS = "file:///usr/share/doc/meshwatchd/docs/alerts.md"
"""`make install` puts the page there; who serves it elsewhere replaces this in the rules."""


class Alert(NamedTuple):
    """One rule.

    Attributes:
        hold: for how long the expression has to be true.
        severity: "page" wakes somebody, "ticket" waits for the morning.
        means, check: for the page.
    """

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    means: str
    check: str


ALERTS = (
    Alert(
        "MeshwatchTrafficLost",
        "meshwatch_verdict_severity == 2",
        "30s",
        "page",
        "{{ $labels.instance }} loses traffic to {{ $labels.location }}",
        "The path in use is broken, and no move has bridged it: no standby is good, the mode moves nothing, or both"
        " ends do not agree.",
        "`meshwatchctl explain` on the node: the layer, the node, and what is left to do. `meshwatchctl failover` moves"
        " traffic by hand.",
    ),
    Alert(
        "MeshwatchOnStandby",
        "meshwatch_active_rank > 0",
        "15m",
        "ticket",
        "{{ $labels.instance }} reaches {{ $labels.location }} over a standby path",
        "Traffic flows. The primary path is broken, flaps, or is left by an operator's order.",
        "`meshwatchctl explain`: the fault, and when traffic moves back.",
    ),
    Alert(
        "MeshwatchNoStandby",
        'max by (instance, location) (meshwatch_path_good{rank!="0"}) == 0',
        "10m",
        "ticket",
        "{{ $labels.instance }} has no good standby path to {{ $labels.location }}",
        "The next fault of the path in use cannot be bridged.",
        "`meshwatchctl status`: which standby paths are down, then UDP between their relays (`standby.port` upwards).",
    ),
    Alert(
        "MeshwatchOutage",
        "increase(meshwatch_outage_seconds_total[1h]) > 5",
        "0m",
        "ticket",
        "{{ $labels.instance }} lost traffic to {{ $labels.location }} for {{ $value | humanizeDuration }} in an hour",
        "A failover takes well under a second. More was lost than failovers explain.",
        "`meshwatchctl incidents`, then `meshwatchctl explain --incident NUMBER`.",
    ),
    Alert(
        "MeshwatchFlapping",
        "increase(meshwatch_moves_total[1h]) > 4",
        "0m",
        "ticket",
        "traffic of {{ $labels.instance }} to {{ $labels.location }} moves again and again",
        "A path comes and goes. Damping makes each return wait longer, so this does not get worse by itself.",
        "`meshwatchctl incidents`; `meshwatchctl pin LOCATION` keeps traffic where it is meanwhile.",
    ),
    Alert(
        "MeshwatchOverlayDeviceMissing",
        'meshwatch_fault{fault="overlay-device-missing"} > 0',
        "1m",
        "ticket",
        "the overlay device of {{ $labels.instance }} is missing",
        "Every pod of that node is unreachable from other nodes, while the node is Ready.",
        "Restart the CNI's agent on that node; `meshwatchctl explain overlay-device-missing`.",
    ),
    Alert(
        "MeshwatchOverlayDeviceMissingEverywhere",
        'count(meshwatch_fault{fault="overlay-device-missing"} > 0) >= count(meshwatch_up) and count(meshwatch_up) > 1',
        "1m",
        "page",
        "no node has its overlay device",
        "The CNI is down on every node that is watched: no pod reaches another node.",
        "The CNI's DaemonSet and its configuration, before any single node.",
    ),
    Alert(
        "MeshwatchKubeletUnreachable",
        'meshwatch_verdict{fault=~"kubelet-unreachable|apiserver-unreachable|one-way-break"} == 1',
        "1m",
        "page",
        "{{ $labels.culprit }} cannot be reached from {{ $labels.instance }} although it is alive",
        "Connections to that node fail, or all that is sent there is lost: the API server cannot reach its kubelet"
        " (10250) while its node object stays Ready, or kubelets cannot reach its API server (6443).",
        "`meshwatchctl explain` says what is known of the other direction. Whether kubelet or API server runs there;"
        " filters of that port; the NAT entry and the WireGuard endpoint of that node; keepalive on its side."
        " `meshwatchctl bisect NODE`.",
    ),
    Alert(
        "MeshwatchStaleOverlayNeighbours",
        "vxlan_stale_neighbor_entries > 0",
        "15m",
        "ticket",
        "{{ $labels.instance }} has {{ $value }} STALE neighbours on its overlay device",
        "A CNI of this kind makes these entries permanent. STALE ones are the beginning of a wedged overlay.",
        "`meshwatchctl explain neighbour-not-permanent`; with `[repair]` the daemon puts them right.",
    ),
    Alert(
        "MeshwatchPodRouteEscaped",
        "flannel_route_via_wg0 > 0",
        "5m",
        "ticket",
        "{{ $labels.instance }} routes pods of {{ $value }} peers past the overlay",
        "A route of the pod network leads into WireGuard by itself: large packets and policies differ there, and the"
        " peer may drop what comes that way.",
        "`meshwatchctl explain pod-route-escaped` names the route and the command that removes it.",
    ),
    Alert(
        "MeshwatchHandshakeOld",
        "meshwatch_wireguard_handshake_age_seconds > 300",
        "2m",
        "ticket",
        "no WireGuard handshake on {{ $labels.device }} of {{ $labels.instance }} for {{ $value | humanizeDuration }}",
        "Sessions are renewed each two minutes while there is traffic, and probes are traffic.",
        "UDP between the endpoints, the configured endpoint, and the keys on both sides: `meshwatchctl explain`.",
    ),
    Alert(
        "MeshwatchKernelFault",
        'meshwatch_fault{severity="critical",fault!="overlay-device-missing"} > 0',
        "2m",
        "ticket",
        "{{ $labels.fault }} on {{ $labels.device }} of {{ $labels.instance }}",
        "A look at the node's kernel found something that loses packets.",
        "`meshwatchctl explain` on the node has evidence and commands.",
    ),
    Alert(
        "MeshwatchEngineSilent",
        # A daemon that has ended has no series at all, whatever labels its pod had.
        "meshwatch_up == 0 or meshwatch_status_age_seconds > 10 or"
        " (count by (instance) (last_over_time(meshwatch_up[1h])) unless count by (instance) (meshwatch_up))",
        "1m",
        "page",
        "the engine of {{ $labels.instance }} does not report",
        "Nothing is watched there, and nothing would be moved. Routes stay as they are. A daemon that was stopped on"
        " purpose fires for an hour: silence it.",
        "`systemctl status meshwatchd`, `journalctl -u meshwatchd`.",
    ),
    Alert(
        "MeshwatchEngineLate",
        'meshwatch_engine_lateness_seconds{statistic="p99"} > 0.01',
        "10m",
        "ticket",
        "the engine of {{ $labels.instance }} wakes up {{ $value | humanizeDuration }} late",
        "The machine gives the engine no CPU in time: detection is slower than configured.",
        "Steal time and CPU limits of the machine; real-time scheduling of the unit; a slower `probe.profile`.",
    ),
    Alert(
        "MeshwatchFileOld",
        'time() - node_textfile_mtime_seconds{file=~".*meshwatch.*"} > 120',
        "1m",
        "ticket",
        "the figures of {{ $labels.instance }} are old",
        "The agent writes `metrics.textfile` each 15 s, and removes it when it ends in peace.",
        "`systemctl status meshwatchd`; the folder's space and permissions; the log says why it is not written.",
    ),
)


def rules() -> str:
    """The rules file."""
    lines = ["# Made by `python -m scripts.generate` from scripts/generate/alerts.py.", "groups:"]
    lines += ["  - name: meshwatchd", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {_quote(alert.expression)}",
            f"        for: {alert.hold}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {_quote(alert.summary)}",
            f"          description: {_quote(alert.means)}",
            f"          runbook_url: {RUNBOOKS}#{alert.name.lower()}",
        ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/alerts.md."""
    lines = [
        "# Alerts",
        "",
        "Rules for Prometheus are in `etc/prometheus/meshwatchd.rules.yml`, a dashboard for Grafana is in",
        "`etc/grafana/meshwatchd.json`. Both work with `metrics.listen` and with `metrics.textfile` alike. The",
        "service may write that file below `/run/meshwatchd`: start node_exporter with",
        "`--collector.textfile.directory=/run/meshwatchd`.",
        "",
        "A *page* means that traffic is lost or that nobody watches. A *ticket* can wait for the morning.",
    ]
    for alert in ALERTS:
        lines += ["", f"## {alert.name}", "", f"{alert.severity}, after {alert.hold}: `{alert.expression}`", ""]
        lines += [alert.means, "", f"What to do: {alert.check}"]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
