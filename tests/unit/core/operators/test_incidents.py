"""Events of one trouble share a number, and the outage of it is what probes measured."""

from __future__ import annotations

import pytest

from meshwatchd.core.operators.incidents import IncidentTracker, Outage
from meshwatchd.model.settings import MS, SECOND


def event(name: str, at_ms: int, **fields: object) -> dict[str, object]:
    """An event of the pair to onprem."""
    return {"event": name, "at_ns": at_ms * MS, "boot": "b", "location": "onprem", "pair": 0, **fields}


def verdict(severity: str, at_ms: int, fault: str = "leader-dead", **fields: object) -> dict[str, object]:
    """A verdict on that pair."""
    return event("verdict.changed", at_ms, severity=severity, fault=fault, **fields)


def raised(at_ms: int, subject: str, **fields: object) -> dict[str, object]:
    """A finding about one entry of a device."""
    told = {"severity": "warning", "fault": "fdb-entry-missing", "device": "flannel.1", "subject": subject}
    return {"event": "fault.raised", "at_ns": at_ms * MS, "boot": "b", **told, **fields}


def numbers(*events: dict[str, object]) -> list[int]:
    """What a new tracker gives them."""
    tracker = IncidentTracker()
    return [tracker.take(each) for each in events]


def moved(at_ms: int, from_rank: int, to_rank: int) -> dict[str, object]:
    """A move of this node's traffic."""
    name = "failover.applied" if to_rank else "failback.applied"
    return event(name, at_ms, from_rank=from_rank, to_rank=to_rank)


def down(at_ms: int, silent_ms: int, path: int = 0, session: int = 1) -> dict[str, object]:
    """A session that has not answered for so long."""
    return event("session.changed", at_ms, session=session, path=path, state="down", silent_ns=silent_ms * MS)


def test_a_trouble_is_one_incident_until_all_is_well_and_traffic_is_back():
    """The way back is a part of the story, what happens after it is not."""
    assert [0, 1, 1, 1, 1, 1, 0] == numbers(
        verdict("ok", 0, "none"),
        verdict("critical", 10_000),
        moved(10_100, 0, 1),
        verdict("warning", 10_200),
        verdict("ok", 60_000, "none"),
        moved(400_000, 1, 0),
        event("failover.verified", 400_200),
    )


def test_lost_traffic_is_another_incident_than_the_warning_before_it():
    """A standby that is down since Monday is not what happened at three in the night."""
    assert [1, 2, 2] == numbers(
        verdict("warning", 0, "standby-down"), verdict("critical", 9_000), verdict("warning", 9_500)
    )


@pytest.mark.parametrize(("pause_ms", "number"), [(59_000, 1), (61_000, 2)])
def test_what_comes_back_soon_is_the_same_incident(pause_ms, number):
    """A flapping path fills no list."""
    assert [1, 1, number] == numbers(
        verdict("critical", 0), verdict("ok", 1000, "none"), verdict("critical", 1000 + pause_ms)
    )


def test_each_broken_object_of_the_kernel_is_an_incident():
    """It ends when the fault is cleared, whatever becomes of others."""
    cleared = {**raised(900, "a"), "event": "fault.cleared"}
    repaired = {**raised(800, "b"), "event": "repair.verified"}
    assert [1, 2, 2, 1, 0] == numbers(raised(0, "a"), raised(1, "b"), repaired, cleared, cleared)


def test_numbers_go_on_after_a_restart_and_a_reboot():
    """From the numbers that the kept events have; a trouble that was open at a reboot is not continued."""
    tracker = IncidentTracker()
    for line in (verdict("critical", 0, incident=41), verdict("critical", 10, fault="undetermined", incident=41)):
        assert 41 == tracker.take(line)

    assert 41 == tracker.take(verdict("ok", 20, "none"))
    assert 42 == tracker.take({**verdict("critical", 30), "boot": "another"})


def test_open_scopes_are_bounded():
    """Ten thousand broken entries are ten thousand incidents, and take no memory for ever."""
    tracker = IncidentTracker()
    for index in range(1000):
        tracker.take(raised(index, str(index)))
    assert 256 == len(tracker._scopes)


def test_an_outage_lasts_from_the_first_lost_probe_to_the_move():
    """Not from the verdict, which comes later; a first suspicion counts, though the session fell later."""
    outage = Outage()
    suspect = {**down(920, 40), "state": "suspect"}
    for each in (suspect, down(1000, 20), down(1010, 90, session=2), verdict("critical", 1050), moved(1100, 0, 1)):
        outage.take(each)

    assert (220 * MS, None) == (outage.total_ns, outage.since_ns)


@pytest.mark.parametrize("fallen", [down(1000, 120, path=3), down(1000, 60_000), down(1000, 120, path=0xFFFF)])
def test_silence_of_another_path_and_of_long_ago_is_no_outage(fallen):
    """The verdict's own instant is left then."""
    outage = Outage()
    for each in (fallen, verdict("critical", 1050)):
        outage.take(each)
    assert 1050 * MS == outage.since_ns


def test_a_move_that_is_rolled_back_ends_no_outage():
    """Traffic was lost all the time."""
    outage = Outage()
    for each in (verdict("critical", 0), moved(100, 0, 1), event("failover.rolled_back", 400), moved(401, 1, 0)):
        outage.take(each)
    outage.take(verdict("critical", 402, fault="undetermined"))

    assert outage.lost_ns(1 * SECOND) >= 999 * MS


def test_without_a_move_an_outage_ends_with_the_fault():
    """Observe mode measures what it would have spared."""
    outage = Outage()
    for each in (verdict("critical", 1000), verdict("ok", 9000, "none")):
        outage.take(each)
    assert (8 * SECOND, 8 * SECOND) == (outage.total_ns, outage.lost_ns(99 * SECOND))


def test_outages_are_counted_for_each_location():
    """What the metric shows."""
    tracker = IncidentTracker()
    edge = {**verdict("critical", 0), "location": "edge"}
    for each in (verdict("critical", 1000), verdict("ok", 3000, "none"), edge):
        tracker.take(each)
    assert {"onprem": 2 * SECOND, "edge": 5 * SECOND} == {
        name: outage.lost_ns(5 * SECOND) for name, outage in tracker.outages.items()
    }


def test_a_node_that_follows_a_move_before_it_has_a_verdict_has_lost_traffic_all_the_same():
    """By its own lost probes; a move of a healthy path, as an operator's, has lost none."""
    following, ordered = Outage(), Outage()
    for each in ({**down(920, 40), "state": "suspect"}, moved(1000, 0, 1), verdict("warning", 1100)):
        following.take(each)
    ordered.take(moved(1000, 0, 1))

    assert (120 * MS, None) == (following.total_ns, following.since_ns)
    assert (0, None) == (ordered.total_ns, ordered.since_ns)


def test_the_way_back_belongs_to_an_incident_whose_move_came_before_its_verdict():
    """The move has no number then, and is found as what led to the incident."""
    back = moved(90_000, 1, 0)
    assert [0, 1, 1, 1] == numbers(moved(0, 0, 1), verdict("warning", 100), verdict("ok", 60_000, "none"), back)


def started(at_ms: int) -> dict[str, object]:
    """Another engine begins."""
    return {"event": "daemon.started", "at_ns": at_ms * MS, "boot": "b"}


def test_what_ends_while_no_engine_runs_is_over_when_the_next_one_starts():
    """It begins with no fault and tells no end; the next trouble is the next day's, with its own second of outage."""
    tracker = IncidentTracker()
    for each in (verdict("critical", 0), raised(1, "a"), started(5_000)):
        tracker.take(each)
    assert 0 == tracker.open

    assert [3, 3] == [tracker.take(each) for each in (verdict("critical", 86_400_000), verdict("ok", 86_401_000))]
    assert 6 * SECOND == tracker.outages["onprem"].lost_ns(90_000 * SECOND)
    assert 4 == tracker.take(raised(86_402_000, "a"))


def test_a_fault_that_persists_over_a_restart_is_one_incident_with_one_outage():
    """The new engine names it again after some seconds, in which nothing has passed either."""
    tracker = IncidentTracker()
    told = (
        verdict("critical", 0),
        raised(1, "a"),
        started(5_000),
        {**down(7_000, 1000), "state": "suspect"},
        verdict("critical", 9_000),
        raised(9_100, "a"),
        verdict("ok", 20_000, "none"),
    )
    assert [1, 2, 0, 2, 1, 2, 1] == [tracker.take(each) for each in told]
    assert 1 == tracker.open, "the object's"
    assert 20 * SECOND == tracker.outages["onprem"].lost_ns(99 * SECOND)


@pytest.mark.parametrize(
    "between",
    [event("session.changed", 5_100, session=9, path=0, state="up"), moved(5_100, 0, 1), verdict("ok", 5_100)],
    ids=["an answer", "a move", "a verdict"],
)
def test_an_outage_that_ended_while_no_engine_ran_is_not_gone_on_with(between):
    """The path in use has answered since, or another one carries, and what fails half a minute later fails anew."""
    tracker = IncidentTracker()
    for each in (verdict("critical", 0), started(5_000), between, verdict("critical", 40_000)):
        tracker.take(each)
    assert 5 * SECOND == tracker.outages["onprem"].lost_ns(40 * SECOND)


def test_a_new_engine_only_warns_of_what_has_never_answered_it_and_traffic_is_lost_until_something_does():
    """Ten seconds after its start it says so: by its probes nothing has passed since, and nothing passes after that."""
    tracker = IncidentTracker()
    unheard = verdict("warning", 15_000, "undetermined")
    for each in (verdict("critical", 0), started(5_000), unheard, verdict("warning", 16_000)):
        tracker.take(each)
    assert 20 * SECOND == tracker.outages["onprem"].lost_ns(20 * SECOND)

    tracker.take(event("session.changed", 21_000, session=3, path=0, state="up"))
    for each in (verdict("warning", 22_000), verdict("ok", 30_000)):
        tracker.take(each)
    assert 21 * SECOND == tracker.outages["onprem"].lost_ns(99 * SECOND)


@pytest.mark.parametrize("again_ms", [6_000, 64_000, 66_000])
def test_an_engine_that_starts_twice_before_it_knows_cuts_off_once(again_ms):
    """What is found again within a minute of the first start is the same still."""
    tracker = IncidentTracker()
    told = (verdict("critical", 0), started(5_000), started(5_500), verdict("critical", again_ms))
    is_same = again_ms < 65_000
    assert [1, 0, 0, 1 if is_same else 2] == [tracker.take(each) for each in told]
    assert (again_ms if is_same else 5_000) * MS == tracker.outages["onprem"].lost_ns(again_ms * MS)


def test_an_answer_of_another_path_ends_no_outage():
    """Standbys and neighbours come up with each engine; the path in use lies as it lay."""
    tracker = IncidentTracker()
    other = event("session.changed", 5_100, session=9, path=1, state="up")
    near = event("session.changed", 5_100, session=10, path=0xFFFF, state="up")
    for each in (verdict("critical", 0), started(5_000), other, near, verdict("critical", 8_000)):
        tracker.take(each)
    assert 9 * SECOND == tracker.outages["onprem"].lost_ns(9 * SECOND)


def test_what_an_earlier_engine_missed_is_no_loss_of_the_next_one():
    """Its sessions had the same numbers and may have been others."""
    outage = Outage()
    for each in (down(0, 100), started(1_000), verdict("critical", 5_000)):
        outage.take(each)
    assert 5 * SECOND == outage.since_ns


def test_sessions_of_a_start_belong_to_what_it_has_cut_off_for_a_minute():
    """They say whether it goes on; after that they say nothing of it."""
    up = [event("session.changed", at, session=1, path=0, state="up") for at in (6_000, 66_000)]
    assert [1, 0, 1, 0] == numbers(verdict("critical", 0), started(5_000), *up)


def test_an_incident_is_of_its_location_whatever_number_the_pair_has():
    """A location is added before it in the alphabet: pairs are counted anew, and what was wrong with it is over."""
    tracker = IncidentTracker()
    new = {"location": "edge", "pair": 0}
    told = (
        verdict("critical", 0),
        verdict("ok", 60_000, "none", pair=1),
        verdict("warning", 61_000, "standby-down", **new),
        verdict("ok", 62_000, "none", **new),
    )
    assert [1, 1, 2, 2] == [tracker.take(each) for each in told]
    assert 0 == tracker.open


def test_a_pair_that_an_event_does_not_name_is_the_location_that_had_its_number_last():
    """An agent that has just begun reads the history before it knows the mesh."""
    unnamed = {key: value for key, value in verdict("ok", 9_000, "none").items() if key != "location"}
    tracker = IncidentTracker()

    assert [1, 1] == [tracker.take(each) for each in (verdict("critical", 0), unnamed)]
    assert (0, 9 * SECOND) == (tracker.open, tracker.outages["onprem"].lost_ns(99 * SECOND))
    assert [1, 1] == numbers({**unnamed, "severity": "critical"}, {**unnamed, "at_ns": 10 * SECOND})
