"""How little is asked while the mesh's own agent is at work."""

from __future__ import annotations

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.failover.confirm_burst import ASK_AFTER_NS
from meshwatchd.core.failover.topology_change_hold import CHANGE_NS, HERE
from meshwatchd.core.mesh.engine_state import REPEAT_NS
from meshwatchd.model.events import Banner, MeshStirred
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import SendProbe
from meshwatchd.model.settings import MS, SECOND, ProbeProfile
from meshwatchd.model.timers import TIMERS
from tests.support.bench import primary_is_silent, ready


def _bursts(name, *, is_stirred, lasts_ns=200 * MS):
    """What bursts ask after the path in use was first doubted at rest."""
    bench = ready(name)
    bench.run(15 * SECOND)
    if is_stirred:
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
        bench.run(MS)
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    since = bench.now
    bench.run(lasts_ns)
    return [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]


def _asked(name, *, is_stirred, lasts_ns=200 * MS):
    """How often they ask over the path in use."""
    asked = _bursts(name, is_stirred=is_stirred, lasts_ns=lasts_ns)
    return sum(plan.layer is Layer.RELAY and plan.path == 0 for plan in asked)


def test_a_member_leaves_bursts_to_the_relays():
    """It decides nothing, and every packet takes processor from the agent that has to finish."""
    assert _asked("a3", is_stirred=False) > 30
    assert _asked("a3", is_stirred=True, lasts_ns=ASK_AFTER_NS + 200 * MS) <= 4, (
        "the relays are told of the doubt, no more"
    )


def test_a_relay_asks_later_and_more_slowly():
    """The agent has mostly finished by then; the evidence is complete when the path may be left."""
    assert _asked("b2", is_stirred=True, lasts_ns=ASK_AFTER_NS - 20 * MS) == 0
    calm = _asked("b2", is_stirred=False)
    stirred = _asked("b2", is_stirred=True, lasts_ns=ASK_AFTER_NS + 200 * MS)

    assert 20 < stirred < calm * 2 / 3


def test_nobody_asks_for_a_cause_of_doubt():
    """It would not be stated; what condemns the path and what could replace it go first."""
    for is_stirred in (False, True):
        lasts_ns = TIMERS[ProbeProfile.DEFAULT].silence_ns - 20 * MS + is_stirred * ASK_AFTER_NS
        asked = _bursts("b2", is_stirred=is_stirred, lasts_ns=lasts_ns)
        assert is_stirred is not any(plan.layer is Layer.OVERLAY for plan in asked)


def test_a_peers_doubt_calls_for_no_burst():
    """Peers doubt what the agent rewrites before they have heard of its work."""
    for is_stirred in (False, True):
        bench = ready("b2")
        bench.run(15 * SECOND)
        if is_stirred:
            bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
            bench.run(20 * MS)
        up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
        since = bench.now
        bench.hear("a2", None, Banner(view_up=up, view_known=known, active=(bench.controller.active,)))
        bench.run(100 * MS)
        asked = [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]
        assert is_stirred is not any(plan.layer is Layer.RELAY and plan.path == 0 for plan in asked)


def test_a_segment_in_doubt_is_looked_at_when_the_agent_is_done():
    """Only a fault can be behind it, and that lasts."""
    bench = ready("b2")
    bench.run(15 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.silent = lambda plan: plan.layer is Layer.OVERLAY
    for is_over in (False, True):
        since = bench.now
        bench.run(CHANGE_NS - 100 * MS)
        asked = {bench.plans[each.session].layer for each in bench.said(SendProbe, since=since) if each.is_confirm}
        assert is_over is (Layer.OVERLAY in asked)


def test_what_condemned_the_path_is_asked_for_when_the_agent_is_done():
    """However long that took: a node that rests has asked nothing that tells why, and would not know for seconds."""
    bench = ready("a3")
    bench.run(15 * SECOND)
    bench.silent = primary_is_silent
    for _ in range(4):
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
        bench.run(SECOND)
    assert bench.controller.watch.group(bench.controller.watch.primary).is_down
    bench.run(CHANGE_NS - SECOND)
    since = bench.now
    bench.run(300 * MS)
    asked = [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]

    assert {Layer.UNDERLAY, Layer.OVERLAY} <= {plan.layer for plan in asked if plan.peer == "a1"}


def test_nobody_is_awake_until_the_agent_is_done():
    """What is wrong meanwhile is looked at afterwards."""
    bench = ready("a3")
    bench.run(15 * SECOND)
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.silent = primary_is_silent
    bench.run(CHANGE_NS - 100 * MS)
    assert bench.controller.attention.is_awake(bench.now)
    assert not bench.controller.is_awake(bench.now)
    bench.run(200 * MS)

    assert bench.controller.is_awake(bench.now)


def _told(name, *, is_stirred):
    """To whom a node turns at once when its own agent is at work, or a neighbour's."""
    bench = ready(name)
    bench.run(15 * SECOND)
    since = bench.now
    if is_stirred:
        bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    else:
        word = Banner(view_up=HERE, view_known=HERE, active=(bench.controller.active,))
        bench.hear("b1", None, word)
    bench.run(20 * MS)
    plans = [bench.plans[each.session] for each in bench.said(SendProbe, since=since) if each.is_confirm]
    assert all(plan.layer is Layer.UNDERLAY or plan.path for plan in plans), "never by the path that is rewritten"
    return sorted(str(plan.peer) for plan in plans)


def test_each_node_is_told_of_it_once():
    """Neighbours by the node itself, other locations by relays that hear of it as well."""
    assert ["a1", "a2", "a3", "b1", "b2"] == _told("b3", is_stirred=True)
    assert ["a1", "a2", "a3"] == _told("b2", is_stirred=False)
    assert [] == _told("b3", is_stirred=False)


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
