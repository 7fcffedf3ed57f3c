"""A node that has lost its entries of all its neighbours knows why its overlay reaches nobody."""

from __future__ import annotations

import pytest

from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.events import Banner, FindingsReported
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import VerdictChanged
from meshwatchd.model.settings import SECOND
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import settings_for

NOW = 50 * SECOND


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def _book(node, *findings):
    book = FindingBook(settings_for(node), node)
    list(book.report(findings, NOW))
    return book


def _entry(peer, code=FaultCode.NEIGHBOUR_MISSING, culprit="b3"):
    return AuditFinding(code=code, device="flannel.1", subject=f"gateway of {peer}", peer=peer, culprit=culprit)


@pytest.mark.parametrize(
    ("findings", "is_cause"),
    [
        ((_entry("b1"), _entry("b2")), True),
        ((_entry("b1"), _entry("b2", FaultCode.FDB_ENTRY_MISSING)), True),
        ((_entry("b1"),), False),
        # b2's own fault, and one that loses nothing.
        ((_entry("b1"), _entry("b2", FaultCode.VTEP_MAC_CHANGED, "b2")), False),
        ((_entry("b1"), _entry("b2", FaultCode.MTU_MISCONFIGURED)), False),
    ],
)
@pytest.mark.parametrize("culprit", ["b3", "a1"])
def test_entries_of_all_neighbours_are_why_the_own_overlay_is_dead(findings, is_cause, culprit):
    """The kernel flushes them together; one alone loses one neighbour, and the overlay of others is theirs."""
    book = _book("b3", *findings)
    book.neighbours = frozenset(("b1", "b2"))
    named = book.explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, culprit))

    expected = FaultCode.NEIGHBOUR_MISSING if is_cause and culprit == "b3" else FaultCode.OVERLAY_BLACK_HOLE
    assert (expected, culprit) == (named.fault, named.culprit)


def test_without_neighbours_no_entry_is_why_the_own_overlay_is_dead():
    """An entry of a node of another location is not the whole overlay."""
    named = _book("b3", _entry("a1")).explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b3"))
    assert FaultCode.OVERLAY_BLACK_HOLE is named.fault


def test_entries_that_are_put_back_one_after_the_other_explain_until_probes_have_noticed():
    """The first that is back does not make the other a fault of one neighbour alone."""
    book = _book("b3", _entry("b1"), _entry("b2"))
    book.neighbours = frozenset(("b1", "b2"))
    list(book.report((_entry("b2"),), NOW + SECOND))
    assert FaultCode.NEIGHBOUR_MISSING is book.explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b3")).fault


def test_a_member_whose_neighbours_were_flushed_says_so():
    """Its engine knows its neighbours by its mesh, and blames its own overlay by probes alone."""
    bench: Bench = ready("b3")
    up, known = encode({(int(bench.controller.watch.index), View.MEMBERS_OVERLAY): Leg.ALIVE})
    bench.banners["b1"] = Banner(view_up=up, view_known=known, active=(bench.controller.active,))
    bench.silent = lambda plan: plan.layer in (Layer.OVERLAY, Layer.RELAY, Layer.EFFECTIVE)
    bench.engine.handle(FindingsReported(findings=(_entry("b1"), _entry("b2"))), bench.now)
    bench.run(12 * SECOND)
    (pair,) = bench.engine.status(bench.now, {}).pairs

    assert (FaultCode.NEIGHBOUR_MISSING, "b3") == (pair.verdict.fault, pair.verdict.culprit)
    assert any(FaultCode.OVERLAY_BLACK_HOLE in sentence for sentence in pair.verdict.because)
    assert FaultCode.OVERLAY_BLACK_HOLE not in {each.verdict.fault for each in bench.said(VerdictChanged)}
