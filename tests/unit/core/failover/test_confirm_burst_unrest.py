"""How little is asked while the mesh's own agent is at work."""

from __future__ import annotations

from meshwatchd.core.failover.topology_change_hold import CHANGE_NS
from meshwatchd.core.mesh.engine_state import REPEAT_NS
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import SendProbe
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import primary_is_silent, ready


def _asked(name, *, is_stirred):
    """Probes of bursts over the path in use in the 200 ms after it was first doubted at rest."""
    bench = ready(name)
    bench.run(15 * SECOND)
    if is_stirred:
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
        bench.run(MS)
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    since = bench.now
    bench.run(200 * MS)
    bursts = [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]
    return sum(plan.layer is Layer.RELAY and plan.path == 0 for plan in bursts)


def test_a_member_leaves_bursts_to_the_relays():
    """It decides nothing, and every packet takes processor from the agent that has to finish."""
    assert _asked("a3", is_stirred=False) > 30
    assert _asked("a3", is_stirred=True) <= 4, "the relays are told of the doubt, no more"


def test_a_relay_asks_more_slowly():
    """Its evidence is complete within the hold-off all the same."""
    calm, stirred = _asked("b2", is_stirred=False), _asked("b2", is_stirred=True)

    assert 20 < stirred < calm * 2 / 3


def test_nobody_is_awake_until_the_agent_is_done():
    """What is wrong meanwhile is looked at afterwards."""
    bench = ready("a3")
    bench.run(15 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.silent = primary_is_silent
    bench.run(CHANGE_NS - 100 * MS)
    assert bench.conductor.attention.is_awake(bench.now)
    assert not bench.conductor.is_awake(bench.now)
    bench.run(200 * MS)

    assert bench.conductor.is_awake(bench.now)


def test_the_word_of_it_is_repeated():
    """Few packets leave at rest, and a neighbour forgets within 0.6 s."""
    bench = ready("b1")
    bench.run(15 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.run(100 * MS)
    since = bench.now
    bench.run(2 * SECOND)
    near = [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]

    for peer in ("b2", "b3"):
        told = sum(plan.layer is Layer.UNDERLAY and plan.peer == peer for plan in near)
        assert 2 * SECOND // REPEAT_NS - 2 <= told <= 2 * SECOND // REPEAT_NS + 1
