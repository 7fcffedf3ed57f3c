import dataclasses

import pytest

from netnslab.demo_scenes import Aftermath, judge
from netnslab.observation import Report
from netnslab.traffic_report import Outage, StreamReport

MS = 1_000_000

GOOD_END = Aftermath(diverted=("a1", "b2"), is_returned=True, is_static=True, leftovers={})


def test_a_good_run_keeps_every_promise():
    """Back in 120 ms, connection alive, clean return, fail-static stop, clean sweep."""
    assert all(check.is_kept for check in judge(_report(), GOOD_END))


@pytest.mark.parametrize(
    ("broken", "report", "aftermath"),
    [
        ("new flows work again within 1 s", {"outage_ns": 1_200 * MS}, {}),
        ("new flows work again within 1 s", {"outage_ns": None}, {}),
        ("the long-lived connections survive", {"survived": False}, {}),
        ("the way back to the leader loses no flow", {"lost_afterwards": 1}, {}),
        ("the way back to the leader loses no flow", {}, {"is_returned": False}),
        ("the way back to the leader loses no flow", {}, {"diverted": ()}),
        ("stopping the daemons changes no route", {}, {"is_static": False}),
        ("stopping the daemons changes no route", {}, {"complaints": ("b3: killed after 15 s",)}),
        ("sweep leaves nothing marked", {}, {"leftovers": {"a1": ("rule priority 5411",)}}),
    ],
)
def test_each_shortcoming_breaks_its_own_promise_and_no_other(broken, report, aftermath):
    """The spectator is told what exactly went wrong."""
    checks = judge(_report(**report), dataclasses.replace(GOOD_END, **aftermath))

    assert [broken] == [check.promise for check in checks if not check.is_kept]


def _report(*, outage_ns=120 * MS, survived=True, lost_afterwards=0):
    outage = Outage(
        injected_ns=0,
        duration_ns=outage_ns,
        first_lost_ns=1,
        last_lost_ns=2,
        restored_ns=outage_ns,
        lost=30,
        survived=1,
    )
    stream = StreamReport(survived=survived, sent=9, answered=9, longest_stall_ns=20 * MS, stalled_at_ns=1, reason="")
    return Report(
        began_ns=0,
        injected_ns=0,
        healed_ns=5_000 * MS,
        ended_ns=9_000 * MS,
        both=outage,
        udp=outage,
        tcp=outage,
        lost_afterwards=lost_afterwards,
        lost_share_during=0.05,
        longest_gap_ns=100 * MS,
        strips={},
        streams={"a3 -> b3": stream},
        sources={},
        pings=(),
    )
