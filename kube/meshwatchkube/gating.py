"""Nodes whose overlay is broken: conditions as node-problem-detector sets them, then a taint or a cordon.

    nodes name one, or it names itself   -> MeshDegraded, OverlayUnavailable and an Event
    for `taint_after`                    -> tainted, if few enough are
    nobody names it for `untaint_after`  -> conditions False, no taint

A taint moves no pod that runs. Where many nodes are named at once the fault is nearly always somewhere else, and with
all of them tainted pods would have no place: hence two limits, of the taints of all locations and of those of one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meshwatchd.model.fault_codes import FaultCode
from meshwatchd.model.faults import CATALOGUE
from meshwatchd.model.ids import Layer
from meshwatchkube.actions import Action, SetConditions, SetCordon, SetTaint, Tell
from meshwatchkube.cluster import (
    CONDITIONS,
    CORDON_ANNOTATION,
    DEGRADED,
    OVERLAY_UNAVAILABLE,
    TAINT_KEY,
    Cluster,
    Condition,
    Node,
    Taint,
)
from meshwatchkube.mesh import SILENT, Mesh, Report
from meshwatchkube.settings import GatingSettings, Mode
from meshwatchkube.standing import Standing

OVERLAY_LAYERS = frozenset({Layer.WIREGUARD, Layer.IPIP, Layer.OVERLAY, Layer.RELAY})
WELL = "MeshHealthy"
UNWATCHED = "MeshGatingOff"
"""The reason of a condition that is taken back with the mode: whether the node is well is not known."""

Gated = SetConditions | SetTaint | SetCordon | Tell
"""What is decided here, each of one node."""


class Gating:
    """Conditions, taints and cordons, decided at each look.

    Args:
        settings: of the section.
        report_age_ns: what is older than this counts as not reported.
    """

    def __init__(self, settings: GatingSettings, report_age_ns: int) -> None:
        self._settings = settings
        self._report_age_ns = report_age_ns
        self._broken, self._well, self._unnamed = Standing(), Standing(), Standing()
        self._tried: frozenset[tuple[type, str]] = frozenset()

    def forget(self) -> None:
        """Begin all waits anew."""
        for each in (self._broken, self._well, self._unnamed):
            each.forget()

    def decide(self, mesh: Mesh, cluster: Cluster, *, now: int) -> Iterator[Action]:
        """What the holder of the Lease writes; what changes nothing is asked for once as long as it is wanted.

        Off and in a dry run it takes back what an earlier mode has set, for real: nobody else does so later.
        """
        if self._settings.mode is not Mode.ENFORCE:
            for _, node in sorted(cluster.nodes.items()):
                yield from self._take_back(node)
            if self._settings.mode is Mode.OFF:
                return
            # A dry run decides on what is left: it would ask to take the same things back, without effect.
            left = {name: node for name, node in cluster.nodes.items() if not _is_marked(node)}
            cluster = replace(cluster, nodes=left)
        actions = [(type(each), each.node, each) for each in self._decide(mesh, cluster, now)]
        before, self._tried = self._tried, frozenset((kind, node) for kind, node, _ in actions)
        yield from (each for kind, node, each in actions if not (self._is_dry and (kind, node) in before))

    def _take_back(self, node: Node) -> Iterator[Gated]:
        """All that is ours of a node, whatever is reported of it."""
        text = f'gating.mode is "{self._settings.mode}"'
        ours = (kind for kind in CONDITIONS if node.condition(kind).status == "True")
        conditions = tuple(Condition(type=kind, status="False", reason=UNWATCHED, message=text) for kind in ours)
        if conditions:
            yield SetConditions(node=node.name, conditions=conditions)
        yield from self._release(node, is_dry=False)

    def _decide(self, mesh: Mesh, cluster: Cluster, now: int) -> Iterator[Gated]:
        reports = self._reports(mesh, cluster)
        named = self._by_enough(reports)
        broken = {name: said[0] for name, said in self._by_enough(filter(is_overlay_fault, reports)).items()}
        self._broken.note(broken, now)
        self._well.note(cluster.nodes.keys() - broken.keys(), now)
        self._unnamed.note(cluster.nodes.keys() - named.keys(), now)
        for name, node in sorted(cluster.nodes.items()):
            is_long_well, is_long_unnamed = (
                standing.has_lasted(name, self._settings.untaint_after, now) for standing in (self._well, self._unnamed)
            )
            degraded = _condition(DEGRADED, next(iter(named.get(name, ())), None))
            unavailable = _condition(OVERLAY_UNAVAILABLE, broken.get(name))
            yield from self._conditions(node, (degraded, is_long_unnamed), (unavailable, is_long_well))
            if is_long_well and (node.is_tainted or node.is_cordoned_here):
                yield from self._release(node, is_dry=self._is_dry)
            elif node.is_uncordoned and not self._is_dry:
                # By a person. With our annotation on it their next cordon would be taken for ours.
                yield SetCordon(node=name, version=node.metadata.resource_version, is_cordoned=False)
        room = self._room(mesh, cluster)
        for name, report in sorted(broken.items()):
            node, location = cluster.nodes[name], mesh.members[name].location
            is_due = self._broken.has_lasted(name, self._settings.taint_after, now)
            if is_due and not self._has_no_pods(node) and room[location] > 0 and room[""] > 0:
                room[location] -= 1
                room[""] -= 1
                yield from self._gate(node, report)

    def _reports(self, mesh: Mesh, cluster: Cluster) -> Sequence[Report]:
        """What is reported of nodes of the mesh that are in the cluster.

        A node whose own overlay is broken finds its neighbours silent: where as many find itself silent as find the
        other one, its word on that one counts for nothing.
        """
        fresh = tuple(mesh.fresh(self._report_age_ns))
        finders = Counter(each.culprit for each in fresh if each.fault == SILENT)
        return [
            each
            for each in fresh
            if each.culprit in cluster.nodes
            and each.culprit in mesh.members
            and (each.fault != SILENT or finders[each.culprit] > finders[each.reporter])
        ]

    def _by_enough(self, reports: Iterable[Report]) -> Mapping[str, Sequence[Report]]:
        """The reports by the node that is named, of those nodes that enough others name, or that name themselves."""
        found: dict[str, list[Report]] = defaultdict(list)
        for report in reports:
            found[report.culprit].append(report)
        return {
            name: said
            for name, said in found.items()
            if len({each.reporter for each in said}) >= self._settings.reporters
            or any(each.reporter == name for each in said)
        }

    def _conditions(self, node: Node, *wanted: tuple[Condition, bool]) -> Iterator[Gated]:
        """Conditions come at once and go when they have been unfounded for long; what stays costs no request."""
        changed = tuple(
            new
            for new, is_long_over in wanted
            if new.status != node.condition(new.type).status and (new.status == "True" or is_long_over)
        )
        if not changed:
            return
        yield SetConditions(node=node.name, conditions=changed, is_dry=self._is_dry)
        told = {(each.reason, each.message, each.status == "True"): None for each in changed}
        for reason, message, is_bad in told if not self._is_dry else ():
            yield Tell(node=node.name, reason=reason, message=message, is_warning=is_bad)

    def _has_no_pods(self, node: Node) -> bool:
        """Whether new pods are kept off a node already; a cordon of somebody else's is not made ours."""
        return _is_gated(node) or (self._settings.cordon and node.spec.unschedulable)

    def _gate(self, node: Node, report: Report) -> Iterator[Gated]:
        version = node.metadata.resource_version
        if self._settings.cordon:
            yield SetCordon(node=node.name, version=version, is_cordoned=True, fault=report.fault, is_dry=self._is_dry)
        else:
            ours = Taint(key=TAINT_KEY, effect=self._settings.effect, value=report.fault)
            yield SetTaint(node=node.name, version=version, taints=(*node.taints, ours), is_dry=self._is_dry)

    def _release(self, node: Node, *, is_dry: bool) -> Iterator[Gated]:
        """The taint, or else the cordon, in the version of the Node that was seen; one that is left follows."""
        version = node.metadata.resource_version
        if node.is_tainted:
            others = tuple(taint for taint in node.taints if taint.key != TAINT_KEY)
            yield SetTaint(node=node.name, version=version, taints=others, is_dry=is_dry)
        elif CORDON_ANNOTATION in node.annotations:
            yield SetCordon(node=node.name, version=version, is_cordoned=False, is_dry=is_dry)

    def _room(self, mesh: Mesh, cluster: Cluster) -> dict[str, int]:
        """How many more nodes may be tainted, by location; of all locations together under the empty name."""
        members: dict[str, list[Node]] = defaultdict(list)
        for name, member in mesh.members.items():
            if name in cluster.nodes:
                members[member.location].append(cluster.nodes[name])
        room = {
            location: len(nodes) // self._settings.max_share - sum(map(_is_gated, nodes))
            for location, nodes in members.items()
        }
        return {**room, "": self._settings.max_tainted - sum(map(_is_gated, cluster.nodes.values()))}

    @property
    def _is_dry(self) -> bool:
        return self._settings.mode is Mode.DRY_RUN


def is_overlay_fault(report: Report) -> bool:
    """Whether pods on the node that is named can reach nobody else, or nobody elsewhere."""
    if report.fault in (FaultCode.POD_NETWORK_BROKEN, SILENT):
        return True
    return report.is_critical and CATALOGUE[FaultCode(report.fault)].layer in OVERLAY_LAYERS


def _condition(kind: str, report: Report | None) -> Condition:
    if report is None:
        return Condition(
            type=kind, status="False", reason=WELL, message="no node of the mesh reports a fault of this one"
        )
    reason = "".join(word.capitalize() for word in report.fault.split("-"))
    return Condition(type=kind, status="True", reason=reason, message=f"{report.words} (by {report.reporter})")


def _is_marked(node: Node) -> bool:
    """Whether anything of ours is on a node; the annotation is left where a person has taken our cordon back."""
    is_bad = any(node.condition(kind).status == "True" for kind in CONDITIONS)
    return is_bad or node.is_tainted or CORDON_ANNOTATION in node.annotations


def _is_gated(node: Node) -> bool:
    return node.is_tainted or node.is_cordoned_here
