from netnslab.traffic_records import (
    Echo,
    Flow,
    FlowKind,
    Outcome,
    Punctuality,
    Records,
    StreamEvent,
    parse,
    render,
)
from netnslab.traffic_report import (
    count_lost,
    injection_instant,
    judge_source,
    judge_stream,
    longest_gap_ns,
    measure_outage,
    percentile,
)

MS = 1_000_000
INJECTED_NS = 10_000 * MS


def test_no_loss_is_an_outage_of_zero():
    """A fault that harms nobody, or that was healed before a flow met it."""
    outage = measure_outage(_flows(9_000, 12_000), INJECTED_NS)

    assert 0 == outage.duration_ns
    assert 0 == outage.lost
    assert outage.first_lost_ns is None


def test_the_outage_runs_from_the_injection_to_the_first_steady_success():
    """Flows every 5 ms; those of 150 ms are lost: the outage is 150 ms, not the 145 between losses."""
    outage = measure_outage(_flows(9_000, 12_000, lost=[(10_000, 10_150)]), INJECTED_NS)

    assert 150 * MS == outage.duration_ns
    assert 10_000 * MS == outage.first_lost_ns
    assert 10_145 * MS == outage.last_lost_ns
    assert 30 == outage.lost


def test_a_lucky_flow_in_the_middle_does_not_end_the_outage():
    """One flow rides on remembered state; the next is lost again."""
    outage = measure_outage(_flows(9_000, 12_000, lost=[(10_000, 10_100), (10_105, 10_200)]), INJECTED_NS)

    assert 200 * MS == outage.duration_ns
    assert 1 == outage.survived


def test_a_relapse_within_the_steady_second_prolongs_the_outage():
    """Half a second of service between two holes is one outage."""
    outage = measure_outage(_flows(9_000, 13_000, lost=[(10_000, 10_100), (10_600, 10_700)]), INJECTED_NS)

    assert 700 * MS == outage.duration_ns


def test_a_second_outage_after_a_steady_second_is_another_one():
    """The first outage ends where service was good for a whole second."""
    outage = measure_outage(_flows(9_000, 14_000, lost=[(10_000, 10_100), (12_000, 12_100)]), INJECTED_NS)

    assert 100 * MS == outage.duration_ns
    assert 20 == outage.lost


def test_without_a_steady_second_before_the_end_there_is_no_duration():
    """Service came back half a second before the records end: too early to say."""
    outage = measure_outage(_flows(9_000, 10_600, lost=[(10_000, 10_100)]), INJECTED_NS)

    assert outage.duration_ns is None
    assert outage.restored_ns is None


def test_flows_after_the_period_are_not_looked_at():
    """The fault is healed at 11.5 s; that service returns then is no merit of a failover."""
    flows = _flows(9_000, 14_000, lost=[(10_000, 11_500)])

    assert measure_outage(flows, INJECTED_NS, until_ns=11_500 * MS).duration_ns is None
    assert 1_500 * MS == measure_outage(flows, INJECTED_NS).duration_ns


def test_a_flow_in_flight_at_the_injection_counts_as_lost_but_not_as_start_of_the_outage():
    """Its packet was in the air when the fault came."""
    outage = measure_outage(_flows(9_000, 12_000, lost=[(9_995, 10_100)]), INJECTED_NS)

    assert 21 == outage.lost
    assert 10_000 * MS == outage.first_lost_ns


def test_an_old_loss_is_not_blamed_on_the_fault():
    """A loss a second before the injection has another cause."""
    outage = measure_outage(_flows(8_000, 12_000, lost=[(8_500, 8_600)]), INJECTED_NS)

    assert 0 == outage.lost


def test_the_order_of_the_records_does_not_matter():
    """Two sources are put together by appending one to the other."""
    flows = _flows(9_000, 12_000, lost=[(10_000, 10_150)])

    assert measure_outage(flows, INJECTED_NS) == measure_outage(flows[::-1], INJECTED_NS)


def test_the_first_loss_during_the_injecting_command_dates_the_fault():
    """The command ran for 20 ms; the first loss came 10 ms into it."""
    flows = _flows(9_000, 12_000, lost=[(10_010, 10_150)])

    assert 10_010 * MS == injection_instant(flows, before_ns=10_000 * MS, after_ns=10_020 * MS)


def test_without_a_loss_during_the_command_its_end_dates_the_fault():
    """What happened before the command began has another cause."""
    flows = _flows(9_000, 12_000, lost=[(9_990, 10_000)])

    assert 10_020 * MS == injection_instant(flows, before_ns=10_000 * MS, after_ns=10_020 * MS)


def test_losses_are_counted_in_a_half_open_period():
    """A loss at the end of one period belongs to the next."""
    flows = _flows(9_000, 12_000, lost=[(10_000, 10_010)])

    assert 2 == count_lost(flows, since_ns=10_000 * MS, until_ns=10_010 * MS)
    assert 0 == count_lost(flows, since_ns=10_010 * MS, until_ns=12_000 * MS)


def test_the_longest_gap_reaches_to_the_ends_of_the_period():
    """Nothing succeeded in the last second: the gap is that second."""
    flows = _flows(9_000, 12_000, lost=[(11_000, 12_000)])

    assert 1_005 * MS == longest_gap_ns(flows, since_ns=9_000 * MS, until_ns=12_000 * MS)


def test_a_stream_that_was_answered_in_order_survived():
    """Echoes every 10 ms with one stall of 240 ms, after which the missing ones arrive together."""
    arrivals = [1_000, 1_010, 1_250, 1_250, 1_250, 1_260]
    report = judge_stream(_stream(arrivals, "finished", ended_ms=1_265))

    assert report.survived
    assert 240 * MS == report.longest_stall_ns
    assert 1_010 * MS == report.stalled_at_ns


def test_silence_up_to_the_end_is_a_stall():
    """The connection was not reset, but the last echo is two seconds old."""
    report = judge_stream(_stream([1_000, 1_010], "finished", ended_ms=3_010))

    assert 2_000 * MS == report.longest_stall_ns


def test_a_reset_stream_did_not_survive_and_says_why():
    """The kernel gave up, or somebody sent RST."""
    report = judge_stream(_stream([1_000, 1_010], "reset", ended_ms=1_300))

    assert not report.survived
    assert "ETIMEDOUT" == report.reason


def test_a_stream_that_never_was_did_not_survive():
    """No handshake, no survival."""
    assert not judge_stream(Records()).survived


def test_the_worst_window_speaks_for_the_source():
    """A stall of one second must not drown in the punctual seconds around it."""
    health = judge_source([_window(p99_ms=1), _window(p99_ms=90), _window(p99_ms=2)])

    assert 90 * MS == health.lateness_p99_ns
    assert 0.05 == health.cpu_ratio


def test_percentiles_are_values_that_were_measured():
    """Nearest rank: of 20 values p50 is the tenth and p99 the largest."""
    values = list(range(1, 21))

    assert 10 == percentile(values, 50)
    assert 20 == percentile(values, 99)
    assert 1 == percentile(values, 0)
    assert percentile([], 50) is None


def test_records_survive_the_way_through_text():
    """What the source renders is what the report parses."""
    written = [
        Flow(
            kind=FlowKind.TCP,
            start_ns=7,
            outcome=Outcome.OK,
            source_port=1024,
            rtt_ns=900,
            connect_ns=400,
            retransmits=1,
        ),
        Flow(kind=FlowKind.UDP, start_ns=5, outcome=Outcome.REFUSED, source_port=1025, reason="ECONNREFUSED"),
        Echo(sequence=0, sent_ns=6, rtt_ns=80),
        StreamEvent(event="reset", at_ns=90, sent=3, reason="ETIMEDOUT"),
        _window(p99_ms=3),
    ]
    records = parse(render(record) + "\n" for record in written)

    assert (written[1], written[0]) == records.flows
    assert (written[2],) == records.echoes
    assert (written[3],) == records.stream
    assert (written[4],) == records.punctuality


def test_a_line_that_is_still_being_written_is_left_for_later():
    """The reader may look while the source flushes."""
    line = render(Echo(sequence=0, sent_ns=6, rtt_ns=80))

    assert 1 == len(parse([line + "\n", line[:10]]).echoes)


def _flows(since_ms, until_ms, *, lost=()):
    """A flow every 5 ms, UDP and TCP in turn; those that start within a period of `lost` are lost."""
    return [
        Flow(
            kind=FlowKind.UDP if at_ms % 10 == 0 else FlowKind.TCP,
            start_ns=at_ms * MS,
            outcome=Outcome.LOST if any(begin <= at_ms < end for begin, end in lost) else Outcome.OK,
            source_port=1024,
        )
        for at_ms in range(since_ms, until_ms, 5)
    ]


def _stream(arrivals_ms, event, *, ended_ms):
    return Records(
        echoes=tuple(
            Echo(sequence=number, sent_ns=at_ms * MS - MS, rtt_ns=MS) for number, at_ms in enumerate(arrivals_ms)
        ),
        stream=(
            StreamEvent(event="connected", at_ns=(arrivals_ms[0] - 1) * MS, sent=0),
            StreamEvent(
                event=event,
                at_ns=ended_ms * MS,
                sent=len(arrivals_ms),
                reason="ETIMEDOUT" if event == "reset" else "",
            ),
        ),
    )


def _window(*, p99_ms):
    return Punctuality(
        at_ns=0,
        window_ns=1_000 * MS,
        started=200,
        skipped=0,
        lateness_p50_ns=MS,
        lateness_p99_ns=p99_ms * MS,
        lateness_max_ns=p99_ms * MS,
        cpu_ns=50 * MS,
    )
