"""When flapping counts as damped."""

from netnslab.bench_flapping import judge
from netnslab.daemons import Event
from netnslab.traffic_records import Flow, FlowKind, Outcome

SECOND = 1_000_000_000
BEGAN = 100 * SECOND


def test_there_and_back_is_damped_and_a_third_move_is_not():
    """Each relay for itself; what was before the first fault does not count."""
    once = [_move("b2", -5, 1), _move("b2", 0.2, 1), _move("b2", 400, 0), _move("a1", 0.3, 1)]
    assert _judge(once).is_damped
    assert {"a1": 1, "a2": 0, "b1": 0, "b2": 2} == _judge(once).switches
    assert [(0.2, "b2", 1), (400.0, "b2", 0), (0.3, "a1", 1)] == _judge(once).moved
    assert not _judge([*once, _move("b2", 401, 1)]).is_damped


def test_nobody_who_moved_at_all_is_no_success():
    """A daemon that does not notice does not damp anything."""
    assert not _judge([]).is_damped


def test_losses_are_counted_from_the_first_fault_on():
    """Three flows were lost, one of them before anything was wrong."""
    flows = [_flow(-1, Outcome.LOST), _flow(0.1, Outcome.LOST), _flow(0.25, Outcome.LOST), _flow(3, Outcome.OK)]
    found = _judge([], flows)

    assert (2, 0.25) == (found.lost, found.lost_after_s)
    assert _judge([]).lost_after_s is None


def _judge(events, flows=()):
    return judge(events, flows, began_ns=BEGAN, flaps=300, is_home=True)


def _move(node, after_s, rank):
    at_ns = BEGAN + int(after_s * SECOND)
    return Event(
        at_ns=at_ns, node=node, name="failover.applied" if rank else "failback.applied", fields={"to_rank": rank}
    )


def _flow(after_s, outcome):
    return Flow(kind=FlowKind.UDP, start_ns=BEGAN + int(after_s * SECOND), outcome=outcome, source_port=20_000)
