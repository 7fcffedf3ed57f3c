"""What happened at three in the night, read back from the events of that night."""

from __future__ import annotations

import msgspec

from meshwatchd.adapters.control.history import MAX_EVENTS, MAX_INCIDENTS, read_incidents
from tests.support.example_incidents import FALLEN, HEALED, NIGHT, numbered
from tests.support.example_status import BECAUSE, NOW_NS, event


def test_an_incident_has_fault_node_layer_evidence_deeds_and_outage():
    """From the last answer, 90 ms before a session fell, to the move 100 ms later."""
    (one,) = read_incidents(numbered(*NIGHT, *HEALED))

    assert (1, "b3", "onprem") == (one.number, one.observer, one.location)
    assert ("overlay-new-flows", "critical", "b1", "overlay") == (one.fault, one.severity, one.culprit, one.layer)
    assert BECAUSE == one.because
    assert 190_000_000 == one.outage_ns
    assert (True, 1_440_000_000) == (one.is_over, one.duration_ns)
    assert ["verdict", "verdict", "moved", "verdict", "verified", "verdict", "moved"] == [
        step.text.split()[0] for step in one.steps
    ]
    assert () == one.events


def test_an_incident_asked_for_alone_has_its_events():
    """With the session that fell before the verdict, which is where the timeline begins."""
    (one,) = read_incidents(numbered(*NIGHT), 1)
    assert FALLEN["at_ns"] in [line["at_ns"] for line in one.events]
    assert () == read_incidents(numbered(*NIGHT), 2)


def test_what_goes_on_has_no_end_and_what_a_reboot_cut_off_is_over():
    """Nobody saw that end."""
    going_on = numbered(*NIGHT)
    (one,) = read_incidents(going_on)
    assert (False, "") == (one.is_over, one.ended)

    (one,) = read_incidents([*going_on, {**HEALED[0], "boot": "next", "event": "session.changed"}])
    assert (True, "") == (one.is_over, one.ended)


def test_a_fault_of_the_kernel_is_told_with_its_repair():
    """It has no location, and lost no traffic by itself."""
    found = {"fault": "fdb-entry-missing", "device": "flannel.1", "subject": "0a:00", "layer": "overlay"}
    lines: list[dict[str, object]] = [
        {"event": "fault.raised", "severity": "warning", "culprit": "b3", "because": ["x"], "peer": "b1"},
        {"event": "repair.started", "commands": ["bridge fdb append"]},
        {"event": "repair.verified"},
        {"event": "fault.cleared", "lasted_ns": 5},
    ]
    (one,) = read_incidents(
        numbered(*({"at_ns": NOW_NS + at, "time": "", **found, **line} for at, line in enumerate(lines)))
    )
    assert ("fdb-entry-missing", "b3", None, True) == (one.fault, one.culprit, one.outage_ns, one.is_over)
    assert "repairs: bridge fdb append" in [step.text for step in one.steps]


def test_histories_are_bounded():
    """However long the night was."""
    lines = [{**NIGHT[3], "incident": 1 + number // 3} for number in range(3 * MAX_INCIDENTS + 30)]
    assert MAX_INCIDENTS == len(read_incidents(lines))
    endless = [{**FALLEN, "incident": 1}] * (2 * MAX_EVENTS)
    assert MAX_EVENTS + 1 == len(read_incidents([*endless, {**NIGHT[3], "incident": 1}], 1)[0].events)


def test_lines_that_make_no_sense_make_no_trouble():
    """The files are text that anybody may have edited."""
    odd = {"event": "verdict.changed", "incident": 3, "severity": 7, "at_ns": 1, "because": "x", "boot": 5}
    assert () == read_incidents([odd, {"incident": "x"}, {"incident": 4}])
    (one,) = read_incidents([{**odd, "severity": "critical", "fault": 12}])
    assert ("12", ()) == (one.fault, one.because)
    assert msgspec.json.encode(one)


def test_a_move_that_was_followed_before_the_verdict_is_a_part_of_the_incident():
    """And one of another pair is not."""
    suspect = {**FALLEN, "state": "suspect"}
    moved, warned = NIGHT[4], NIGHT[5]
    other = {**moved, "pair": 3, "relays": ["c1", "c2"]}
    (one,) = read_incidents(numbered(suspect, other, moved, warned))

    assert ["moved traffic to path b2-a1: ip rule add pref 5460"] == [
        step.text for step in one.steps if step.text.startswith("moved")
    ]
    assert 190_000_000 == one.outage_ns


def _started(ago_ms: int) -> dict[str, object]:
    return event("daemon.started", ago_ms, profile="kilo", sessions=9)


def test_what_the_next_engine_does_not_find_is_over_with_its_start():
    """Nobody saw that end; the outage is counted to the start, and not to the day on which somebody asks."""
    up = {**FALLEN, "state": "up", "at_ns": NOW_NS - 1_900_000_000}
    moved, left = numbered(*NIGHT[:6], _started(2_000)), numbered(*NIGHT[:4], _started(2_000), up)
    (one,) = read_incidents(moved)
    assert (True, "", 340_000_000) == (one.is_over, one.ended, one.duration_ns)
    assert 190_000_000 == one.outage_ns
    (one,) = read_incidents(left)
    assert (True, "", 340_000_000, 490_000_000) == (one.is_over, one.ended, one.duration_ns, one.outage_ns)


def test_a_fault_that_the_next_engine_finds_again_is_one_incident():
    """It goes on, with one outage; its end is seen then. Another boot's start says nothing of it."""
    again = {**NIGHT[3], "at_ns": NOW_NS - 1_500_000_000}
    lines = numbered(*NIGHT[:4], _started(2_000), again)
    (one,) = read_incidents(lines, 1)
    assert (False, "", 990_000_000) == (one.is_over, one.ended, one.outage_ns)
    assert ["daemon.started"] == [line["event"] for line in one.events if line["incident"] and "profile" in line]

    (one,) = read_incidents(numbered(*NIGHT[:4], _started(2_000), again, HEALED[0]))
    assert (True, 1_590_000_000) == (one.is_over, one.outage_ns)
    (one,) = read_incidents([*lines, {**_started(0), "boot": "next", "at_ns": 5}])
    assert (True, "", 840_000_000) == (one.is_over, one.ended, one.duration_ns)
