"""The catalogue is complete, and verdicts can be compared."""

from __future__ import annotations

from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer


def _verdict(**changes):
    fields = {"fault": FaultCode.LOCAL, "layer": Layer.SELF, "severity": Severity.OK, "pair": 0, "culprit": "b1"}
    return Verdict(**{**fields, **changes})


def test_every_fault_is_in_the_catalogue_once():
    """No verdict without a title and a remedy for the operator."""
    assert list(FaultCode) == list(CATALOGUE)
    assert all(code is fault.code and fault.title and fault.remedy for code, fault in CATALOGUE.items())


def test_only_health_is_ok():
    """Every other verdict degrades redundancy or loses packets."""
    assert [FaultCode.NONE] == [code for code, fault in CATALOGUE.items() if fault.severity is Severity.OK]


def test_titles_tell_faults_apart():
    """An operator sees the title only."""
    assert len(CATALOGUE) == len({fault.title for fault in CATALOGUE.values()})


def test_the_same_fault_is_fault_pair_and_culprit():
    """New evidence for the same thing is no news."""
    assert _verdict().is_same_fault(_verdict(because=("x",), severity=Severity.WARNING))
    assert not _verdict().is_same_fault(_verdict(culprit="a1"))
    assert not _verdict().is_same_fault(_verdict(pair=1))
    assert not _verdict().is_same_fault(_verdict(fault=FaultCode.LEADER_DEAD))
