"""Which events are shown."""

from __future__ import annotations

import pytest

from meshwatchd.cli.event_filter import Wanted
from tests.support.example_status import INCIDENT

VERDICT, APPLIED = INCIDENT[3], INCIDENT[4]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), 6),
        (Wanted(severity="warning"), 2),
        (Wanted(severity="critical"), 2),
        (Wanted(location="onprem"), 6),
        (Wanted(location="cloud"), 0),
        (Wanted(node="b1"), 1),
        (Wanted(node="b2"), 1),
        (Wanted(node="b3"), 0),
        (Wanted(fault="overlay-new-flows"), 1),
        (Wanted(fault="undetermined"), 3),
        (Wanted(fault="undetermined", node="b1"), 1),
    ],
)
def test_an_event_has_all_that_is_wanted(wanted, expected):
    """Severity where it has one, else its level; a node where it is named, not where it tells; also what was before."""
    assert expected == sum(wanted.is_met(event) for event in INCIDENT)


def test_an_event_without_a_severity_goes_by_its_level():
    """As those of the agent."""
    assert Wanted(severity="critical").is_met({"level": "error"})
    assert not Wanted(severity="warning").is_met({"level": "info"})
    assert Wanted(severity="warning").is_met({"level": "warning"})
