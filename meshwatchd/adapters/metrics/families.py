"""The engine's status as metrics, and three figures under names that existing alerts know.

Labels are bounded: locations, layers, states, codes, devices and peers of WireGuard. Units are base units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily
from prometheus_client.registry import Collector

import meshwatchd
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.status import UNWATCHED, Status, path_rtt_ns

_SEVERITIES = (Severity.OK, Severity.WARNING, Severity.CRITICAL)
_NS = 1_000_000_000


def render(status: Status | None, figures: OverlayFigures, incidents: IncidentTracker, *, now_ns: int) -> bytes:
    """All metrics as text; before the engine's first status meshwatch_up and what the kernel shows."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(status, figures, incidents, now_ns))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, status: Status | None, figures: OverlayFigures, incidents: IncidentTracker, now_ns: int) -> None:
        self._status, self._figures, self._incidents, self._now_ns = status, figures, incidents, now_ns

    def collect(self) -> Iterable[Metric]:
        """Everything, in the order in which it is read."""
        build = GaugeMetricFamily("meshwatch_build_info", "The running version; 1.", labels=["version"])
        build.add_metric([meshwatchd.__version__], 1)
        yield build
        yield _gauge("meshwatch_up", "Whether the engine has reported.", float(self._status is not None))
        yield from _of_the_seed(self._status, self._figures)
        yield from _of_incidents(self._incidents, self._now_ns)
        if self._status is not None:
            yield from _of_the_engine(self._status, self._now_ns)
            yield from _of_counters(self._status.counters)
            yield from _of_pairs(self._status)
            yield from _of_probes(self._status)
            yield from _of_devices(self._status)


def _of_the_seed(status: Status | None, figures: OverlayFigures) -> Iterator[Metric]:
    """Names of a watchdog script that many run; the last counts peers, where the script looked at one address.

    The first has a counter's name and falls as well as it rises: it is told without a type, as the script does.
    """
    escaped = sum(each.fault is FaultCode.POD_ROUTE_ESCAPED for each in status.findings) if status is not None else 0
    entries = UntypedMetricFamily("vxlan_fdb_entries_total", "FDB entries of the overlay device.")
    entries.add_metric([], figures.fdb_entries)
    yield entries
    yield _gauge("vxlan_stale_neighbor_entries", "STALE neighbours of the overlay device.", figures.stale_neighbours)
    yield _gauge("flannel_route_via_wg0", "Peers whose pods are routed past the overlay into WireGuard.", escaped)


def _of_incidents(incidents: IncidentTracker, now_ns: int) -> Iterator[Metric]:
    yield _gauge("meshwatch_incidents_open", "Incidents that go on.", incidents.open)
    outages = CounterMetricFamily(
        "meshwatch_outage_seconds", "For how long traffic to a location was lost, by probes.", labels=["location"]
    )
    for location, outage in sorted(incidents.outages.items()):
        outages.add_metric([location], outage.lost_ns(now_ns) / _NS)
    moves = CounterMetricFamily("meshwatch_moves", "Moves of this node's traffic.", labels=["location", "to"])
    for labels, count in sorted(incidents.moves.items()):
        moves.add_metric(list(labels), count)
    yield from (outages, moves)


def _of_the_engine(status: Status, now_ns: int) -> Iterator[Metric]:
    severity = _SEVERITIES.index(status.severity)
    yield _gauge("meshwatch_ready", "Whether every primary path has been judged.", float(status.is_ready))
    yield _gauge("meshwatch_severity", "The worst verdict: 0 ok, 1 warning, 2 critical.", severity)
    age_s = max(0, now_ns - status.at_ns) / _NS
    yield _gauge("meshwatch_status_age_seconds", "How old the engine's last report is.", age_s)
    mode = GaugeMetricFamily("meshwatch_mode_info", "Mode and role of this node; 1.", labels=["mode", "role"])
    mode.add_metric([status.mode, status.role], 1)
    yield mode
    sessions = GaugeMetricFamily("meshwatch_sessions", "Probe sessions.", labels=["layer", "state"])
    counts = Counter((each.layer.name.lower(), each.state) for each in status.sessions)
    for (layer, state), count in sorted(counts.items()):
        sessions.add_metric([layer, state], count)
    yield sessions


_LATENESS = {"loop-lateness-p50-ns": "p50", "loop-lateness-p99-ns": "p99", "loop-lateness-max-ns": "max"}
_LEVELS = {
    "probes-open": ("meshwatch_probes_open", "Probes that wait for an answer."),
    "source-ports-open": ("meshwatch_source_ports_open", "UDP ports that probes leave by."),
    "memory-locked": ("meshwatch_engine_memory_locked", "Whether the engine's memory cannot be swapped out."),
}
_NO_COUNTS = {*_LATENESS, *_LEVELS, "loop-busy-percent", "key-id-signing"}
"""Of the status' counters those that fall as well; the last is a name and no quantity."""


def _of_counters(counters: Mapping[str, int]) -> Iterator[Metric]:
    late = GaugeMetricFamily(
        "meshwatch_engine_lateness_seconds", "How late the engine's timers were lately.", labels=["statistic"]
    )
    for name, statistic in _LATENESS.items():
        if name in counters:
            late.add_metric([statistic], counters[name] / _NS)
    yield late
    if "loop-busy-percent" in counters:
        busy = counters["loop-busy-percent"] / 100
        yield _gauge("meshwatch_engine_busy_ratio", "The share of a CPU that the engine uses.", busy)
    for name, (metric, text) in _LEVELS.items():
        if name in counters:
            yield _gauge(metric, text, counters[name])
    events = CounterMetricFamily("meshwatch_events", "Whatever the engine counts, by name.", labels=["name"])
    for name, value in sorted(counters.items()):
        if name not in _NO_COUNTS:
            events.add_metric([name], value)
    yield events


def _of_pairs(status: Status) -> Iterator[Metric]:
    verdict = GaugeMetricFamily(
        "meshwatch_verdict",
        "The verdict on the way to a location; 1.",
        labels=["location", "fault", "layer", "culprit", "direction"],
    )
    severity = GaugeMetricFamily(
        "meshwatch_verdict_severity", "That verdict's: 0 ok, 1 warning, 2 critical.", labels=["location"]
    )
    rank = GaugeMetricFamily("meshwatch_active_rank", "The path in use; 0 is the primary path.", labels=["location"])
    good = GaugeMetricFamily("meshwatch_path_good", "Whether a path answers.", labels=["location", "rank"])
    rtt = GaugeMetricFamily("meshwatch_path_rtt_seconds", "Median round trip.", labels=["location", "rank"])
    for pair in status.pairs:
        said, remote = pair.verdict, pair.remote_location
        verdict.add_metric([remote, said.fault, said.layer.name.lower(), said.culprit, said.direction], 1)
        severity.add_metric([remote], _SEVERITIES.index(said.severity))
        rank.add_metric([remote], pair.active_rank)
        for path in pair.paths:
            if path.state != UNWATCHED:
                good.add_metric([remote, str(path.rank)], float(path.state == "good"))
            if round_trip_ns := path_rtt_ns(status, path):
                rtt.add_metric([remote, str(path.rank)], round_trip_ns / _NS)
    yield from (verdict, severity, rank, good, rtt)


def _of_probes(status: Status) -> Iterator[Metric]:
    """By layer, and for whole paths by path; never by peer: a mesh has a thousand."""
    labels = ["layer", "flow", "location", "rank"]
    names = {path.number: (pair.remote_location, str(path.rank)) for pair in status.pairs for path in pair.paths}
    sent: Counter[tuple[str, ...]] = Counter()
    lost: Counter[tuple[str, ...]] = Counter()
    for each in status.sessions:
        key = (each.layer.name.lower(), each.flow.value, *names.get(each.path, ("", "")))
        sent[key] += each.sent
        lost[key] += each.lost
    for name, text, counts in (
        ("meshwatch_probes_sent", "Probes of the sessions there are.", sent),
        ("meshwatch_probes_lost", "Those of them that were not answered in time.", lost),
    ):
        family = CounterMetricFamily(name, text, labels=labels)
        for values, count in sorted(counts.items()):
            family.add_metric(list(values), count)
        yield family
    canaries = GaugeMetricFamily("meshwatch_canary_up", "Whether a canary answers.", labels=["canary", "node"])
    for canary in status.canaries:
        canaries.add_metric([canary.name, canary.node], float(canary.state in {"up", "suspect"}))
    yield canaries


def _of_devices(status: Status) -> Iterator[Metric]:
    faults = GaugeMetricFamily(
        "meshwatch_fault", "Faults found on this node's devices.", labels=["fault", "severity", "device"]
    )
    counts = Counter((each.fault.value, each.severity.value, each.device) for each in status.findings)
    for labels, count in sorted(counts.items()):
        faults.add_metric(list(labels), count)
    yield faults
    age = GaugeMetricFamily(
        "meshwatch_wireguard_handshake_age_seconds", "Since a peer's last handshake.", labels=["device", "peer"]
    )
    for tunnel in status.tunnels:
        if tunnel.handshake_age_ns is not None:
            age.add_metric([tunnel.device, tunnel.peer], tunnel.handshake_age_ns / _NS)
    yield age


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
