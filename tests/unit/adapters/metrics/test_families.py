"""The figures, and that Prometheus' own parser reads them."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from meshwatchd.adapters.metrics.families import render
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.status import FindingStatus
from tests.support.example_status import MOVED, NOW_NS, TUNNELLED

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


def _samples(status, figures=OverlayFigures()):  # noqa: B008 - frozen
    text = render(status, figures, now_ns=NOW_NS).decode()
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
    assert 1 == found["meshwatch_verdict", pair.verdict.culprit, pair.verdict.fault, pair.remote_location]
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
