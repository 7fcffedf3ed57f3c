"""The interface's description says what the types say: a client made from it must fit."""

from __future__ import annotations

import re

import msgspec
import pytest

from meshwatchd.adapters.control.explain import Deed, Explanation
from meshwatchd.adapters.control.incidents import Incident, Step
from meshwatchd.adapters.control.interface import CONTROL, DESCRIPTIONS
from meshwatchd.model.bisection import (
    BisectResult,
    DeviceCounters,
    KnownFlows,
    PeerCounts,
    SeriesCounts,
    Tables,
    TapReport,
)
from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.faults import Verdict
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.node_status import NodeStatus, ReportedFault, SilentPeer
from meshwatchd.model.policy_state import Order
from meshwatchd.model.status import (
    CanaryStatus,
    FindingStatus,
    PairStatus,
    PathStatus,
    RateStatus,
    SessionStatus,
    Status,
)

TYPES: dict[str, type[msgspec.Struct]] = {
    "Session": SessionStatus,
    "Rate": RateStatus,
    "Path": PathStatus,
    "Verdict": Verdict,
    "Pair": PairStatus,
    "Snapshot": Status,
    "Canary": CanaryStatus,
    "Defect": FindingStatus,
    "Explanation": Explanation,
    "Deed": Deed,
    "Step": Step,
    "Incident": Incident,
    "Order": Order,
    "Finding": Finding,
    "Candidate": Candidate,
    "DeviceLayer": DeviceLayer,
    "View": LocalView,
    "Bisection": BisectResult,
    "Series": SeriesCounts,
    "PeerSeries": PeerCounts,
    "KnownFlows": KnownFlows,
    "Tables": Tables,
    "Tap": TapReport,
    "DeviceCounters": DeviceCounters,
    "Size": SizeStatus,
    "Node": NodeStatus,
    "ReportedFault": ReportedFault,
    "SilentPeer": SilentPeer,
}


@pytest.mark.parametrize("name", list(TYPES))
def test_a_described_type_has_the_fields_of_the_type(name):
    """In their order."""
    match = re.search(rf"^type {name} \((.*?)\)$", DESCRIPTIONS[CONTROL], re.DOTALL | re.MULTILINE)
    assert match is not None
    described = re.findall(r"(\w+):", match[1])
    assert [field.name for field in msgspec.structs.fields(TYPES[name])] == described


@pytest.mark.parametrize("name", list(DESCRIPTIONS))
def test_a_description_uses_only_words_of_the_language(name):
    """Types, methods and errors begin with a capital; fields are lower case (varlink.org/Interface-Definition)."""
    text = re.sub(r"#.*", "", DESCRIPTIONS[name])
    assert re.match(rf"\s*interface {re.escape(name)}\n", text)
    known = {"bool", "int", "float", "string", "object", *re.findall(r"^type (\w+)", text, re.MULTILINE)}
    used = set(re.findall(r": (?:\?|\[\]|\[string\])*(\w+)", text))
    assert used <= known
    assert all(
        re.fullmatch(r"[A-Z][A-Za-z0-9]*", word)
        for word in re.findall(r"^(?:type|method|error) (\w+)", text, re.MULTILINE)
    )
