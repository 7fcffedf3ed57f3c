"""Explanations and events as text; whole pages are in tests/golden/cli."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.control.explain import explain
from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.adapters.control.operator_requests import OperateReply
from meshwatchd.cli.render_story import render_event, render_explanations, render_operation
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.node_status import ReportedFault
from tests.support.example_status import HEALTHY, MOVED, NOW_NS, STUCK


def _explained(*statuses):
    explanations = tuple(one for status in statuses for one in explain(status, ()))
    reply = ExplainReply(node="b3", mode="enforce", at_ns=NOW_NS, explanations=explanations)
    return render_explanations(reply, now_ns=NOW_NS, paint=paint_nothing)


def test_the_worst_is_explained_first():
    """A person reads from the top."""
    heads = [line.split()[0] for line in _explained(HEALTHY, MOVED, STUCK).splitlines() if line[:1].isalpha()]
    assert ["CRITICAL", "WARNING", "OK"] == heads


def test_what_is_worse_comes_first_whoever_has_found_it():
    """A canary's silence does not stand above a fault of the kernel that another node reports."""
    far = ReportedFault(
        reported_by=NodeName("b1"),
        location=LocationName("cloud"),
        age_ns=0,
        towards="",
        fault="forwarding-off",
        culprit="b1",
        severity="critical",
    )
    reply = ExplainReply(node="b3", mode="enforce", at_ns=NOW_NS, explanations=explain(MOVED, ()), reported=(far,))
    shown = render_explanations(reply, now_ns=NOW_NS, paint=paint_nothing)

    assert shown.startswith("CRITICAL  b1 reports: the node does not forward packets")
    assert shown.index("b1 reports") < shown.index("WARNING  cloud to onprem")


def test_nothing_to_explain_is_said():
    """An empty page looks like a failure."""
    assert "b3 watches nothing: there is nothing to explain; why: meshwatchctl status\n" == _explained()


def test_no_line_is_wider_than_a_terminal():
    """Sentences are wrapped under themselves."""
    assert all(len(line) <= 112 for line in _explained(MOVED).splitlines())


@pytest.mark.parametrize(
    ("value", "text"), [(True, "yes"), (1.23456, "1.23"), (["a", 1], "[a; 1]"), ("x y", "x y"), (0, "0")]
)
def test_a_field_is_told_plainly(value, text):
    """No quotes, no braces."""
    assert render_event({"event": "a.b", "field": value}, paint_nothing).endswith(f" field={text}")


def test_an_event_shows_no_empty_field():
    """No culprit is not a culprit of no name."""
    assert "culprit" not in render_event({"event": "verdict.changed", "culprit": ""}, paint_nothing)


@pytest.mark.parametrize(
    ("is_accepted", "is_dry_run", "head"),
    [(True, False, "on this node:"), (True, True, "not carried out:"), (False, False, "not carried out:")],
)
def test_commands_that_were_not_run_are_said_not_to_be(is_accepted, is_dry_run, head):
    """A refused failover shows what it would have been."""
    reply = OperateReply(accepted=is_accepted, text="x", operations=("ip rule",))
    assert head in render_operation(reply, is_dry_run=is_dry_run, paint=paint_nothing)
