"""A mesh whose locations are large enough that their nodes greet each other in turn."""

from __future__ import annotations

from meshwatchd.core.membership.cadence import SILENT_NS
from meshwatchd.model.settings import SECOND
from tests.support.discovery_stage import Stage, view_of

A, B = (tuple(f"{site}{number}" for number in range(1, count + 1)) for site, count in (("a", 16), ("b", 7)))
NAMES = (*A, *B)


def test_who_lives_in_a_large_location_is_heard_of_by_neighbours(tmp_path):
    """At rest a node seldom hears one of the other location, and takes none for dead but the one that died.

    A change reaches everybody at once all the same.
    """
    stage = Stage(tmp_path, NAMES).start(*NAMES)
    stage.play(10 * SECOND)
    stage.play(400 * SECOND, step_ns=SECOND)
    stage.wire.sent.clear()
    stage.play(120 * SECOND, step_ns=SECOND)
    sent = [(sender, stage.wire.private.get(address, "")) for sender, address in stage.wire.sent]
    cadence = stage.nodes["a1"].discovery._roster.cadence_of("b2")
    silent = {name: _silent(stage, name) for name in NAMES}

    assert cadence.is_in_turn
    crossing = sum(sender in B and receiver in A for sender, receiver in sent)
    assert 0.8 <= crossing / (len(B) * 120 * SECOND / cadence.interval_ns) <= 1.2
    assert {frozenset()} == set(silent.values())

    del stage.nodes["b2"]
    stage.nodes["b3"].eyes.view = view_of("b3", NAMES, location="attic")
    stage.nodes["b3"].discovery.look_again()
    stage.play(3 * SECOND)
    assert {"attic"} == {stage.nodes[name].discovery.hellos()["b3"].view.location for name in A}
    assert cadence.patience_ns > SILENT_NS
    stage.play(cadence.patience_ns + 85 * SECOND, step_ns=SECOND)
    assert {frozenset({"b2"})} == {_silent(stage, name) for name in A}


def _silent(stage, name):
    roster = stage.nodes[name].discovery._roster
    return frozenset(str(peer) for peer in roster.peers if not roster._is_alive(peer, stage.time.now))
