"""Generations that no number of moves explains: who is wrong, and how a wrong one ends."""

from __future__ import annotations

from meshwatchd.model.events import ActivePath, Banner, CoordinationKind, Reason
from meshwatchd.model.generation import GENERATIONS, MOST_MISSED, GenerationAccepted, GenerationRefused
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MS
from tests.support.bench import message, primary_is_silent, ready

PROPOSE, GRANT, REFUSE, NOTICE = CoordinationKind


def _words(bench, generations):
    """What peers' banners say from here on: the primary path, at these generations."""
    for peer, generation in generations.items():
        banner = Banner(active=(ActivePath(pair=0, rank=0, generation=generation),))
        bench.banners[peer] = banner
        bench.hear(peer, None, banner)


EVERYBODY = ("a1", "a2", "a3", "b1", "b2", "b3")


def test_a_generation_heard_once_from_each_relay_disables_nothing():
    """The greatest number there is, in answers of the relays of the path in use: others say what is true."""
    bench = ready("b2")
    _words(bench, dict.fromkeys(("a1", "a2", "a3", "b3"), 5))
    _words(bench, dict.fromkeys(("a1", "b1"), GENERATIONS))
    _words(bench, dict.fromkeys(("a1", "b1"), 5))
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(200 * MS)

    assert {6} == {message.generation for message in bench.spoken(PROPOSE)}


def test_one_node_with_a_wrong_generation_is_refused_and_told_once_a_minute():
    """It is named; nobody takes it over, and so nobody passes it on."""
    bench = ready("b2")
    _words(bench, dict.fromkeys(EVERYBODY, 5))
    for _ in range(3):
        _words(bench, {"b1": 2 * MOST_MISSED})

    assert 5 == bench.controller.mover.generation
    refused = GenerationRefused(pair=0, peer=NodeName("b1"), generation=2 * MOST_MISSED, own_generation=5)
    assert [refused] == bench.said(GenerationRefused)


def test_a_node_with_a_wrong_generation_comes_back_without_a_restart():
    """Most of the others agree with each other: from then on it follows their moves."""
    bench = ready("b2")
    bench.controller.mover.recount(2 * MOST_MISSED)
    _words(bench, {"b1": 5, "a1": 6, "a2": 5})

    assert 6 == bench.controller.mover.generation
    [accepted] = bench.said(GenerationAccepted)
    assert 2 * MOST_MISSED == accepted.own_generation
    bench.hear("a1", message(NOTICE, rank=1, target="b2", generation=7))
    bench.run(MS)
    assert 7 == bench.controller.mover.generation


def test_a_restarted_node_finds_its_way_into_a_mesh_with_large_generations():
    """It knows of no move and believes the first word; another node that knows of none brings nobody back."""
    bench = ready("b2")
    _words(bench, {"b1": GENERATIONS})
    _words(bench, {"b3": 0})

    assert GENERATIONS == bench.controller.mover.generation


def test_a_restarted_node_that_hears_a_wrong_generation_first_comes_to_the_right_one():
    """As soon as more nodes say the other."""
    bench = ready("b2")
    _words(bench, {"b1": GENERATIONS})
    _words(bench, dict.fromkeys(("a1", "a2", "a3"), 5))

    assert 5 == bench.controller.mover.generation


def test_a_proposal_from_too_far_ahead_is_refused_as_stale():
    """With the generation this node is at."""
    bench = ready("b2")
    start = bench.now
    bench.hear("a1", message(PROPOSE, rank=1, target="b2", generation=GENERATIONS // 2 - 1))

    assert [(REFUSE, Reason.STALE)] == [
        (m.kind, m.reason) for kind in (GRANT, REFUSE) for m in bench.spoken(kind, since=start)
    ]
