"""What the benchmark takes for traffic that flows again."""

from netnslab.bench_crashes import MARGIN_NS, STEADY_NS, are_steady
from netnslab.traffic_records import Flow, FlowKind, Outcome

MS = 1_000_000


def test_a_second_of_flows_that_worked_is_steady():
    """Flows of both kinds, 10 ms apart, for a little more than a second."""
    assert are_steady(_flows(0, STEADY_NS + MARGIN_NS))


def test_one_lost_flow_is_not_steady():
    """All but one of a second worked."""
    assert not are_steady([*_flows(0, STEADY_NS + MARGIN_NS), _flow(500 * MS, Outcome.LOST)])


def test_less_than_a_second_says_nothing():
    """Half a second of flows, and none at all: whether service is restored is not known yet."""
    assert not are_steady(_flows(0, STEADY_NS // 2))
    assert not are_steady([])


def _flows(since_ns, until_ns):
    return [_flow(at_ns, Outcome.OK) for at_ns in range(since_ns, until_ns, 10 * MS)]


def _flow(at_ns, outcome):
    return Flow(kind=FlowKind.UDP, start_ns=at_ns, outcome=outcome, source_port=20_000)
