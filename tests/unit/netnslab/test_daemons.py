import json

from netnslab.daemons import Event, is_ready

PATHS = [{"state": "good"}, {"state": "good"}, {"state": "unwatched"}]


def test_a_line_of_the_event_log_becomes_an_event():
    """Name, node and instant stand apart; the rest are the fact's own fields."""
    line = json.dumps({"at_ns": 7, "node": "b3", "event": "failover.applied", "fact": "FailoverApplied", "to_rank": 1})

    assert Event(
        name="failover.applied", node="b3", at_ns=7, fields={"fact": "FailoverApplied", "to_rank": 1}
    ) == Event.decode(line)


def test_a_daemon_with_all_its_standbys_is_ready():
    """Judged, nothing wrong, and those it does not watch are none of its business."""
    assert is_ready(_status())


def test_a_daemon_that_cannot_be_reached_is_not_ready():
    """No status at all."""
    assert not is_ready(None)


def test_a_daemon_that_has_not_judged_its_paths_is_not_ready():
    """It has only just started."""
    assert not is_ready(_status(is_ready=False))


def test_a_daemon_with_a_path_that_is_not_good_is_not_ready():
    """A failover might have nowhere to go."""
    assert not is_ready(_status(pairs=[{"paths": [{"state": "good"}, {"state": "unknown"}]}]))


def test_a_daemon_with_a_session_that_was_never_answered_is_not_ready():
    """A fault that comes before would never be told from a fault that was always there."""
    assert not is_ready(_status(sessions=[{"state": "up"}, {"state": "init"}]))


def test_a_daemon_with_a_verdict_is_not_ready():
    """Something is wrong already."""
    assert not is_ready(_status(severity="critical"))


def _status(**changes):
    sessions = [{"state": "up"}, {"state": "up"}]
    return {"is_ready": True, "severity": "ok", "sessions": sessions, "pairs": [{"paths": PATHS}], **changes}
