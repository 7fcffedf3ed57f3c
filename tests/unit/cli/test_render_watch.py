"""What is watched, what that costs, and what is not known."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.render_watch import describe_watch, lost_words
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.status import RateStatus
from tests.support.example_status import HEALTHY

RATE = RateStatus(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH, sessions=4, interval_ns=50_000_000, stretch=1.0)


def test_one_line_says_what_is_watched_and_what_that_costs():
    """None where nothing is watched."""
    near = msgspec.structs.replace(RATE, path=0xFFFF)
    watching = msgspec.structs.replace(HEALTHY, rates=(RATE, near), counters={"loop-busy-percent": 3})
    (line,) = describe_watch(msgspec.structs.replace(watching, resident_bytes=51 * 2**20))
    assert "watches 2 nodes with 8 sessions, 160 probes a second, 3 % of a core, 51 MiB, some 183 kbit/s" in line
    assert "some" not in next(describe_watch(msgspec.structs.replace(watching, rates=(near,))))
    assert [] == list(describe_watch(HEALTHY))


def test_what_was_lost_between_the_processes_is_told():
    """The agent behind, the agent gone."""
    behind = msgspec.structs.replace(HEALTHY, counters={"link-facts-dropped": 7, "agent-exits": 1})
    told = list(lost_words(behind))
    assert 2 == len(told)
    assert told[0].startswith("7 events were lost")
    assert [] == list(lost_words(HEALTHY))
