"""The figures of leader changes, from made-up ones."""

from __future__ import annotations

import pytest

from netnslab import leader_changes
from netnslab.bench_leaders import SECOND, Change, compare, main, summarise
from netnslab.daemons import Event


def _event(name, node="a1", at_ns=0, **fields):
    return Event(name=name, node=node, at_ns=at_ns, fields=fields)


def test_the_last_node_counts():
    """A change is followed when all have; one beyond three seconds is not in time."""
    changes = [
        Change(kind="annotation", followed_ns={"a1": SECOND, "b1": 2 * SECOND}),
        Change(kind="annotation", followed_ns={"a1": 4 * SECOND, "b1": SECOND}, accused=("a1: leader-dead at b1",)),
        Change(kind="annotation", followed_ns={"a1": SECOND // 2, "b1": SECOND}),
    ]
    figures = summarise(changes)

    assert (3, 2.0, 4.0, 2) == tuple(figures[key] for key in ("changes", "median_s", "max_s", "within_goal"))
    assert ["a1: leader-dead at b1"] == figures["accused"]


def test_gaps_are_compared_change_by_change():
    """The second change is the longer one on both sides; daemons add 2 ms to the first and 4 to the second."""
    bare, watched = (
        [Change(kind="annotation", gap_ns=gap_ms * 1_000_000) for gap_ms in gaps] for gaps in ((9, 30), (11, 34))
    )

    assert {"gap_ms": [2, 4], "mean_ms": 3.0, "error_ms": 1.0} == compare(bare, watched)


def test_what_only_the_real_agent_can_do_is_not_played(capsys):
    """A Node is deleted in the API, which played agents have none of."""
    with pytest.raises(SystemExit):
        main(["--only", "removal"])

    assert "removal: only with --agent" in capsys.readouterr().err


def test_what_is_not_to_be_followed_has_no_time():
    """An agent that starts again is no change; what was taken over nevertheless is a mistake."""
    figures = summarise([Change(kind="restart"), Change(kind="restart", mistaken=2, moved=("b1: failover.applied",))])

    assert (None, None, None, 2) == tuple(figures[key] for key in ("median_s", "max_s", "within_goal", "mistaken"))
    assert ["b1: failover.applied"] == figures["moved"]


def test_who_has_followed_is_in_the_logs():
    """By node, from the first command on; nobody has as long as one is missing."""
    text = ["site-b1 is led by b2 instead of b1"]
    events = [_event("topology.changed", "a1", 1_500, what=text), _event("topology.changed", "b2", 2_000, what=text)]

    assert {"a1": 500, "b2": 1_000} == leader_changes.follow(lambda _since: events, 1_000, "b2", ("a1", "b2"))


def test_only_what_breaks_traffic_is_an_accusation():
    """A standby that is down reduces redundancy; whoever moves has taken a change for a fault."""
    events = [
        _event("verdict.changed", fault="leader-dead", culprit="b1", severity="critical"),
        _event("verdict.changed", fault="standby-down", culprit="b2", severity="warning"),
        _event("failover.proposed"),
    ]

    assert ["a1: leader-dead at b1"] == leader_changes.accusations(events)
    assert ["a1: failover.proposed"] == leader_changes.moves(events)
