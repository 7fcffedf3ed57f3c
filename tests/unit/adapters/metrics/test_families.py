"""The figures, and that Prometheus' own parser reads them."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from meshwatchd.adapters.metrics.families import render
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.status import FindingStatus
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_status import HEALTHY, MOVED, NOW_NS, TUNNELLED

ESCAPED = FindingStatus(
    fault=FaultCode.POD_ROUTE_ESCAPED,
    layer=CATALOGUE[FaultCode.POD_ROUTE_ESCAPED].layer,
    severity=CATALOGUE[FaultCode.POD_ROUTE_ESCAPED].severity,
    device="flannel.1",
    subject="10.42.1.0/24",
    peer="n1",
    culprit="n0",
    since_ns=1,
    because=(),
    repair="none",
    commands=(),
)


def _samples(status, figures=OverlayFigures(), incidents=None):  # noqa: B008 - frozen
    text = render(status, figures, incidents or IncidentTracker(), now_ns=NOW_NS).decode()
    families = text_string_to_metric_families(text)
    samples = [each for family in families for each in family.samples]
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}


def test_existing_alerts_find_the_names_they_know():
    """Without labels, as the script that they were written for has them."""
    found = _samples(
        msgspec.structs.replace(MOVED, findings=(ESCAPED,)), OverlayFigures(fdb_entries=5, stale_neighbours=2)
    )

    assert (5, 2, 1) == tuple(
        found[name,] for name in ("vxlan_fdb_entries_total", "vxlan_stale_neighbor_entries", "flannel_route_via_wg0")
    )
    assert 1 == found["meshwatch_fault", "flannel.1", "pod-route-escaped", "critical"]


def test_the_engines_picture_is_there():
    """Verdict, path in use, sessions by layer, and how old all of it is."""
    found = _samples(MOVED)
    pair = MOVED.pairs[0]

    assert 1 == found["meshwatch_up",]
    assert 1 == found["meshwatch_verdict", "b1", "both", "overlay-new-flows", "overlay", pair.remote_location]
    assert 1 == found["meshwatch_verdict_severity", pair.remote_location]
    assert pair.active_rank == found["meshwatch_active_rank", pair.remote_location]
    assert round(found["meshwatch_status_age_seconds",], 1) == (NOW_NS - MOVED.at_ns) / 1e9
    assert any(name[0] == "meshwatch_sessions" for name in found)


def test_tunnels_have_the_age_of_their_handshake():
    """In seconds; those without one have none."""
    found = _samples(TUNNELLED)
    expected = {(each.device, each.peer): each.handshake_age_ns for each in TUNNELLED.tunnels if each.handshake_age_ns}
    name = "meshwatch_wireguard_handshake_age_seconds"

    assert expected
    assert {(name, *key): age / 1e9 for key, age in expected.items()} == {
        key: value for key, value in found.items() if key[0] == name
    }


def test_before_the_engine_has_reported_only_the_kernel_speaks():
    """An alert on meshwatch_up sees the difference."""
    found = _samples(None, OverlayFigures(fdb_entries=3))

    assert (0, 3) == (found["meshwatch_up",], found["vxlan_fdb_entries_total",])
    assert not any(name[0] == "meshwatch_severity" for name in found)


def test_outages_and_moves_are_counted():
    """What a report to those who pay is made of."""
    incidents = IncidentTracker()
    for line in HISTORY_LINES:
        incidents.take(line)
    found = _samples(HEALTHY, incidents=incidents)

    assert 0.19 == found["meshwatch_outage_seconds_total", "onprem"]
    moved = (found["meshwatch_moves_total", "onprem", to] for to in ("standby", "primary"))
    assert (1, 1, 0) == (*moved, found["meshwatch_incidents_open",])


def test_paths_have_round_trips_and_losses():
    """By layer, flow and path; the peers of one path are one figure."""
    found = _samples(MOVED)
    assert 0.00184 == found["meshwatch_path_rtt_seconds", "onprem", "1"]
    assert ("meshwatch_path_rtt_seconds", "onprem", "0") in found
    assert 48 == found["meshwatch_probes_lost_total", "fresh", "relay", "onprem", "0"]
    assert 1000 == found["meshwatch_probes_sent_total", "pinned", "relay", "onprem", "0"]
    assert 52 == found["meshwatch_probes_lost_total", "fresh", "overlay", "", ""]


def test_what_falls_is_no_counter():
    """Levels among the engine's figures are gauges in base units, and are no events."""
    counters = {"loop-lateness-p99-ns": 4_000_000, "loop-busy-percent": 12, "probes-open": 3, "key-id-signing": 99}
    found = _samples(msgspec.structs.replace(HEALTHY, counters={**counters, "loop-turns": 5}))

    assert 0.004 == found["meshwatch_engine_lateness_seconds", "p99"]
    assert (0.12, 3) == (found["meshwatch_engine_busy_ratio",], found["meshwatch_probes_open",])
    assert {"loop-turns"} == {key[1] for key in found if key[0] == "meshwatch_events_total"}
