"""What a person on call is told, beyond the verdict itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.explain import explain
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.policy_state import Order, OrderKind
from tests.support.example_reports import healthy
from tests.support.example_status import BROKEN, HEALTHY, INCIDENT, MOVED, NOW_NS, STUCK, TOLD, event, status, verdict


def _only(shown, events=()):
    (explanation,) = explain(shown, events)
    return explanation


def test_the_catalogue_gives_title_and_remedy():
    """The same words everywhere."""
    told = _only(MOVED)
    assert ("overlay-new-flows", "overlay", "b1") == (told.fault, told.layer, told.culprit)
    assert told.remedy.startswith("drain the leader")


def test_what_another_kernel_shows_is_mended_there():
    """Which entry of which device, only that node can name; here the remedy has placeholders."""
    assert _only(TOLD).remedy.startswith("on b1: meshwatchctl explain, which has the names; ip neigh del ADDRESS")
    assert _only(msgspec.structs.replace(TOLD, node=NodeName("b1"))).remedy.startswith("ip neigh del ADDRESS")


def test_what_neighbours_find_is_explained_by_the_neighbour():
    """A node whose address another machine has cannot see it; who has seen it itself needs nobody."""
    told = verdict(FaultCode.DUPLICATE_ADDRESS, culprit="b1")
    (heard, own) = (status(msgspec.structs.replace(told, told_by=source)) for source in ("b2", ""))
    assert _only(heard).remedy.startswith("on b2: meshwatchctl explain, which has the names; take the address")
    assert _only(own).remedy.startswith("take the address from")


def test_a_silent_tunnel_is_broken_at_either_end():
    """Which way the first packets were lost says nothing there; where one way works it is all that is to be said."""
    silent, one_way = (
        _only(status(verdict(fault, culprit="b1"))) for fault in (FaultCode.WIREGUARD_BLOCKED, FaultCode.ONE_WAY_BREAK)
    )
    assert ("tunnel b1-a1, at either end or between", "unknown") == (silent.place, silent.direction)
    assert ("tunnel b1-a1, at either end or between", "both") == (one_way.place, one_way.direction)
    direct = _only(status(verdict(FaultCode.WIREGUARD_BLOCKED, culprit="b3")))
    assert "tunnel to b3, at either end or between" == direct.place, "nobody relays it"


def test_what_is_known_of_the_other_direction_is_the_last_of_the_evidence():
    """It comes from the reports of other nodes, and is no part of the verdict."""
    shown = status(verdict(FaultCode.KUBELET_UNREACHABLE, culprit="a3", because=("TCP 10250 is not answered",)))
    (told,), (alone,) = explain(shown, (), healthy()), explain(shown, ())
    assert "TCP 10250 is not answered" == told.because[0]
    assert told.because[-1].endswith("the break is one way, from b3 to a3")
    assert ("TCP 10250 is not answered",) == alone.because


def test_a_standby_link_of_the_same_relays_has_its_rank():
    """Traffic cannot move from a path to itself."""
    (pair,) = HEALTHY.pairs
    link = msgspec.structs.replace(pair.paths[1], relays=pair.paths[0].relays, rank=4)
    shown = msgspec.structs.replace(HEALTHY, pairs=(msgspec.structs.replace(pair, paths=(pair.paths[0], link)),))

    assert "if the path in use broke, traffic would move to path b1-a1 (rank 4)" == _only(shown).next[0]


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
            event("detour.taken", 5, relay="a1", operations=["ip rule add"]),
            "went around its own leg to the leader by a1: ip rule add",
        ),
        (
            event("detour.left", 5, relay="a1", operations=["ip rule del"]),
            "went by its own leg to the leader again: ip rule del",
        ),
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
        "`meshwatchctl failover onprem --rank 1 --dry-run` on b2 or a1 shows the operations there",
    ) == _only(HEALTHY).next


def _relayed(shown, **more):
    """The same as b2 sees it, which relays two of the paths."""
    (pair,) = shown.pairs
    paths = tuple(msgspec.structs.replace(path, is_local_relay="b2" in path.relays) for path in pair.paths)
    return msgspec.structs.replace(shown, pairs=(msgspec.structs.replace(pair, paths=paths, **more),))


def test_a_relay_is_told_that_it_can_show_the_operations():
    """Elsewhere the command would be refused."""
    shows = "`meshwatchctl failover onprem --rank 1 --dry-run` shows the operations on this node"
    assert shows == _only(_relayed(HEALTHY)).next[1]


def _ordered(kind, *, active=0, rank=None, **more):
    """All is well but for an order of an operator."""
    order = Order(kind=kind, name="ann", until_ns=NOW_NS, location="onprem", rank=rank, reason="switch work")
    shown = status(verdict(FaultCode.NONE), active=active)
    return _only(msgspec.structs.replace(shown, orders=(order,), **more)).next


def test_a_pause_promises_no_move():
    """Whoever reads this at night must not wait for one."""
    assert (
        "paused by ann (switch work): automatic failover is suspended, whatever breaks",
        "`meshwatchctl failover onprem --rank 1 --dry-run` on b2 or a1 shows the operations there",
    ) == _ordered(OrderKind.PAUSE)


@pytest.mark.parametrize(
    ("kind", "active", "rank", "sentence"),
    [
        (OrderKind.CONFIRM, 1, 0, "traffic goes back to rank 0 unless somebody runs `meshwatchctl confirm` in time"),
        (
            OrderKind.PIN,
            2,
            2,
            "rank 2 is pinned: traffic fails back after `meshwatchctl unpin`, or when the pin expires",
        ),
        (OrderKind.PIN, 0, 2, "rank 2 is pinned: when that path has been good long enough, traffic moves there"),
    ],
)
def test_an_order_says_where_traffic_comes_back_to(kind, active, rank, sentence):
    """Not the mesh's own path."""
    assert sentence == _ordered(kind, active=active, rank=rank)[0]


def test_drained_nodes_are_avoided_and_not_come_back_to():
    """As the policy does: what they relay is taken where nothing else answers."""
    shown = msgspec.structs.replace(status(verdict(FaultCode.NONE), active=2), drained=(NodeName("b2"),))
    assert "if the path in use broke, traffic would move to path b2-a1" == _only(shown).next[1]
    away = status(verdict(FaultCode.NONE), active=1, following=3)
    shown = _relayed(msgspec.structs.replace(away, drained=(NodeName("b1"),)))
    assert (
        "b1 is out of service: `meshwatchctl status` there says why, and until when traffic stays away",
        "if the path in use broke, traffic would move to path b2-a2",
    ) == _only(shown).next[:2]


def test_a_move_of_an_operator_stays():
    """What `meshwatchctl failover` has promised."""
    assert (
        "an operator has moved traffic here: this node does not move it back by itself, `failback` does"
        == _only(_relayed(status(verdict(FaultCode.NONE), active=1), is_chosen=True)).next[0]
    )


def test_who_only_follows_does_not_foretell_the_way_back():
    """Orders and the wait to restore are those of the relays."""
    assert (
        "b2 and a1 relay this path and decide when traffic moves back: see `meshwatchctl explain` there"
        == _only(MOVED).next[0]
    )
    assert _only(_relayed(MOVED)).next[0].startswith("when the primary path has been good long enough, traffic")


def test_with_no_good_standby_nothing_is_promised():
    """Routes stay, and it says so."""
    assert ("no standby path is good: routes stay as they are whatever happens",) == _only(STUCK).next


def test_a_leader_does_not_speak_for_the_paths_around_it():
    """It follows where the relays of those move traffic."""
    shown = status(verdict(FaultCode.NONE), states="good good unwatched unwatched", active=1)
    assert (
        "this node sees no good standby path; it does not watch b1-a2 or b2-a2, whose relays may still move traffic"
        " there" == _only(shown).next[1]
    )


def test_a_mode_that_does_not_act_says_so():
    """Otherwise an operator waits for a failover that never comes."""
    advising = msgspec.structs.replace(status(BROKEN, states="down good down good"), mode="advise")
    assert "path b2-a1 is good, but mode advise moves nothing: set daemon.mode to enforce" == _only(advising).next[0]
    idle = msgspec.structs.replace(HEALTHY, mode="observe")
    assert _only(idle).next[0].startswith("mode observe moves nothing; in mode enforce, if the path in use broke, ")


def test_where_traffic_would_move_is_what_the_engine_says():
    """Its policy ranks paths by more than their numbers; nothing here ranks them again."""
    shown = status(verdict(FaultCode.NONE), following=3)
    assert "if the path in use broke, traffic would move to path b2-a2" == _only(shown).next[0]
    home = status(verdict(FaultCode.NONE), active=1, following=0)
    assert "`meshwatchctl failback onprem --dry-run` on b1 or a1 shows the operations there" == _only(home).next[-1]
