"""Findings and the catalogue as a person reads them."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.cli.render import render_status
from meshwatchd.cli.render_findings import explain_code
from meshwatchd.cli.render_story import render_explanations
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity
from meshwatchd.model.status import FindingStatus
from tests.support.example_status import HEALTHY, NOW_NS

FDB = FindingStatus(
    fault=FaultCode.FDB_ENTRY_MISSING,
    layer=CATALOGUE[FaultCode.FDB_ENTRY_MISSING].layer,
    severity=Severity.CRITICAL,
    device="flannel.1",
    subject="22:aa:aa:aa:00:01",
    peer="b2",
    culprit="b3",
    since_ns=NOW_NS - 5_000_000_000,
    because=("flannel.1 has no entry of 22:aa:aa:aa:00:01", "b2 is at 10.2.0.12"),
    repair="advised",
    commands=("bridge fdb replace 22:aa:aa:aa:00:01 dev flannel.1 dst 10.2.0.12 self permanent",),
)
SICK = msgspec.structs.replace(HEALTHY, severity=Severity.CRITICAL, findings=(FDB,))


def test_the_status_begins_with_what_is_wrong_here():
    """One line for the summary, one for the table."""
    shown = render_status(SICK, now_ns=NOW_NS, paint=paint_nothing)

    assert f"CRITICAL  on this node: {CATALOGUE[FDB.fault].title} [at b3, flannel.1, {FDB.subject}]" in shown
    assert "fdb-entry-missing" in shown.split("FAULT")[1]
    assert "meshwatchctl explain" in shown


def test_an_explanation_has_evidence_remedy_and_commands():
    """Ready to be copied."""
    reply = ExplainReply(node="b3", mode="observe", at_ns=NOW_NS, explanations=(), findings=(FDB,))
    told = render_explanations(reply, now_ns=NOW_NS, paint=paint_nothing)

    for sentence in (*FDB.because, *FDB.commands, CATALOGUE[FDB.fault].remedy, "to do it by hand"):
        assert sentence in told


def test_a_long_key_is_shortened_in_tables():
    """Its beginning is enough to find it."""
    key = msgspec.structs.replace(FDB, subject="aGVsbG8gd29ybGQgdGhpcyBpcyBhIGtleQ==")

    assert "aGVsbG8g..." in render_status(
        msgspec.structs.replace(SICK, findings=(key,)), now_ns=NOW_NS, paint=paint_nothing
    )


@pytest.mark.parametrize("code", list(FaultCode))
def test_every_code_can_be_explained(code):
    """With its remedy, whether or not it has ever happened here."""
    told = explain_code(code)

    assert told.startswith(f"{code.value}: {CATALOGUE[code].title}")
    assert CATALOGUE[code].remedy.split()[0] in told
    assert all(len(line) <= 110 for line in told.splitlines()[1:])
