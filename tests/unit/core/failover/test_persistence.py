"""What a process leaves to the next one."""

from __future__ import annotations

import msgspec

from meshwatchd.core.failover.persistence import Memory
from meshwatchd.core.failover.policy import Move
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.events import (
    FindingsReported,
    OperatorRequested,
    OperatorVerb,
    Reason,
    SnapshotReceived,
    StateRestored,
)
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import OrderEnded, OrderGiven, SaveState
from meshwatchd.model.plan import Rule
from meshwatchd.model.policy_state import Order, OrderKind, PairRecord, PathPenalty, PolicyState
from meshwatchd.model.settings import MINUTE, SECOND, MeshSettings
from meshwatchd.model.snapshot import Snapshot
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import settings_for, snapshot_of

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
    memory.recall(bench.controller, bench.now)

    assert bench.controller.mover.is_pinned
    assert 1_000 == bench.controller.context.damper.penalty(bench.controller.watch.primary, bench.now)
    gathered = memory.gather([bench.controller], bench.now)
    assert (PIN,) == gathered.orders
    assert [("cloud", 3), ("mars", 1)] == [(record.location, record.level) for record in gathered.pairs]


def test_an_engine_begins_with_what_it_is_told_before_its_first_snapshot():
    """And tells what stands; a later agent has nothing to add."""
    bench = Bench("a1")
    state = PolicyState(orders=(PIN,))
    assert [] == bench.feed(StateRestored(state=state))

    bench.engine.state.topology = None
    assert [OrderGiven(order=PIN)] == [o for o in bench.feed(StateRestored(state=state)) if isinstance(o, OrderGiven)]


def test_an_order_is_kept_at_once():
    """A crash a moment later must not break an operator's word."""
    bench = ready("a1")
    asked = OperatorRequested(request=1, verb=OperatorVerb.PAUSE, name="ann", duration_ns=MINUTE)
    (kept,) = [output for output in bench.feed(asked) if isinstance(output, SaveState)]

    assert [("pause", "ann", bench.now + MINUTE)] == [(o.kind, o.name, o.until_ns) for o in kept.state.orders]
    assert [] == bench.said(SaveState, since=bench.now + 1)


def test_a_failover_that_nobody_has_confirmed_is_undone_though_the_mesh_is_known_late():
    """Restarted meanwhile; a finding of the agent lets time pass before there is anybody to undo it."""
    order = Order(kind=OrderKind.CONFIRM, name="ann", until_ns=51 * SECOND, location="onprem", rank=0)
    state = PolicyState(orders=(order,), pairs=(PairRecord(location="onprem", is_pinned=True),))
    settings = settings_for("b3")
    nothing = msgspec.structs.replace(settings, mesh=MeshSettings())
    bench = Bench("b3", settings=nothing, snapshot=Snapshot())
    bench.feed(StateRestored(state=state))
    finding = AuditFinding(code=FaultCode.CONNTRACK_FULL, device="", subject="", culprit="b3", because=())
    bench.feed(FindingsReported(findings=(finding,)))
    bench.feed(FindingsReported())
    bench.run(10 * SECOND)
    override = Rule(priority=5460, table=7701)
    bench.feed(
        SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("b3", rules=(override,)), mesh=settings.mesh))
    )
    bench.run(SECOND)

    assert [OrderEnded(order=order, is_expired=True)] == bench.said(OrderEnded)
    assert Move(bench.controller.watch.primary, Reason.OPERATOR) == bench.controller._undo
