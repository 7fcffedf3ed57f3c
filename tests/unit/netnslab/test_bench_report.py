from netnslab.bench_report import Injection, Round, judge, summarise
from netnslab.daemons import Event
from netnslab.traffic_records import Flow, FlowKind, Outcome, Punctuality

MS = 1_000_000


def test_a_round_is_judged_by_traffic_and_by_both_relays():
    """120 ms of losses from 10 s on; both relays of the new path say so and have the rule."""
    injection = judge(_round(diverted=("a1", "a2", "a3", "b1", "b2", "b3")), _flows(), _events("a1", "b2"), [])

    assert 120 * MS == injection.outage_ns
    assert injection.both_sides_switched
    assert {"a1": 80 * MS, "b2": 80 * MS} == injection.applied_ns
    assert ("overlay-new-flows", 70 * MS) == (injection.verdict, injection.verdict_ns)


def test_one_side_alone_is_not_both():
    """b2 said that it switched, but its kernel holds no such rule."""
    assert not judge(_round(diverted=("a1",)), _flows(), _events("a1", "b2"), []).both_sides_switched


def test_a_detour_is_one_nodes_own():
    """b3 goes around its leg by a neighbour, which changes nothing; its own kernel has to hold the rule."""
    events = [Event(name="detour.taken", node="b3", at_ns=10_080 * MS, fields={"relay": "b2"})]

    injection = judge(_round(diverted=("b3",)), _flows(), events, [])

    assert injection.both_sides_switched
    assert {"b3": 80 * MS} == injection.applied_ns
    assert not judge(_round(diverted=("b2",)), _flows(), events, []).both_sides_switched


def test_without_a_word_of_any_daemon_nothing_switched():
    """Service came back by itself."""
    assert not judge(_round(diverted=()), _flows(), [], []).both_sides_switched


def test_facts_of_other_rounds_do_not_count():
    """The failback after the fault was healed, and whatever was before."""
    injection = judge(_round(diverted=("a1", "b2")), _flows(), _events("a1", "b2", at_ms=30_000), [])

    assert {} == injection.applied_ns
    assert injection.verdict_ns is None


def test_a_stalled_source_is_visible_in_the_round_it_spoiled():
    """The window of the injection was 90 ms late at worst; another one, seconds later, is none of its business."""
    windows = [_window(10_400, late_ms=90), _window(14_000, late_ms=500)]

    assert 90 * MS == judge(_round(diverted=()), _flows(), [], windows).source_late_ns


def test_the_summary_meets_the_goal_only_if_every_injection_was_survived():
    """Nineteen quick failovers do not make up for one that never came."""
    quick, never = _injection(120), _injection(None)

    assert summarise([quick] * 20)["meets_goal"]
    assert not summarise([quick] * 19 + [never])["meets_goal"]
    assert 19 == summarise([quick] * 19 + [never])["restored"]


def test_the_summary_is_in_milliseconds():
    """p50 of 20 is the tenth, p99 the slowest."""
    summary = summarise([_injection(100 + number) for number in range(20)])

    assert (109.0, 119.0, 119.0) == (summary["outage_p50_ms"], summary["outage_p99_ms"], summary["outage_max_ms"])


def test_of_nothing_there_is_no_goal_met():
    """A run that was aborted before its first injection."""
    assert not summarise([])["meets_goal"]


def _round(*, diverted):
    return Round(
        fault="overlay-new-flows",
        before_ns=9_990 * MS,
        after_ns=10_000 * MS,
        healed_ns=13_000 * MS,
        ended_ns=16_000 * MS,
        diverted=diverted,
    )


def _flows():
    return [
        Flow(
            kind=FlowKind.UDP if at_ms % 10 == 0 else FlowKind.TCP,
            start_ns=at_ms * MS,
            outcome=Outcome.LOST if 10_000 <= at_ms < 10_120 else Outcome.OK,
            source_port=1024,
        )
        for at_ms in range(9_000, 16_000, 5)
    ]


def _events(*nodes, at_ms=10_080):
    verdict = Event(
        name="verdict.changed",
        node=nodes[0],
        at_ns=(at_ms - 10) * MS,
        fields={"verdict": {"fault": "overlay-new-flows"}},
    )
    applied = [
        Event(name="failover.applied", node=node, at_ns=at_ms * MS, fields={"to_rank": 1, "relays": ["a1", "b2"]})
        for node in nodes
    ]
    return [verdict, *applied]


def _window(at_ms, *, late_ms):
    return Punctuality(
        at_ns=at_ms * MS,
        window_ns=1_000 * MS,
        started=200,
        skipped=0,
        lateness_p50_ns=0,
        lateness_p99_ns=0,
        lateness_max_ns=late_ms * MS,
        cpu_ns=0,
    )


def _injection(outage_ms):
    outage_ns = None if outage_ms is None else outage_ms * MS
    return Injection(
        fault="leader-dead",
        injected_ns=0,
        outage_ns=outage_ns,
        udp_outage_ns=outage_ns,
        tcp_outage_ns=outage_ns,
        lost=40,
        lost_on_return=0,
        diverted=("a1", "b2"),
        both_sides_switched=True,
        applied_ns={},
        verdict_ns=None,
        verdict="leader-dead",
        source_late_ns=2 * MS,
    )
