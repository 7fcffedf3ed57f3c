from netnslab.daemons import Event
from netnslab.timeline import Tone, success_strip, tell, tell_outage
from netnslab.traffic_records import Flow, FlowKind, Outcome
from netnslab.traffic_report import Outage

MS = 1_000_000


def test_the_same_verdict_of_several_nodes_is_one_entry():
    """The first tells the evidence, the others agree."""
    entries = tell(
        [
            _verdict("a1", 80, "overlay-new-flows"),
            _verdict("b2", 84, "overlay-new-flows"),
            _verdict("b3", 95, "overlay-new-flows"),
        ]
    )

    assert ["verdict: overlay-new-flows at b1"] == [entry.text for entry in entries]
    assert "a1" == entries[0].who
    assert ("because 7 of 8 fresh probes lost", "agreed by b2, b3 within 15 ms") == entries[0].details


def test_a_verdict_that_comes_back_is_told_again():
    """Broken, well, broken: the second time is news."""
    entries = tell(
        [_verdict("a1", 80, "leader-dead"), _verdict("a1", 900, "none"), _verdict("a1", 1_500, "leader-dead")]
    )

    assert ["verdict: leader-dead at b1", "verdict: nothing wrong", "verdict: leader-dead at b1"] == [
        entry.text for entry in entries
    ]
    assert [Tone.BAD, Tone.GOOD, Tone.BAD] == [entry.tone for entry in entries]


def test_the_first_miss_is_told_once_for_each_path():
    """Which node misses first is a matter of phase; that many do is no news."""
    entries = tell([_suspected("b3", 20, 0), _suspected("a1", 22, 0), _suspected("a1", 30, 1)])

    assert [
        "first suspicious miss: relay probe to a3 over path 0; confirm burst",
        "first suspicious miss: relay probe to a3 over path 1; confirm burst",
    ] == [entry.text for entry in entries]


def test_every_node_tells_its_own_switch():
    """Both sides have to move, so each move is a line."""
    entries = tell([_applied(node, at_ms) for node, at_ms in (("b2", 91), ("a1", 90))])

    assert ["a1", "b2"] == [entry.who for entry in entries]
    assert "switches to path 1 (relays a1 and b2)" == entries[0].text
    assert ("rule add 5460 lookup 7701",) == entries[0].details


def test_a_fact_without_the_fields_it_should_have_does_not_spoil_the_story():
    """The time line is the last thing that may fail over a word."""
    entries = tell([Event(name="failover.held", node="a1", at_ns=1)])

    assert ["does nothing: ?"] == [entry.text for entry in entries]


def test_an_unknown_fact_is_left_out():
    """The daemon may learn to say more than the demonstration tells."""
    assert [] == tell([Event(name="session.changed", node="a1", at_ns=1)])


def test_an_outage_is_told_by_its_first_loss_and_by_the_return_of_service():
    """From outside these are the only two instants there are."""
    outage = Outage(
        injected_ns=0,
        duration_ns=90 * MS,
        first_lost_ns=2 * MS,
        last_lost_ns=85 * MS,
        restored_ns=90 * MS,
        lost=31,
        survived=1,
    )
    lost, back = tell_outage(outage, back_over="the standby path")

    assert (2 * MS, "first new flow is lost") == (lost.at_ns, lost.text)
    assert (90 * MS, ("outage 90 ms, 31 flows lost",)) == (back.at_ns, back.details)


def test_an_outage_without_end_has_no_second_entry():
    """Scene one: nobody brings service back."""
    outage = Outage(
        injected_ns=0, duration_ns=None, first_lost_ns=2, last_lost_ns=9, restored_ns=None, lost=3, survived=0
    )

    assert ["first new flow is lost"] == [entry.text for entry in tell_outage(outage, back_over="")]


def test_daemons_that_wait_for_a_processor_are_told_together():
    """One busy moment of the machine is one line, a later one another."""
    stalls = [("b1", 0, 21), ("a2", 90, 33), ("b1", 95, 25), ("b1", 5_000, 22)]
    events = [
        Event(name="clock.stalled", node=node, at_ns=at_ms * MS, fields={"late_ns": late_ms * MS})
        for node, at_ms, late_ms in stalls
    ]

    assert [
        "waited for a processor, as did a2: 33 ms at worst",
        "waited for a processor: 22 ms at worst",
    ] == [entry.text for entry in tell(events)]


def test_the_strip_shows_the_share_of_success_in_equal_parts():
    """Four flows in two of three parts; nothing was started in the last."""
    flows = [_flow(0, True), _flow(5, True), _flow(10, True), _flow(15, False)]

    assert (1.0, 0.5, None) == success_strip(flows, since_ns=0, until_ns=30 * MS, buckets=3)


def _verdict(node, at_ms, fault):
    verdict = {"fault": fault, "culprit": "" if fault == "none" else "b1", "because": ["7 of 8 fresh probes lost"]}
    return Event(name="verdict.changed", node=node, at_ns=at_ms * MS, fields={"verdict": verdict, "previous": ""})


def _suspected(node, at_ms, path):
    fields = {"peer": "a3", "layer": 5, "path": path, "log_likelihood": 3.5}
    return Event(name="session.suspected", node=node, at_ns=at_ms * MS, fields=fields)


def _applied(node, at_ms):
    fields = {
        "pair": 0,
        "from_rank": 0,
        "to_rank": 1,
        "generation": 1,
        "relays": ["a1", "b2"],
        "operations": ["rule add 5460 lookup 7701"],
        "because": [],
    }
    return Event(name="failover.applied", node=node, at_ns=at_ms * MS, fields=fields)


def _flow(at_ms, is_ok):
    return Flow(kind=FlowKind.UDP, start_ns=at_ms * MS, outcome=Outcome.OK if is_ok else Outcome.LOST, source_port=1024)
