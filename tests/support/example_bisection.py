"""Bisections as a daemon on b3 would report them."""

from __future__ import annotations

from meshwatchd.bisect.evidence import tell_evidence
from meshwatchd.bisect.matrix import explain_row, find_row
from meshwatchd.bisect.observation import Entry, Finding, Observation
from meshwatchd.bisect.signs import read_flows, read_signs
from meshwatchd.model.bisection import BisectResult, Tables
from meshwatchd.model.ids import NodeName
from tests.support.bisection import HEALTHY, crafted, framed, injected, kernel, observed, there


def result(seen: Observation) -> BisectResult:
    """What is concluded from an observation."""
    signs = read_signs(seen)
    row, flows = find_row(signs), read_flows(signs)
    return BisectResult(
        node=NodeName("b3"),
        peer=NodeName(seen.peer),
        via=NodeName(seen.via),
        at_ns=1_000_000_000_000,
        duration_ns=1_234_567_890,
        place=row.place,
        candidates=(row.place, *row.also),
        direction=row.direction,
        flows=flows,
        because=(explain_row(row, seen), *tell_evidence(seen, flows, ())),
        series=seen.series,
        known_flows=seen.known_flows,
        tables=Tables(
            route="10.244.4.0 via 10.244.4.0 dev flannel.1",
            neighbour="10.244.4.0 is at 02:4e:01:00:00:04 (permanent)",
            forwarding=seen.forwarding.text or "02:4e:01:00:00:04 dst 10.2.0.11",
            underlay_route="10.2.0.11 dev eth0",
            underlay_neighbour="10.2.0.11 is at 02:4e:00:00:00:04",
        ),
        peer_counts=seen.peer_counts,
        is_two_sided=bool(seen.peer_counts),
    )


WELL = result(HEALTHY)
RESULT = result(
    observed(
        kernel(12, 0),
        injected(8),
        crafted(8, 8),
        framed(8, 8),
        known=(8, 0),
        forwarding=Finding(entry=Entry.MISSING, text="no entry for 02:4e:01:00:00:04"),
        overlay_dropped=20,
    )
)
_LOST = (kernel(12, 12), injected(8, 8), crafted(8), framed(8))
ONE_SIDED = result(observed(*_LOST, known=(5, 5)))
TWO_SIDED = result(observed(*_LOST, known=(5, 5), peer_counts=there(12, 12, 12, 12)))
"""The seed's fault: new flows of b1 die below its NIC."""
