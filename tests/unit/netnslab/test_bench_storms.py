"""What storms cost: which flow belongs where, and what is called well."""

from netnslab.bench_storms import AFTERMATH_NS, Round, conclude, count_lost, is_well
from netnslab.traffic_records import Flow, FlowKind, Outcome
from netnslab.traffic_source import SETTLED_AFTER_NS

SECOND = 1_000_000_000
BEGAN_NS, ENDED_NS, HOME_NS = 100 * SECOND, 105 * SECOND, 120 * SECOND


def _flow(at_ns, outcome=Outcome.LOST):
    return Flow(kind=FlowKind.UDP, start_ns=at_ns, outcome=outcome, source_port=20_000)


def _counted(*flows):
    played = Round(storm=())
    count_lost(flows, played, began_ns=BEGAN_NS, ended_ns=ENDED_NS, home_ns=HOME_NS)
    return played.lost, played.lost_after, played.lost_calm


def test_a_lost_flow_is_counted_where_it_began():
    """In calm, in the storm, on the way home, and in calm again."""
    storm_ends_ns = ENDED_NS + AFTERMATH_NS
    assert (0, 0, 1) == _counted(_flow(BEGAN_NS - SETTLED_AFTER_NS - 1))
    assert (1, 0, 0) == _counted(_flow(BEGAN_NS - SETTLED_AFTER_NS)), "it was under way when the storm began"
    assert (1, 0, 0) == _counted(_flow(storm_ends_ns - 1))
    assert (0, 1, 0) == _counted(_flow(storm_ends_ns))
    assert (0, 1, 0) == _counted(_flow(HOME_NS - 1))
    assert (0, 0, 1) == _counted(_flow(HOME_NS))


def test_what_worked_is_not_lost():
    """Wherever it began; a refused one is as lost as any."""
    assert (0, 0, 0) == _counted(*(_flow(at_ns, Outcome.OK) for at_ns in (0, BEGAN_NS, ENDED_NS, HOME_NS)))
    assert (1, 0, 0) == _counted(_flow(BEGAN_NS, Outcome.REFUSED))


def _run(mode, **changes):
    fields = {"flows": 1000, "lost": 10, "lost_after": 0, "lost_calm": 0, "home_after_s": 9.0, "problem": ""}
    return {
        "mode": mode,
        "orphans": changes.pop("orphans", []),
        "rounds": [{**fields, "moves": {"a1": 2}}, {**fields, "moves": {"b1": 3}, **changes}],
    }


def test_both_modes_are_told_beside_each_other():
    """Of a hundred flows that storms take the daemons saved four fifths."""
    document = conclude([_run("enforce"), _run("observe", lost=90)], 5)
    assert 0.2 == document["summary"]["share_of_lost"]
    assert (2, 2, 20, 3) == tuple(
        document["summary"]["enforce"][key] for key in ("storms", "ended_well", "lost", "most_moves")
    )
    assert is_well(document)


def test_anything_that_daemons_make_worse_tells():
    """A flow lost in calm or on the way home, a round without an end, an orphan, and more lost than without them."""
    good = _run("observe", lost=90)
    assert is_well(conclude([_run("enforce"), good], 5))
    assert is_well(conclude([_run("enforce")], 5)), "one mode alone has nothing to be compared with"
    for spoilt in ({"lost_calm": 1}, {"lost_after": 1}, {"problem": "timed out"}, {"orphans": ["b1"]}, {"lost": 90}):
        assert not is_well(conclude([_run("enforce", **spoilt), good], 5)), spoilt
