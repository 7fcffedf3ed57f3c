"""Who agrees with whom, and over which probes they speak."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.peer_views import LOST_NS
from meshwatchd.core.failover.operator_holds import AGENT
from meshwatchd.core.failover.state_machine import Intent
from meshwatchd.core.failover.topology_change_hold import HERE
from meshwatchd.model.events import Banner, CoordinationKind, Reason
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE, Mode
from tests.support.bench import ready
from tests.support.lab_mesh import settings_for


@pytest.mark.parametrize(
    ("name", "partners"),
    [
        ("a1", [None, "b2", None, None, "b1"]),
        ("a2", [None, None, "b1", "b2", None]),
        ("a3", [None, None, None, None, None]),
        ("b1", [None, None, "a2", None, "a1"]),
        ("b2", [None, "a1", None, "a2", None]),
    ],
)
def test_the_two_relays_of_a_path_agree_on_it(name, partners):
    """Nobody else has a say; on the way home there is no one to ask while one is at home."""
    bench = ready(name)
    context = bench.controller.context

    assert partners == [context.partner(path, bench.now) for path in context.watch.paths]
    assert name == context.local_node


def test_failback_is_agreed_by_those_who_hold_the_overrides():
    """The relays of the path that is left."""
    bench = ready("b2")
    context = bench.controller.context
    context.mover.active = context.watch.paths[3]

    assert "a2" == context.partner(context.watch.primary, bench.now)


def _drained(bench, peer="", **banner):
    context = bench.controller.context
    if peer:
        context.views.note(peer, Banner(is_admin_down=True, **banner), bench.now)
    return [path.rank for path in context.watch.paths if context.is_drained(path, bench.now)]


def test_a_path_is_drained_with_one_of_its_relays():
    """b3 relays nothing, also while the mesh's own agents are at work; b2 does."""
    bench = ready("a1")
    assert [] == _drained(bench, "b3")
    bench.controller.context.unrest.stirred(bench.now, is_rebuilding=True)
    assert [] == _drained(bench)
    assert [1, 3] == _drained(bench, "b2")


def test_where_an_agent_is_away_its_node_may_come_to_lead_when_others_are_at_work():
    """Until then the primary path is as good as any."""
    bench = ready("a1")
    assert [] == _drained(bench, "b3", view_known=HERE)
    bench.controller.context.unrest.stirred(bench.now, is_rebuilding=True)
    assert [0] == _drained(bench)


def test_who_was_taken_out_of_service_is_excused_and_not_who_was_left_by_an_agent():
    """Routes that are gone are no fault of maintenance, and may be a stranger's deed."""
    bench = ready("a1")
    context = bench.controller.context
    assert not context.is_excused("b1", bench.now)
    _drained(bench, "b1")
    assert context.is_excused("b1", bench.now)
    _drained(bench, "b1", view_known=HERE)
    assert not context.is_excused("b1", bench.now)


def test_a_node_knows_that_its_own_agent_is_away():
    """By the order that it has given itself."""
    bench = ready("b2")
    bench.controller.context.orders.give(Order(kind=OrderKind.DRAIN, name=AGENT, until_ns=bench.now + MINUTE))
    assert [1, 3] == _drained(bench)
    bench.controller.context.unrest.stirred(bench.now, is_rebuilding=True)
    assert [0, 1, 3] == _drained(bench)


def test_neighbours_are_the_rest_of_the_location():
    """Those a relay has to tell."""
    assert ["a1", "a3"] == list(ready("a2").controller.context.neighbours())


def _said(bench, to, rank):
    context = bench.controller.context
    intent = Intent(target=context.watch.paths[rank], generation=1, nonce=1, began=0, reason=Reason.BROKEN)
    (probe,) = context.say(CoordinationKind.PROPOSE, to, intent, bench.now)
    assert to == probe.coordination.target
    return bench.plans[probe.session]


def test_relays_speak_over_the_path_they_speak_of():
    """The message proves the path; neighbours are told over the underlay, which no overlay fault touches."""
    bench = ready("a2")

    assert (Layer.RELAY, 3, "b2") == _where(_said(bench, "b2", 3))
    assert (Layer.RELAY, 2, "b1") == _where(_said(bench, "b1", 2))
    assert (Layer.UNDERLAY, "a3") == (_said(bench, "a3", 3).layer, _said(bench, "a3", 3).peer)


def test_nobody_speaks_to_a_node_that_is_not_there():
    """It has left the mesh since it asked."""
    context = ready("a2").controller.context
    intent = Intent(target=context.watch.paths[3], generation=1, nonce=1, began=0, reason=Reason.BROKEN)

    assert [] == list(context.say(CoordinationKind.GRANT, NodeName("b9"), intent, 0))


def test_who_only_observes_answers_over_what_there_is():
    """Standby sessions are not laid out then; a refusal still has to arrive."""
    bench = ready("a1", settings=settings_for("a1", mode=Mode.OBSERVE))

    assert (Layer.RELAY, 0, "b2") == _where(_said(bench, "b2", 1))
    assert not bench.controller.context.is_enforcing


def _where(plan):
    return plan.layer, plan.path, plan.peer


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [OrderKind.PIN, OrderKind.CONFIRM])
def test_an_order_about_relays_is_about_their_standby(kind, rank):
    """Those of rank 4, the spare link, are the leaders, which the primary path has as well."""
    context = ready("a1").controller.context
    relays = context.watch.paths[rank].relays
    order = Order(kind=kind, name="ann", until_ns=MINUTE, rank=rank, relays=relays)

    assert context.watch.paths[rank] is context.ordered(order)


def test_an_order_without_relays_is_about_a_rank():
    """The primary path whoever leads, and whatever versions before relays were kept have left."""
    context = ready("a1").controller.context
    orders = [Order(kind=OrderKind.PIN, name="ann", until_ns=MINUTE, rank=rank) for rank in (0, 4, 9)]

    assert [context.watch.primary, context.watch.paths[4], None] == [context.ordered(order) for order in orders]


def _silent(bench, *names):
    """As if these had not been heard for a second."""
    for name in names:
        bench.engine.state.views.note(name, Banner(), bench.now - LOST_NS)


def test_the_way_home_from_a_dead_relay_is_agreed_with_the_leader():
    """A dead relay agrees to nothing: what is left of its path asks the mesh's own leader over there."""
    bench = ready("a1")
    context = bench.controller.context
    context.mover.active = context.watch.paths[1]
    assert "b2" == context.partner(context.watch.primary, bench.now)
    _silent(bench, "b2")
    assert "b1" == context.partner(context.watch.primary, bench.now)


def test_with_both_relays_dead_the_leaders_agree():
    """And nobody else: a3 has no say in any case."""
    for name, partner in (("a1", "b1"), ("b1", "a1"), ("a3", None)):
        bench = ready(name)
        context = bench.controller.context
        context.mover.active = context.watch.paths[3]
        _silent(bench, "a2")
        assert None is context.partner(context.watch.primary, bench.now)
        _silent(bench, "b2")
        assert partner == context.partner(context.watch.primary, bench.now)


def test_a_leader_answers_for_its_dead_relay_and_for_no_other():
    """b1 for b2, to those who may ask, on the way home only."""
    bench = ready("b1")
    context = bench.controller.context
    home, left = context.watch.paths[0], context.watch.paths[3]
    assert not context.stands_in(home, left, NodeName("a2"), bench.now)
    _silent(bench, "b2")
    assert context.stands_in(home, left, NodeName("a2"), bench.now)
    assert context.stands_in(home, left, NodeName("a1"), bench.now)
    assert not context.stands_in(home, left, NodeName("a3"), bench.now)
    assert not context.stands_in(context.watch.paths[2], left, NodeName("a2"), bench.now)
    assert not context.stands_in(home, home, NodeName("a1"), bench.now)
