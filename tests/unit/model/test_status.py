"""What a status says of itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.faults import Severity
from meshwatchd.model.status import path_rtt_ns
from tests.support.example_status import HEALTHY, MOVED, SESSIONS

IDLE = msgspec.structs.replace(HEALTHY, pairs=(), severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("status", "is_watching", "is_calm"), [(HEALTHY, True, True), (MOVED, True, False), (IDLE, False, True)]
)
def test_a_node_without_pairs_watches_nothing(status, is_watching, is_calm):
    """Which is nothing to be looked at closely, and nothing to be called OK."""
    assert (is_watching, is_calm) == (status.is_watching, status.is_calm)


def test_a_path_has_the_median_round_trip_of_what_answers_over_it():
    """Segments, other paths, and sessions that are down say nothing of it."""

    def shown(*rtts_ms, state="up"):
        sessions = tuple(
            msgspec.structs.replace(SESSIONS[5], path=1, rtt_ns=rtt * 1_000_000, state=state) for rtt in rtts_ms
        )
        return path_rtt_ns(msgspec.structs.replace(HEALTHY, sessions=sessions), HEALTHY.pairs[0].paths[1])

    assert (0, 0) == (shown(), shown(5, state="down"))
    assert [3_000_000, 4_000_000] == [shown(9, 1, 3), shown(9, 1, 5, 3)]
