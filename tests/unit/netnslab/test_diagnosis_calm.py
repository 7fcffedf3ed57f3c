"""What counts as said of a mesh that is well: any verdict that blames, any finding."""

from netnslab.daemons import Event
from netnslab.diagnosis_calm import blames

SECOND = 1_000_000_000


def _event(name, second, **fields):
    return Event(name=name, node="c1", at_ns=second * SECOND, fields=fields)


def test_every_blame_counts_and_nothing_else():
    """The news that all is well is none, and what was said is told in its order, with its reasons."""
    events = [
        _event("fault.raised", 13, fault="fdb-entry-missing", culprit="c1", because=["it is gone"]),
        _event("verdict.changed", 11, fault="local-fault", culprit="c1", because=["deaf"]),
        _event("verdict.changed", 12, fault="none", culprit=""),
        _event("fault.cleared", 14, fault="fdb-entry-missing"),
        _event("clock.stalled", 15),
    ]
    found = blames(events, 10 * SECOND)

    assert [("local-fault", 1.0), ("fdb-entry-missing", 3.0)] == [(each.fault, each.after_s) for each in found]
    assert ["deaf"] == list(found[0].because)
    assert () == blames(events[2:3] + events[4:], 0)
