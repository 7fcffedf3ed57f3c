"""What a process leaves to the next one."""

from __future__ import annotations

from meshwatchd.core.memory import Memory
from meshwatchd.model.events import OperatorRequested, OperatorVerb, StateRestored
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import OrderGiven, SaveState
from meshwatchd.model.policy_state import Order, OrderKind, PairRecord, PathPenalty, PolicyState
from meshwatchd.model.settings import MINUTE, SECOND
from tests.support.bench import Bench, ready

PIN = Order(kind=OrderKind.PIN, name="ann", until_ns=10_000 * SECOND, location="cloud", rank=3)
HOME = (NodeName("b1"), NodeName("a1"))


def test_a_pair_takes_what_is_known_of_it_and_the_rest_waits():
    """A location that is not there at the moment is not forgotten."""
    bench = ready("a1")
    memory = Memory()
    penalty = PathPenalty(relays=HOME, penalty=1_000.0, at_ns=bench.now)
    known = PairRecord(location="cloud", level=3, level_at_ns=bench.now, is_pinned=True, penalties=(penalty,))
    other = PairRecord(location="mars", level=1)
    memory.take_over(PolicyState(orders=(PIN,), pairs=(known, other)))
    memory.recall(bench.conductor, bench.now)

    assert bench.conductor.mover.is_pinned
    assert 1_000 == bench.conductor.context.damper.penalty(HOME, bench.now)
    gathered = memory.gather([bench.conductor], bench.now)
    assert (PIN,) == gathered.orders
    assert [("cloud", 3), ("mars", 1)] == [(record.location, record.level) for record in gathered.pairs]


def test_an_engine_begins_with_what_it_is_told_before_its_first_snapshot():
    """And tells what stands; a later agent has nothing to add."""
    bench = Bench("a1")
    state = PolicyState(orders=(PIN,))
    assert [] == bench.feed(StateRestored(state=state))

    bench.engine.topology = None
    assert [OrderGiven(order=PIN)] == [o for o in bench.feed(StateRestored(state=state)) if isinstance(o, OrderGiven)]


def test_an_order_is_kept_at_once():
    """A crash a moment later must not break an operator's word."""
    bench = ready("a1")
    asked = OperatorRequested(request=1, verb=OperatorVerb.PAUSE, name="ann", duration_ns=MINUTE)
    (kept,) = [output for output in bench.feed(asked) if isinstance(output, SaveState)]

    assert [("pause", "ann", bench.now + MINUTE)] == [(o.kind, o.name, o.until_ns) for o in kept.state.orders]
    assert [] == bench.said(SaveState, since=bench.now + 1)
