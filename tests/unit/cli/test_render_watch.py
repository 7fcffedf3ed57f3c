"""What is watched, what that costs, and what is not known."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.render_watch import describe_watch, lost_words
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.status import RateStatus, RestStatus
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


def test_what_is_sent_at_rest_is_told_with_the_detection_that_it_buys():
    """By all nodes of two locations, and among neighbours; the processor's share is that of both processes."""
    rest = RestStatus(
        wan_kbit=39.6,
        wan_limit_kbit=40,
        lan_kbit=7.2,
        lan_limit_kbit=0,
        scouts_ns=80_000_000,
        turn_ns=10_000_000_000,
        standby_ns=20_000_000_000,
        full_size_ns=10_000_000_000,
        neighbour_ns=4_000_000_000,
    )
    status = msgspec.structs.replace(
        HEALTHY, rates=(RATE,), counters={"loop-busy-percent": 3}, cpu_percent=1.25, rest=rest
    )
    cost, wan, lan = describe_watch(status)

    assert ", 1.25 % of a core" in cost
    assert "up to 40 kbit/s each way (limit 40): scouts probe the path in use every 80 ms, relays a standby" in wan
    assert "up to 7 kbit/s each way with its neighbours: each is probed every 4 s" in lan


def test_what_was_lost_between_the_processes_is_told():
    """The agent behind, the agent gone."""
    behind = msgspec.structs.replace(HEALTHY, counters={"link-facts-dropped": 7, "agent-exits": 1})
    told = list(lost_words(behind))
    assert 2 == len(told)
    assert told[0].startswith("7 events were lost")
    assert [] == list(lost_words(HEALTHY))
