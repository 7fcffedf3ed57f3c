"""The catalogue is complete, and verdicts can be compared."""

from __future__ import annotations

from meshwatchd.model.device_faults import DEVICE_FAULTS
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


def test_the_cure_of_a_node_that_is_cut_off_points_at_its_leader_as_well():
    """A rule there that takes one member's packets alone leaves nothing to be found on that member."""
    fault = CATALOGUE[FaultCode.NODE_UNREACHABLE]

    assert "its leader" in fault.remedy
    assert "filter on its leader" in fault.about


def test_the_same_fault_is_fault_pair_and_culprit():
    """New evidence for the same thing is no news."""
    assert _verdict().is_same_fault(_verdict(because=("x",), severity=Severity.WARNING))
    assert not _verdict().is_same_fault(_verdict(culprit="a1"))
    assert not _verdict().is_same_fault(_verdict(pair=1))
    assert not _verdict().is_same_fault(_verdict(fault=FaultCode.LEADER_DEAD))


def test_what_hides_a_fault_is_another_one_below_it():
    """A fault that hid itself, or two that hid each other, would never be told."""
    for code, fault in CATALOGUE.items():
        assert code not in fault.depends_on
        assert all(code not in CATALOGUE[below].depends_on for below in fault.depends_on)


def test_what_a_look_at_the_kernel_finds_has_to_stand_and_is_explained():
    """Half of a legitimate change is no fault, and codes nobody has met before need more than a title."""
    told_at_once = {FaultCode.WIREGUARD_NO_HANDSHAKE}

    assert all(fault.about for fault in DEVICE_FAULTS)
    assert told_at_once == {fault.code for fault in DEVICE_FAULTS if not fault.confirm_ns}
