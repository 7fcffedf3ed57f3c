"""What the nodes of the two-location mesh report while b1 loses new flows, as b3 knows it; a2 is silent."""

from __future__ import annotations

import msgspec

from meshwatchd.core.membership.node_list import add_reports
from meshwatchd.model.ids import Layer
from meshwatchd.model.node_report import AdvertisedSilence, AdvertisedVerdict, NodeReport
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import SECOND
from tests.support.example_nodes import NODES

_NEW_FLOWS = AdvertisedVerdict("onprem", "overlay-new-flows", "b1")
_MISSED = (AdvertisedSilence("b1", int(Layer.OVERLAY)),)

REPORTS = {
    "b1": (NodeReport(severity="critical", verdicts=(AdvertisedVerdict("", "forwarding-off", "b1"),)), 2 * SECOND),
    "b2": (NodeReport(severity="warning", verdicts=(_NEW_FLOWS,), silences=_MISSED), 4 * SECOND),
    "b3": (NodeReport(severity="warning", verdicts=(_NEW_FLOWS,), silences=_MISSED), 0),
    "a1": (NodeReport(severity="ok"), 31 * SECOND),
    "a2": (NodeReport(severity="ok"), 900 * SECOND),
    "a3": (NodeReport(severity="ok"), 12 * SECOND),
}


def reporting(nodes: tuple[NodeStatus, ...] = NODES) -> tuple[NodeStatus, ...]:
    """The nodes with their reports."""
    return add_reports(nodes, lambda name: REPORTS.get(name, (None, None)))


def healthy() -> tuple[NodeStatus, ...]:
    """All of them well."""
    return add_reports(NODES, lambda _: (NodeReport(severity="ok"), 5 * SECOND))


def many(count: int) -> tuple[NodeStatus, ...]:
    """A mesh that is too large to be drawn, with one node that is not well."""
    (first, *_) = reporting()
    (well, *_) = healthy()
    return (first, *(msgspec.structs.replace(well, name=f"n{number:04}") for number in range(count - 1)))
