"""Faults of services are those that `meshwatchctl service` names."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.service_check import ServiceCode
from meshwatchd.model.service_faults import SERVICE_FAULTS


def test_each_is_a_judgement_of_the_command():
    """One word for one thing."""
    assert {fault.code.value for fault in SERVICE_FAULTS} <= {code.value for code in ServiceCode}


def test_each_only_warns():
    """No path is to blame."""
    assert {(Layer.POD, Severity.WARNING)} == {(fault.layer, fault.severity) for fault in SERVICE_FAULTS}
