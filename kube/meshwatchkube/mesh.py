"""The mesh as the daemon of this node shows it, in the words that decisions here need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from meshwatchd.model.fault_codes import FaultCode, Severity
from meshwatchd.model.faults import CATALOGUE, Verdict
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.policy_state import OrderKind
from meshwatchd.model.status import FindingStatus, PairStatus, PathStatus, Status

SILENT = "overlay-silent"
"""In the place of a fault's code: a neighbour does not answer by the overlay, while it does below it. A node that
relays nothing for others is in nobody's verdict; its neighbours notice all the same."""
_OVERLAY = ("overlay", "ipip")

ORDER_NAME = "meshwatchd-kube"
"""Whose pins and drains are ours among the operator holds of the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One path between two locations, by its relays' names; bad is what is down or suspect, and not what is unknown."""

    rank: int
    relays: tuple[str, ...]
    is_bad: bool
    is_active: bool
    is_local_relay: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The traffic between this node's location and a remote one.

    Attributes:
        culprit: whom this node's verdict names, by another one's word too; empty where all is well, or nobody is named.
    """

    location: str
    remote: str
    paths: tuple[Path, ...]
    culprit: str = ""

    @property
    def active(self) -> Path | None:
        """The path in use."""
        return next((path for path in self.paths if path.is_active), None)

    @property
    def sides(self) -> frozenset[str]:
        """Both locations."""
        return frozenset({self.location, self.remote})

    @property
    def primary_relays(self) -> tuple[str, ...]:
        """The leaders of both locations."""
        return next((path.relays for path in self.paths if path.rank == 0), ())

    def other(self, location: str) -> str:
        """The location at the other end."""
        return self.remote if location == self.location else self.location

    @property
    def is_diverted(self) -> bool:
        """Whether traffic is on another path than the mesh's own."""
        return self.active is not None and self.active.rank != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says that it has seen itself.

    Attributes:
        location: of the reporter.
        towards: the location whose traffic suffers; empty for what the reporter found in its own kernel.
        age_ns: of its hello; 0 for this node's own.
        words: the title of the fault, and the first sentences of the evidence where this node has them.
    """

    reporter: str
    location: str
    towards: str
    fault: str
    culprit: str
    age_ns: int = 0
    words: str = ""

    @property
    def sides(self) -> frozenset[str]:
        """The locations between which traffic suffers."""
        return frozenset({self.location, self.towards})

    @property
    def is_critical(self) -> bool:
        """By the catalogue: that of a verdict is lower once other nodes' traffic goes around the culprit."""
        return is_known(self.fault) and CATALOGUE[FaultCode(self.fault)].severity is Severity.CRITICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of the mesh.

    Attributes:
        severity, report_age_ns: how it says that it fares, and how long ago; a node whose verdict rests on the word of
            another one reports no verdict and no culprit, and this all the same.
    """

    name: str
    location: str
    role: str
    address: str
    heard_ago_ns: int | None = None
    severity: str = ""
    report_age_ns: int | None = None

    def is_in_trouble(self, age_ns: int) -> bool:
        """Whether it has said so within so many nanoseconds."""
        is_fresh = self.report_age_ns is not None and self.report_age_ns <= age_ns
        return is_fresh and self.severity in (Severity.WARNING, Severity.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """One look at the daemon.

    Attributes:
        is_reliable: the daemon is ready, and does not take itself for the one that is broken.
        pins: remote locations for which a pin of ours stands.
        is_drained: a drain of ours stands.
    """

    node: str
    location: str
    is_reliable: bool
    pairs: tuple[Pair, ...] = ()
    reports: tuple[Report, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict)
    pins: tuple[str, ...] = ()
    is_drained: bool = False

    def fresh(self, age_ns: int) -> Iterator[Report]:
        """Reports no older than so many nanoseconds."""
        return (report for report in self.reports if report.age_ns <= age_ns)


def see(status: Status, nodes: Sequence[NodeStatus]) -> Mesh:
    """One picture of the two replies of the daemon."""
    members = {
        str(node.name): Member(
            name=node.name,
            location=node.location,
            role=node.role,
            address=node.node_ip,
            heard_ago_ns=node.heard_ago_ns,
            severity=node.severity,
            report_age_ns=node.report_age_ns,
        )
        for node in nodes
    }
    ours = [order for order in status.orders if order.name == ORDER_NAME]
    return Mesh(
        node=status.node,
        location=status.location,
        is_reliable=status.is_ready
        and status.is_watching
        and not status.rejected
        and all(pair.verdict.fault is not FaultCode.LOCAL for pair in status.pairs),
        pairs=tuple(_pair(pair) for pair in status.pairs),
        reports=(*_own(status), *_others(nodes, status.node), *_silences(nodes)),
        members=members,
        pins=tuple(order.location for order in ours if order.kind is OrderKind.PIN),
        is_drained=any(order.kind is OrderKind.DRAIN for order in ours),
    )


def _pair(pair: PairStatus) -> Pair:
    return Pair(
        location=pair.location,
        remote=pair.remote_location,
        culprit=pair.verdict.culprit if pair.verdict.severity is not Severity.OK else "",
        paths=tuple(_path(path, is_active=path.rank == pair.active_rank) for path in pair.paths),
    )


def _path(path: PathStatus, *, is_active: bool) -> Path:
    return Path(
        rank=path.rank,
        relays=path.relays,
        is_bad=path.state in ("down", "suspect"),
        is_active=is_active,
        is_local_relay=path.is_local_relay,
    )


def _words(found: Verdict | FindingStatus) -> str:
    """The fault's title, and the two pieces of evidence that matter most."""
    return "; ".join((title(found.fault.value), *found.because[:2]))


def _own(status: Status) -> Iterator[Report]:
    for pair in status.pairs:
        verdict = pair.verdict
        if verdict.severity is not Severity.OK and not verdict.told_by:
            yield Report(
                reporter=status.node,
                location=status.location,
                towards=pair.remote_location,
                fault=verdict.fault.value,
                culprit=verdict.culprit,
                words=_words(verdict),
            )
    for finding in status.findings:
        if finding.severity is not Severity.OK and not finding.is_of_few:
            yield Report(
                reporter=status.node,
                location=status.location,
                towards="",
                fault=finding.fault.value,
                culprit=finding.culprit or status.node,
                words=_words(finding),
            )


def _others(nodes: Iterable[NodeStatus], this: str) -> Iterator[Report]:
    """All that is reported, where `Status.reported` is for people: each fault once, and none that this node names."""
    reported = [each for node in nodes if node.name != this for each in node.faults]
    for each in sorted(reported, key=lambda each: (each.reported_by != each.culprit, each.age_ns)):
        yield Report(
            reporter=each.reported_by,
            location=each.location,
            towards=each.towards,
            fault=each.fault,
            culprit=each.culprit,
            age_ns=each.age_ns,
            words=title(each.fault),
        )


def _silences(nodes: Iterable[NodeStatus]) -> Iterator[Report]:
    for node in nodes:
        for silence in node.silent:
            if silence.layer in _OVERLAY:
                yield Report(
                    reporter=node.name,
                    location=node.location,
                    towards="",
                    fault=SILENT,
                    culprit=silence.peer,
                    age_ns=node.report_age_ns or 0,
                    words=f"no answer from {silence.peer} by the overlay, while it answers below it",
                )


def title(fault: str) -> str:
    """The catalogue's words for a code; the code itself where another version made it."""
    return CATALOGUE[FaultCode(fault)].title if is_known(fault) else fault


def is_known(fault: str) -> bool:
    """Whether a code is in this version's catalogue."""
    return fault in FaultCode._value2member_map_
