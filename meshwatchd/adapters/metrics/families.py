"""The engine's status as metrics, and three figures under names that existing alerts know.

Labels are bounded: locations, layers, states, codes, devices and peers of WireGuard. Units are base units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import meshwatchd
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.status import Status

_SEVERITIES = (Severity.OK, Severity.WARNING, Severity.CRITICAL)
_NS = 1_000_000_000


def render(status: Status | None, figures: OverlayFigures, *, now_ns: int) -> bytes:
    """All metrics as text.

    Args:
        status: the engine's latest; None before its first, when only meshwatch_up and what the kernel shows are told.
        figures: of the overlay device.
        now_ns: CLOCK_MONOTONIC, to tell how old the status is.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(status, figures, now_ns))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, status: Status | None, figures: OverlayFigures, now_ns: int) -> None:
        self._status, self._figures, self._now_ns = status, figures, now_ns

    def collect(self) -> Iterable[Metric]:
        """Everything, in the order in which it is read."""
        build = GaugeMetricFamily("meshwatch_build_info", "The running version.", labels=["version"])
        build.add_metric([meshwatchd.__version__], 1)
        yield build
        yield _gauge("meshwatch_up", "Whether the engine has reported.", float(self._status is not None))
        yield from _of_the_seed(self._status, self._figures)
        if self._status is not None:
            yield from _of_the_engine(self._status, self._now_ns)
            yield from _of_pairs(self._status)
            yield from _of_devices(self._status)


def _of_the_seed(status: Status | None, figures: OverlayFigures) -> Iterator[Metric]:
    """Names of a watchdog script that many run; the last counts peers, where the script looked at one address."""
    escaped = sum(each.fault is FaultCode.POD_ROUTE_ESCAPED for each in status.findings) if status is not None else 0
    yield _gauge("vxlan_fdb_entries_total", "FDB entries of the overlay device.", figures.fdb_entries)
    yield _gauge("vxlan_stale_neighbor_entries", "STALE neighbours of the overlay device.", figures.stale_neighbours)
    yield _gauge("flannel_route_via_wg0", "Peers whose pods are routed past the overlay into WireGuard.", escaped)


def _of_the_engine(status: Status, now_ns: int) -> Iterator[Metric]:
    severity = _SEVERITIES.index(status.severity)
    yield _gauge("meshwatch_ready", "Whether every primary path has been judged.", float(status.is_ready))
    yield _gauge("meshwatch_severity", "The worst verdict: 0 ok, 1 warning, 2 critical.", severity)
    age_s = max(0, now_ns - status.at_ns) / _NS
    yield _gauge("meshwatch_status_age_seconds", "How old the engine's last report is.", age_s)
    sessions = GaugeMetricFamily("meshwatch_sessions", "Probe sessions.", labels=["layer", "state"])
    counts = Counter((each.layer.name.lower(), each.state) for each in status.sessions)
    for (layer, state), count in sorted(counts.items()):
        sessions.add_metric([layer, state], count)
    yield sessions
    counters = CounterMetricFamily("meshwatch_events", "Whatever the engine counts, by name.", labels=["name"])
    for name, value in sorted(status.counters.items()):
        counters.add_metric([name], value)
    yield counters


def _of_pairs(status: Status) -> Iterator[Metric]:
    verdict = GaugeMetricFamily(
        "meshwatch_verdict", "The verdict on the way to a location; 1.", labels=["location", "fault", "culprit"]
    )
    rank = GaugeMetricFamily("meshwatch_active_rank", "The path in use; 0 is the mesh's own.", labels=["location"])
    good = GaugeMetricFamily("meshwatch_path_good", "Whether a path answers.", labels=["location", "rank"])
    for pair in status.pairs:
        verdict.add_metric([pair.remote_location, pair.verdict.fault, pair.verdict.culprit], 1)
        rank.add_metric([pair.remote_location], pair.active_rank)
        for path in pair.paths:
            good.add_metric([pair.remote_location, str(path.rank)], float(path.state == "good"))
    yield from (verdict, rank, good)


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
