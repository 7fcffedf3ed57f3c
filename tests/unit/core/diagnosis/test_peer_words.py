"""What peers' words about their own legs prove, and for how long."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.diagnosis.peer_words import VIEW_SETTLE_NS, VOUCH_NS
from meshwatchd.model.events import Banner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import direct_settings, direct_snapshot

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN


def _evidence(bench):
    return bench.controller.diagnosis.evidence(bench.now)


def test_what_peers_say_counts_once_they_can_have_noticed():
    """Good news of a peer is old news for a while after the suspicion; bad news counts at once."""
    for leg_said, early, late in ((ALIVE, UNKNOWN, ALIVE), (DEAD, DEAD, DEAD)):
        bench = ready("a3")
        up, known = encode({(0, View.WIREGUARD): leg_said})
        bench.banners["a1"] = Banner(view_up=up, view_known=known)
        bench.silent = primary_is_silent
        bench.run(150 * MS)
        assert early is _evidence(bench).own_view_wireguard
        bench.run(2 * VIEW_SETTLE_NS)

        assert late is _evidence(bench).own_view_wireguard


@pytest.mark.parametrize(("told", "expected"), [(ALIVE, ALIVE), (DEAD, DEAD), (UNKNOWN, UNKNOWN)])
def test_a_leader_without_neighbours_lives_by_the_word_of_other_leaders(told, expected):
    """n1 asks whether n2 lives: n3 tells what its own tunnel to n2 says, which is a pair that n1 is no part of."""
    bench = Bench("n1", settings=direct_settings("n1"), snapshot=direct_snapshot())
    bench.run(2 * SECOND)
    watch = bench.engine.state.controllers[0].watch
    assert ("n1", "n2", (("n3", 2),)) == (watch.own_leader, watch.remote_leader, watch._words._elsewhere)
    up, known = encode({} if told is UNKNOWN else {(2, View.WIREGUARD): told})
    bench.hear("n3", None, Banner(view_up=up, view_known=known))

    assert expected is bench.engine.state.controllers[0].diagnosis.evidence(bench.now).remote_view_leader


def _vouched(name, words, *, active=1):
    """Whether the primary path may be taken back, by what this node's peers have just said of it."""
    bench = ready(name)
    for peer, said in words.items():
        up, known = encode({} if said is UNKNOWN else {(0, View.RELAY_PATH): said})
        bench.hear(peer, None, Banner(view_up=up, view_known=known, active=(bench.controller.active,)))
    watch, views = bench.controller.watch, bench.engine.state.views
    silent = {peer for peer in ("a1", "a2", "a3", "b1", "b2", "b3") if peer not in words and peer != name}
    for peer in silent:
        views._latest.pop(peer, None)
    return watch.is_vouched_for(watch.paths[active], views, bench.now)


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("b2", {"b3": ALIVE, "a2": ALIVE, "a3": ALIVE}, True),
        ("b2", {"b3": ALIVE, "a2": ALIVE}, True),
        ("b2", {"b3": ALIVE, "a2": ALIVE, "a3": UNKNOWN}, True),
        ("b2", {"b3": ALIVE, "a2": ALIVE, "a3": DEAD}, False),
        ("b2", {"b3": DEAD, "a2": ALIVE, "a3": ALIVE}, False),
        ("b2", {"b3": ALIVE, "a2": UNKNOWN, "a3": UNKNOWN}, False),
        ("b2", {"b3": ALIVE}, True),
        ("b2", {"b3": UNKNOWN}, True),
        ("b2", {"b3": ALIVE, "a1": DEAD, "b1": DEAD}, True),
        ("a1", {"a2": ALIVE, "a3": ALIVE, "b3": ALIVE}, True),
        ("a1", {"a2": UNKNOWN, "a3": UNKNOWN, "b3": ALIVE}, False),
        ("a1", {"a2": ALIVE, "a3": DEAD, "b3": ALIVE}, False),
        ("a1", {"b3": UNKNOWN}, False),
        ("a1", {}, True),
    ],
    ids=[
        "all say yes",
        "a silent member has no say",
        "who does not know has no say beside one who does",
        "one beyond says no",
        "a neighbour says no",
        "nobody beyond knows",
        "nobody beyond is heard",
        "a relay that is no leader speaks for its own side",
        "the leaders are not asked: their own probes cross no overlay",
        "a leader asks its members",
        "a leader does not speak for its members",
        "one of a leader's members says no",
        "a leader hears one far node, which does not know",
        "nobody is heard at all",
    ],
)
def test_the_primary_path_is_taken_back_on_the_word_of_nodes_behind_both_leaders(name, words, expected):
    """Each side of which anybody is heard needs one node that says alive, and none that says dead."""
    assert expected is _vouched(name, words)


def test_a_word_for_the_primary_path_grows_old():
    """Whoever fell silent is asked nothing: its word of a moment ago is neither for the path nor against it."""
    bench = ready("b2")
    bench.vouch()
    bench.object("a3")
    bench.run(3 * SECOND)
    watch, views = bench.controller.watch, bench.engine.state.views
    assert not watch.is_vouched_for(watch.paths[1], views, bench.now)
    bench.silent = lambda plan: plan.peer == "a3"
    bench.run(VOUCH_NS + SECOND)

    assert watch.is_vouched_for(watch.paths[1], views, bench.now)


def test_a_node_s_own_word_counts_for_its_side():
    """b2 itself finds the primary path dead while its neighbour praises it: it does not go back."""
    bench = ready("b2")
    bench.vouch()
    bench.silent = primary_is_silent
    bench.run(3 * SECOND)
    watch = bench.controller.watch

    assert not watch.is_vouched_for(watch.paths[1], bench.engine.state.views, bench.now)


def _own_leader_lives(words, *, after_ns, answered_ns=0, said_ns=None):
    """What b3 takes its neighbours to say of b1 so long after the suspicion; each word is (leader's host, path)."""
    bench = ready("b3")
    views, now = bench.engine.state.views, bench.now
    suspected = now - after_ns
    said_at = now if said_ns is None else suspected + said_ns
    views._latest.clear()
    for peer, (leader, path) in words.items():
        up, known = encode({(0, View.LEADER_UNDERLAY): leader, (0, View.RELAY_PATH): path})
        views.note(peer, Banner(view_up=up, view_known=known), said_at)
    answered = suspected + answered_ns
    said = bench.controller.watch._words.views_of(
        NodeName("b1"), views, suspected=suspected, answered=answered, now=now
    )
    return said["neighbours_leader"]


@pytest.mark.parametrize(
    ("words", "early", "late"),
    [
        ({"b2": (ALIVE, ALIVE)}, ALIVE, ALIVE),
        ({"b2": (ALIVE, UNKNOWN)}, UNKNOWN, UNKNOWN),
        ({"b2": (ALIVE, UNKNOWN), "b1": (ALIVE, ALIVE)}, UNKNOWN, UNKNOWN),
        ({"b2": (ALIVE, DEAD)}, UNKNOWN, UNKNOWN),
        ({"b2": (UNKNOWN, ALIVE)}, UNKNOWN, UNKNOWN),
        ({"b2": (DEAD, ALIVE)}, UNKNOWN, UNKNOWN),
        ({}, UNKNOWN, UNKNOWN),
        ({"b1": (ALIVE, ALIVE), "a2": (ALIVE, ALIVE)}, UNKNOWN, UNKNOWN),
    ],
)
def test_a_leader_lives_by_the_word_of_a_neighbour_that_finds_the_path_well(words, early, late):
    """A neighbour of a dead leader doubts the path before it has missed the host: its good word does not count.

    Nor does that of one that says nothing of the path: where the standby that it uses is as bad, it may be down.
    """
    assert early is _own_leader_lives(words, after_ns=VIEW_SETTLE_NS // 2)
    assert late is _own_leader_lives(words, after_ns=VIEW_SETTLE_NS)


def test_one_doubt_outweighs_good_words_until_all_can_have_noticed():
    """Then one neighbour that reaches the leader proves that it lives, though others are cut off as well."""
    bench = ready("b3")
    words = bench.controller.watch._words
    words._here = (NodeName("b2"), NodeName("b4"))
    said = {"b2": (ALIVE, ALIVE), "b4": (DEAD, DEAD)}
    for after_ns, expected in ((VIEW_SETTLE_NS - MS, UNKNOWN), (VIEW_SETTLE_NS, ALIVE)):
        views, now = bench.engine.state.views, bench.now
        for peer, (leader, path) in said.items():
            up, known = encode({(0, View.LEADER_UNDERLAY): leader, (0, View.RELAY_PATH): path})
            views.note(peer, Banner(view_up=up, view_known=known), now)
        suspected = now - after_ns
        found = words.views_of(NodeName("b1"), views, suspected=suspected, answered=suspected, now=now)
        assert expected is found["neighbours_leader"]


def test_a_word_from_before_the_leader_s_last_answer_does_not_count():
    """But for a moment, in which that answer proves it; from before the suspicion none counts, nor a minute later."""
    word = {"b2": (ALIVE, ALIVE)}
    assert UNKNOWN is _own_leader_lives(word, after_ns=SECOND, said_ns=-1)
    assert ALIVE is _own_leader_lives(word, after_ns=5 * SECOND, said_ns=0)
    assert UNKNOWN is _own_leader_lives(word, after_ns=5 * SECOND, answered_ns=2 * SECOND, said_ns=SECOND)
    assert ALIVE is _own_leader_lives(word, after_ns=5 * SECOND, answered_ns=5 * SECOND, said_ns=4 * SECOND + MS)
    assert UNKNOWN is _own_leader_lives(word, after_ns=5 * SECOND, answered_ns=5 * SECOND, said_ns=4 * SECOND - MS)
    assert UNKNOWN is _own_leader_lives(word, after_ns=MINUTE + MS, said_ns=0)
