"""Every node that is known, by its place in the mesh or by its hello, with what it reports and how old that is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from meshwatchd.core.membership.cadence import SILENT_NS
from meshwatchd.core.membership.presence import Crowds
from meshwatchd.core.membership.roster import Heard
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import BETWEEN_NODES, Severity, find_fault, weight
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.node_report import NodeReport
from meshwatchd.model.node_status import NodeStatus, ReportedFault, SilentPeer
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.status import Status

MAX_REPORTED = 16
"""Faults of others in a status; `meshwatchctl matrix` has all of them."""


def list_nodes(
    mesh: MeshSettings | None, own: Hello | None, peers: Mapping[NodeName, Heard], now: int
) -> tuple[NodeStatus, ...]:
    """The nodes by location and name.

    Args:
        mesh: in force, None while there is none; nodes of it may never have been heard.
        own: what this node advertises; None while it cannot, or where nothing is exchanged.
        peers: the last hello of each other node.
        now: monotonic nanoseconds.
    """
    hellos = {name: (heard.hello, max(0, now - heard.at_ns)) for name, heard in peers.items()}
    if own is not None:
        hellos[own.view.node] = own, 0
    crowds = Crowds(hello for hello, _ in hellos.values())
    homes = {node.name: node.location for node in mesh.node} if mesh is not None else {}
    declared = {node.name: node for node in mesh.node} if mesh is not None else {}
    found = []
    for name in {**dict.fromkeys(homes), **dict.fromkeys(hellos)}:
        hello, age_ns = hellos.get(name, (None, None))
        node = declared.get(name)
        home = homes.get(name) or (hello.home if hello is not None else LocationName(""))
        place = node or (hello.view if hello is not None else None)
        found.append(
            NodeStatus(
                name=name,
                location=home,
                role=_role(mesh, name),
                version=hello.version if hello is not None else "",
                mode=hello.mode if hello is not None else "",
                node_ip=place.node_ip if place is not None else "",
                pod_cidr=place.pod_cidr if place is not None else "",
                overlay_ip=place.overlay_ip if place is not None else "",
                wireguard_ip=(place.wireguard_ip or "") if place is not None else "",
                heard_ago_ns=age_ns,
                fresh_ns=SILENT_NS if own is None else crowds.cadence(home, own.home).patience_ns,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.location, each.name)))


def _role(mesh: MeshSettings | None, name: NodeName) -> str:
    for location in mesh.location if mesh is not None else ():
        if name == location.leader:
            return "leader"
        if name in location.standbys:
            return "standby"
    return "member"


def add_reports(
    nodes: Iterable[NodeStatus], find: Callable[[str], tuple[NodeReport | None, int | None]]
) -> tuple[NodeStatus, ...]:
    """The nodes with what each reports."""
    return tuple(_with_report(node, *find(node.name)) for node in nodes)


def _with_report(node: NodeStatus, report: NodeReport | None, age_ns: int | None) -> NodeStatus:
    if report is None or age_ns is None:
        return node
    return msgspec.structs.replace(
        node,
        severity=report.severity,
        report_age_ns=age_ns,
        is_cut=report.is_cut,
        faults=tuple(_faults(node, report, age_ns)),
        silent=tuple(SilentPeer(peer=each.peer, layer=Layer(each.layer).name.lower()) for each in report.silences),
    )


def _faults(node: NodeStatus, report: NodeReport, age_ns: int) -> Iterator[ReportedFault]:
    for each in report.verdicts:
        yield ReportedFault(
            reported_by=node.name,
            location=node.location,
            age_ns=age_ns,
            towards=each.towards,
            fault=each.fault,
            culprit=each.culprit,
            severity=_severity(each.fault, report.severity),
            peer=each.peer,
        )


def _severity(fault: str, severity: str) -> str:
    """By the catalogue, but where traffic goes another way the node that says so is no worse than degraded."""
    known = find_fault(fault)
    return (Severity.WARNING if known is None or severity == Severity.WARNING.value else known.severity).value


def collect_faults(nodes: Collection[NodeStatus], status: Status) -> tuple[ReportedFault, ...]:
    """What other nodes report, each fault once, by whoever has it or else by the latest report; the worst first."""
    own = {(pair.verdict.fault.value, pair.verdict.culprit) for pair in status.pairs}
    own |= {(finding.fault.value, finding.culprit) for finding in status.findings}
    between = {pair.verdict.fault.value for pair in status.pairs} & BETWEEN_NODES
    every = [
        each
        for other in nodes
        if other.name != status.node
        for each in other.faults
        if each.age_ns <= other.fresh_ns
        and (each.fault, each.culprit) not in own
        and (each.fault not in between or each.towards != status.location)
    ]
    home = next((other.location for other in nodes if other.name == status.node), "")
    best: dict[tuple[str, str], ReportedFault] = {}
    for each in sorted(every, key=lambda each: (each.reported_by != each.culprit, each.age_ns)):
        best.setdefault((each.fault, each.culprit), each)
    ranked = sorted(best.values(), key=lambda each: (-weight(each.severity), each.location != home))
    return tuple(ranked[:MAX_REPORTED])


def remark_versions(nodes: Collection[NodeStatus], node: str) -> tuple[str, ...]:
    """One sentence for each other version of the daemon that runs on nodes which were heard lately."""
    own = next((each.version for each in nodes if each.name == node), "")
    others: dict[str, list[str]] = {}
    for each in nodes:
        if each.version not in ("", own) and each.heard_ago_ns is not None and each.heard_ago_ns <= each.fresh_ns:
            others.setdefault(each.version, []).append(each.name)
    return tuple(
        f"{', '.join(names)} {'runs' if len(names) == 1 else 'run'} meshwatchd {version}, this node {own}:"
        " what they report may be less (remedy: install one version on all nodes)"
        for version, names in sorted(others.items())
        if own
    )
