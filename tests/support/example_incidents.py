"""The events of one night, as a daemon on b3 would have kept them."""

from __future__ import annotations

from meshwatchd.core.operators.incidents import IncidentTracker
from tests.support.example_status import BECAUSE, NOW_NS, event

FALLEN = event(
    "session.changed",
    2_400,
    session=7,
    peer="a3",
    layer="relay",
    path=0,
    flow="pinned",
    state="down",
    silent_ns=90_000_000,
)
NIGHT = (
    event("verdict.changed", 90_000, fault="none", severity="ok", culprit="", previous="undetermined"),
    FALLEN,
    event("verdict.changed", 2_340, fault="undetermined", severity="critical", culprit="", previous="none"),
    event(
        "verdict.changed",
        2_310,
        fault="overlay-new-flows",
        severity="critical",
        culprit="b1",
        previous="undetermined",
        layer="overlay",
        because=list(BECAUSE),
    ),
    event("failover.applied", 2_300, from_rank=0, to_rank=1, relays=["b2", "a1"], operations=["ip rule add pref 5460"]),
    event("verdict.changed", 2_200, fault="overlay-new-flows", severity="warning", culprit="b1", previous="x"),
    event("failover.verified", 2_100, rank=1, received=8, sent=8),
)
HEALED = (
    event("verdict.changed", 900, fault="none", severity="ok", culprit="", previous="overlay-new-flows"),
    event("failback.applied", 100, from_rank=1, to_rank=0, relays=["b1", "a1"], operations=[]),
)


def numbered(*lines: dict[str, object], boot: str = "b") -> list[dict[str, object]]:
    """As the daemon keeps them."""
    tracker, kept = IncidentTracker(), []
    for line in lines:
        told = {**line, "boot": boot}
        number = tracker.take(told)
        kept.append({**told, "incident": number} if number else told)
    return kept


FOUND = {"fault": "fdb-entry-missing", "device": "flannel.1", "subject": "0a:58:0a:f4:04:00", "layer": "overlay"}
REPAIRED: tuple[dict[str, object], ...] = (
    {"event": "fault.raised", "severity": "warning", "culprit": "b3", "because": ["no FDB entry for b1"], "peer": "b1"},
    {"event": "repair.started", "commands": ["bridge fdb append 0a:58:0a:f4:04:00 dev flannel.1 dst 10.2.0.11"]},
    {"event": "repair.verified"},
    {"event": "fault.cleared", "lasted_ns": 900_000_000},
)
HISTORY_LINES = numbered(
    *NIGHT,
    *HEALED,
    *(
        {"at_ns": NOW_NS + 300_000_000 * at, "time": "2026-03-02T14:00:01.500Z", "node": "b3", **FOUND, **line}
        for at, line in enumerate(REPAIRED)
    ),
)
"""Two incidents: a failover, and a repaired entry of the overlay device."""
