"""What a person on call is told, beyond the verdict itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.explain import best_standby, explain
from meshwatchd.model.faults import FaultCode
from tests.support.example_status import BROKEN, HEALTHY, INCIDENT, MOVED, STUCK, event, status, verdict


def _only(shown, events=()):
    (explanation,) = explain(shown, events)
    return explanation


def test_the_catalogue_gives_title_and_remedy():
    """The same words everywhere."""
    told = _only(MOVED)
    assert ("overlay-new-flows", "overlay", "b1") == (told.fault, told.layer, told.culprit)
    assert told.remedy.startswith("drain the leader")


def test_the_verdict_began_with_the_first_event_of_its_run():
    """A verdict that is stated anew with better evidence has not begun anew."""
    again = event("verdict.changed", 1_000, fault="overlay-new-flows", severity="warning", culprit="b1", previous="x")
    assert INCIDENT[3]["at_ns"] == _only(MOVED, (*INCIDENT, again)).since_ns


def test_a_verdict_older_than_the_events_has_no_beginning():
    """Nothing is invented."""
    assert _only(MOVED).since_ns is None


def test_the_deeds_are_those_of_this_incident():
    """From the first fault after all was well; single misses are no news."""
    assert [
        "verdict undetermined (was none)",
        "verdict overlay-new-flows at b1 (was undetermined)",
        "moved traffic to path b2-a1: ip rule add pref 5460 from all lookup 7701 protocol 117",
        "verified path b2-a1: 8 of 8 probes arrived",
    ] == [deed.text for deed in _only(MOVED, INCIDENT).done]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            event("failover.proposed", 5, to_rank=1, reason="b1 is down"),
            "asked the other relay to move to path b2-a1: b1 is down",
        ),
        (
            event("proposal.answered", 5, to_rank=2, is_granted=True, peer="a2"),
            "granted the proposal of a2 to move to path b1-a2",
        ),
        (
            event("proposal.answered", 5, to_rank=2, is_granted=False, peer="a2", reason="b1 is worse"),
            "refused (b1 is worse) the proposal of a2 to move to path b1-a2",
        ),
        (
            event("failover.doubted", 5, rank=1, received=8, sent=17, left_received=0, left_sent=24),
            "kept path b2-a1, over which 8 of 17 probes arrived: 0 of 24 did over the path that was left",
        ),
        (
            event("failover.rolled_back", 5, rank=1, reason="no probe arrived"),
            "rolled back from path b2-a1: no probe arrived",
        ),
        (event("failover.held", 5, reason="no standby is good"), "left traffic where it is: no standby is good"),
        (event("failover.advised", 5, to_rank=1, operations=["ip x"]), "would have moved traffic to path b2-a1: ip x"),
        (
            event("failover.applied", 5, to_rank=1, operations=[]),
            "moved traffic to path b2-a1 (nothing to change on this node)",
        ),
        (event("plan.refused", 5, reason="EEXIST"), "a change was refused: EEXIST"),
        (event("override.adopted", 5, rank=3), "found path b2-a2 in use at start and kept it"),
        (
            event("path.bisected", 5, peer="b2", place="local-fdb", candidates=["local-fdb"], because=["no entry"]),
            "bisected the way to b2: packets die at local-fdb; no entry",
        ),
        (
            event("path.bisected", 5, peer="b2", place="wire", candidates=["wire", "peer-ingress"], because=[]),
            "bisected the way to b2: packets die at wire (or peer-ingress); no evidence was recorded",
        ),
        (event("override.adopted", 5, rank=9), "found path of rank 9 in use at start and kept it"),
    ],
)
def test_every_deed_has_its_sentence(told, sentence):
    """In the operator's words, with relays instead of ranks."""
    assert sentence == _only(MOVED, (*INCIDENT, told)).done[-1].text


def test_events_of_another_pair_are_not_told():
    """Two locations, two stories."""
    assert () == _only(MOVED, tuple({**line, "pair": 1} for line in INCIDENT)).done


def test_a_healthy_mesh_says_what_would_be_done():
    """An operator wants to know before the fault."""
    assert (
        "if the path in use broke, traffic would move to path b2-a1",
        "`meshwatchctl failover onprem --dry-run` shows the operations on this node",
    ) == _only(HEALTHY).next


def test_with_no_good_standby_nothing_is_promised():
    """Routes stay, and it says so."""
    assert ("no standby path is good: routes stay as they are whatever happens",) == _only(STUCK).next


def test_a_mode_that_does_not_act_says_so():
    """Otherwise an operator waits for a failover that never comes."""
    advising = msgspec.structs.replace(status(BROKEN, states="down good down good"), mode="advise")
    assert "path b2-a1 is good, but mode advise moves nothing: set daemon.mode to enforce" == _only(advising).next[0]
    idle = msgspec.structs.replace(HEALTHY, mode="observe")
    assert _only(idle).next[0].endswith(" in mode enforce (it is observe: nothing is moved)")


def test_the_best_standby_is_the_lowest_good_rank_not_in_use():
    """As the engine would choose."""
    pair = status(verdict(FaultCode.NONE), states="good down good good", active=2).pairs[0]
    best = best_standby(pair)
    assert best is not None
    assert 3 == best.rank
