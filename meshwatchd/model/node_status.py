"""A node of the mesh as another one knows it: where it is, what runs there, and when it was last heard."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.units import SECOND

FRESH_NS = 95 * SECOND
"""A node with an older report has missed three hellos in a row: how it fares is not known (cadence.SILENT_NS)."""


class ReportedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that a node has made itself and advertises.

    Attributes:
        reported_by: that node.
        age_ns: of its report.
        towards: the location whose traffic suffers; empty for what the node found in its own kernel.
        severity: by the catalogue, or "warning" for a code that this version does not know; never worse than how that
            node says it fares.
        peer: the node whose entry it is, or at the other end; empty where it is of no single one.
    """

    reported_by: NodeName
    location: LocationName
    age_ns: int
    towards: str
    fault: str
    culprit: str
    severity: str
    peer: str = ""


class SilentPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that does not answer a node, and the lowest layer on which it does not."""

    peer: str
    layer: str


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node; what is not known of it is empty.

    Attributes:
        role: "leader", "standby" or "member".
        version: of meshwatchd there.
        mode: `settings.Mode` there.
        heard_ago_ns: age of its last hello, 0 for the node that answers; None where none was ever received.
        fresh_ns: up to which age its hello and its report are of the present; longer in a location of many nodes.
        severity: how the node itself says it fares; empty where it watches nothing, or has not said.
        report_age_ns: of what it said last; None where it has said nothing.
        is_cut: it has said less than there is.
    """

    name: NodeName
    location: LocationName = LocationName("")
    role: str = ""
    version: str = ""
    mode: str = ""
    node_ip: str = ""
    pod_cidr: str = ""
    overlay_ip: str = ""
    wireguard_ip: str = ""
    heard_ago_ns: int | None = None
    fresh_ns: int = FRESH_NS
    severity: str = ""
    report_age_ns: int | None = None
    is_cut: bool = False
    faults: tuple[ReportedFault, ...] = ()
    silent: tuple[SilentPeer, ...] = ()

    @property
    def is_report_fresh(self) -> bool:
        """Whether what the node has said last is of the present."""
        return self.report_age_ns is not None and self.report_age_ns <= self.fresh_ns
