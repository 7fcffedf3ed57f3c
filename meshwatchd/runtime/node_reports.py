"""The latest report of every node, and when this node's own is worth a hello before its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from meshwatchd.core.membership.node_list import add_reports
from meshwatchd.core.membership.validation import is_report
from meshwatchd.core.operators.node_report import make_report
from meshwatchd.model.node_report import NodeReport
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import SECOND
from meshwatchd.model.status import Status

HURRY_GAP_NS: Final = 20 * SECOND
"""Verdicts may change several times a second, and a thousand nodes are told at 200 hellos a second."""


class NodeReports:
    """Reports of all nodes by name."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[NodeReport, int]] = {}
        self._status: Status | None = None
        self._own: NodeReport | None = None
        self._advertised: object = None
        self._next_ns = 0

    def note(self, status: Status, now: int) -> bool:
        """Take this node's status; returns whether its news should be advertised at once."""
        self._status, self._own = status, None
        gist = status.severity, *((pair.pair, pair.verdict.fault, pair.verdict.culprit) for pair in status.pairs)
        gist += tuple((finding.fault, finding.culprit) for finding in status.findings)
        if gist == self._advertised or now < self._next_ns:
            return False
        is_first, self._advertised = self._advertised is None, gist
        if not is_first:
            self._next_ns = now + HURRY_GAP_NS
        return not is_first

    def own(self) -> NodeReport | None:
        """This node's report; None before its first status."""
        if self._own is None and self._status is not None:
            self._own = make_report(self._status)
        return self._own

    def hear(self, name: str, report: NodeReport | None, now: int) -> None:
        """Keep what a node of the mesh advertises; what makes no sense is no report."""
        if report is not None and is_report(report):
            self._heard[name] = report, now

    def hear_of(self, name: str, at_ns: int) -> None:
        """A node lives, by the word of another, and what it has said last holds: what changes is said at once."""
        report, told_ns = self._heard.get(name, (None, 0))
        if report is not None:
            self._heard[name] = report, max(told_ns, at_ns)

    def add_to(self, nodes: Sequence[NodeStatus], node: str, now: int) -> tuple[NodeStatus, ...]:
        """The nodes with what they report, and how old that is; whoever is not among them is forgotten."""
        names = {each.name for each in nodes}
        self._heard = {name: heard for name, heard in self._heard.items() if name in names}
        return add_reports(nodes, lambda name: self._find(name, node, now))

    def _find(self, name: str, node: str, now: int) -> tuple[NodeReport | None, int | None]:
        if name == node:
            return self.own(), 0
        report, at_ns = self._heard.get(name, (None, 0))
        return report, None if report is None else max(0, now - at_ns)
