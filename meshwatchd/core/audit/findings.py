"""What looks at this node's kernel have found: told when it begins and ends, repaired where that is allowed.

A finding also explains verdicts. Probes see that nothing passes the own leader's overlay and blame the leader; where
this very node has lost its FDB entry of that leader, the fault is here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

import msgspec

from meshwatchd.core.audit import peer_faults
from meshwatchd.core.audit.next_hops import NextHops, name_dead_hop
from meshwatchd.core.audit.repair import Repairs
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.audit_facts import FaultCleared, FaultRaised
from meshwatchd.model.events import PeerFault, RepairDone
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict, weight
from meshwatchd.model.host_mesh import maker_of
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import Output
from meshwatchd.model.settings import SECOND, Settings
from meshwatchd.model.status import FindingStatus

Name = tuple[str, str, str]

LINGER_NS = 5 * SECOND
"""How long what is put right still explains verdicts. Probes need ten answers and more to come round, up to four
seconds in the lab; without their cause they would accuse somebody else meanwhile."""

_EXPLAINABLE = frozenset(
    {
        FaultCode.OVERLAY_NEW_FLOWS,
        FaultCode.OVERLAY_BLACK_HOLE,
        FaultCode.RELAY_NOT_FORWARDING,
        FaultCode.WIREGUARD_BLOCKED,
        FaultCode.LEADER_DEAD,
        FaultCode.NODE_UNREACHABLE,
        FaultCode.ALL_PATHS_DOWN,
        FaultCode.LOCAL,
        FaultCode.UNDETERMINED,
    }
)

_SILENT_PEER = frozenset((FaultCode.WIREGUARD_NO_HANDSHAKE, FaultCode.WIREGUARD_NO_DATA))

_OF_SIZE = frozenset((FaultCode.MTU_MISCONFIGURED, FaultCode.MTU_BLACK_HOLE, FaultCode.FRAGMENTS_DROPPED))
_PODS_LOST = frozenset((FaultCode.POD_UNREACHABLE, FaultCode.POD_NETWORK_BROKEN))
_OF_A_PREFIX = frozenset((FaultCode.ALLOWED_IPS_MISSING, FaultCode.BGP_ROUTE_ESCAPED))
POD_CAUSES = _OF_A_PREFIX | {*(FaultCode.POD_ROUTE_DIVERTED, FaultCode.POD_ROUTE_ESCAPED, FaultCode.ALLOWED_IPS_STOLEN)}
"""What may lose the packets of one node's pods and no others."""


class FindingBook:
    """The findings of one node.

    Args:
        settings: the configuration.
        node: this node.

    Attributes:
        deadline: when `advance` has something to do; asked after every event, and so the repairs' own.
        next_hops: routing daemons' routes into the mesh's WireGuard device.
        neighbours: the other nodes of this one's location.
        misfits: the peers whose packets say that a device of theirs is greater than what is below it carries.
    """

    def __init__(self, settings: Settings, node: str) -> None:
        self._node = node
        self._standing: dict[Name, tuple[AuditFinding, int]] = {}
        self._told: tuple[PeerFault, ...] = ()
        self._in_hellos: tuple[PeerFault, ...] = ()
        # With the instants until which they explain; the latest of the former is the last, of the latter the first.
        self._gone: dict[Name, tuple[AuditFinding, int]] = {}
        self._taken_back: dict[PeerFault, int] = {}
        # Pairs that something standing explains, those of them whose probes have found everything well while it still
        # stood, and those whose have since something went.
        self._explained: set[int] = set()
        self._recovered: set[int] = set()
        self._come_round: set[int] = set()
        self._repairs = Repairs(settings.daemon.mode, settings.repair)
        self.deadline: Callable[[], int | None] = self._repairs.deadline
        self.next_hops: NextHops = {}
        self.neighbours: frozenset[str] = frozenset()
        self.misfits: dict[NodeName, PeerFault] = {}

    def report(self, findings: tuple[AuditFinding, ...], now: int) -> Iterator[Output]:
        """Take in everything that is wrong at present."""
        before, present = self._standing, {each.name: each for each in findings}
        self._standing = {name: (each, before[name][1] if name in before else now) for name, each in present.items()}
        for name, (gone, _) in before.items():
            if name not in present:
                self._gone.pop(name, None)
                self._gone[name] = gone, now + LINGER_NS
                self._come_round = set(self._recovered)
        if not present.keys() <= before.keys():
            self._recovered.clear()
        self._linger(now)
        for name, (gone, since) in before.items():
            if name not in present:
                yield FaultCleared(
                    fault=gone.code, device=gone.device, subject=gone.subject, lasted_ns=max(0, now - since)
                )
        for name, each in present.items():
            if name not in before:
                yield _raised(each)
        yield from self._repairs.update(findings, now)

    def repeat(self) -> Iterator[Output]:
        """What is wrong at present, once more, for an engine that starts to probe.

        Its start ends every incident of the engine before it. This one's own were told before that where its mesh was
        not known at once.
        """
        for each, _ in self._standing.values():
            yield _raised(each)

    def hear(self, told: tuple[PeerFault, ...], now: int) -> None:
        """Take in everything that peers say in their hellos is wrong with them at present."""
        self._in_hellos = told
        self._hear(now)

    def hear_of_misfit(self, peer: NodeName, now: int, *, has_misfit: bool, is_own_leader: bool = False) -> None:
        """Take in what a peer says of its devices in every packet.

        Hellos say so too, and come from the peer's agent, which may wait for a CPU. Who is accused of losing large
        packets has answered the small ones beside them: a word in those answers is there before the verdict.
        """
        if has_misfit:
            self.misfits[peer] = PeerFault(
                fault=FaultCode.MTU_MISCONFIGURED, culprit=peer, source=peer, is_own_leader=is_own_leader
            )
        else:
            self.misfits.pop(peer, None)
        self._hear(now)

    def forget_misfits(self, now: int) -> None:
        """Another mesh may have other leaders: the next packets say it again."""
        self.misfits.clear()
        self._hear(now)

    def _hear(self, now: int) -> None:
        told = (*self._in_hellos, *self.misfits.values())
        taken_back = [each for each in self._told if each not in told]
        if taken_back:
            self._taken_back = {**dict.fromkeys(taken_back, now + LINGER_NS), **self._taken_back}
            self._come_round = set(self._recovered)
        if any(each not in self._told for each in told):
            self._recovered.clear()
        self._told = told
        self._linger(now)

    def _linger(self, now: int) -> None:
        """Forget what has been gone for long, and what is back."""
        self._gone = {n: (each, end) for n, (each, end) in self._gone.items() if end > now and n not in self._standing}
        self._taken_back = {each: end for each, end in self._taken_back.items() if end > now and each not in self._told}
        self._choose_deadline()

    def _choose_deadline(self) -> None:
        # The deadline is asked after every packet: nothing is added to it while nothing lingers.
        self.deadline = self._next if self._gone or self._taken_back else self._repairs.deadline

    def _next(self) -> int | None:
        due = min((*(end for _, end in self._gone.values()), *self._taken_back.values()))
        repair = self._repairs.deadline()
        return due if repair is None else min(due, repair)

    def repaired(self, event: RepairDone, now: int) -> Iterator[Output]:
        """The agent has carried out a repair, or undone it."""
        yield from self._repairs.done(event, now)

    def agent_lost(self) -> None:
        """Nobody carries out what was asked for; what peers say in hellos is heard by the next agent."""
        self._repairs.forget_under_way()
        self._in_hellos, self._told = (), tuple(self.misfits.values())
        self._taken_back = {}
        self._choose_deadline()

    def advance(self, now: int) -> Iterator[Output]:
        """Go on with repairs that had to wait, and forget what has been gone for long."""
        self._linger(now)
        yield from self._repairs.advance(now)

    def explain(self, verdict: Verdict, relays: Container[NodeName] = ()) -> Verdict:
        """The verdict, or the finding that is its cause: one of this node, else one that peers have told.

        What has gone lately is a cause still, where nothing else is: probes notice later.

        Args:
            verdict: what the probes say.
            relays: of the path that it is about.
        """
        return name_dead_hop(self._explain(verdict, relays), self.next_hops)

    def _explain(self, verdict: Verdict, relays: Container[NodeName]) -> Verdict:
        if verdict.fault is FaultCode.NONE:
            self._note_calm(verdict.pair)
            return verdict
        cause = next((each for each, _ in self._standing.values() if self._is_cause(each, verdict, relays)), None)
        told = (
            _caused(verdict, cause)
            if cause is not None
            else peer_faults.explain(verdict, self._told, relays, node=self._node)
        )
        if told is not verdict:
            self._explained.add(verdict.pair)
            return told
        if not (self._gone or self._taken_back) or verdict.pair in self._come_round:
            return verdict
        cause = next((each for each, _ in reversed(self._gone.values()) if self._is_cause(each, verdict, relays)), None)
        if cause is not None:
            return _caused(verdict, cause, "this was put right a moment ago, which probes have yet to notice")
        return peer_faults.explain(verdict, self._taken_back, relays, node=self._node)

    def _note_calm(self, pair: int) -> None:
        """The pair's probes have noticed what was put right, and what still stands: they lose no more by either."""
        self._come_round.add(pair)
        if pair in self._explained:
            self._explained.remove(pair)
            self._recovered.add(pair)

    def _is_cause(self, finding: AuditFinding, verdict: Verdict, relays: Container[NodeName]) -> bool:
        """A fault of the whole device or host hits everybody; that of one peer hits whom the verdict is about."""
        entry = CATALOGUE[finding.code]
        is_own_reflector = verdict.fault is FaultCode.PROBE_PORT_BLOCKED and verdict.culprit == self._node
        if is_own_reflector and finding.subject == finding.device and entry.layer is Layer.OVERLAY:
            # The address at which it asks itself was on the device, or on the one below that went with it.
            return entry.severity is Severity.CRITICAL and finding.culprit == self._node
        if is_own_reflector and finding.code is FaultCode.CONNTRACK_FULL:
            # What it sends to itself is a new flow as well.
            return finding.culprit == self._node
        if finding.code in POD_CAUSES and verdict.fault in _PODS_LOST:
            # Where all others' pods are out of reach the probes name nobody, or this node.
            return verdict.culprit in ("", finding.peer, finding.culprit)
        if finding.is_of_few or (finding.code in _OF_A_PREFIX and not finding.is_cut_off):
            # The node behind the prefix has its own: what its probes lose has another cause.
            return False
        relay = finding.peer or finding.culprit
        is_of_relay = peer_faults.has_lost_relay(finding.code, relay, verdict, relays, node=self._node)
        if is_of_relay or _is_carriers_size(finding, verdict):
            return True
        if verdict.fault not in _EXPLAINABLE and not _may_break_one_way(finding, verdict):
            return False
        is_of_tunnel = finding.code is FaultCode.WIREGUARD_PEER_MISSING or finding.is_cut_off
        is_of_route = finding.code in (FaultCode.POD_ROUTE_DIVERTED, FaultCode.NODE_ROUTE_BLOCKED)
        if is_of_tunnel or (is_of_route and finding.peer):
            # Where it was the only one, or the last that answered, probes reach nobody and blame this node.
            is_blamed = verdict.culprit == finding.peer or (is_of_tunnel and not verdict.culprit)
            return is_blamed or (finding.peer in relays and verdict.culprit == self._node)
        if finding.code is FaultCode.WIREGUARD_ENDPOINT_MOVED:
            # By itself it only warns: whoever dials in may roam and fall silent. It has cut off whom probes miss.
            return (
                verdict.fault is FaultCode.WIREGUARD_BLOCKED and bool(finding.peer) and verdict.culprit == finding.peer
            )
        if entry.severity is not Severity.CRITICAL or (finding.culprit not in (self._node, finding.peer)):
            return False
        if finding.subject == finding.device or not finding.device:
            return True
        if entry.layer is Layer.WIREGUARD:
            # What is wrong with one peer does not block the tunnel to another.
            is_its = not finding.peer or verdict.culprit == self._node
            is_blocked = verdict.fault is FaultCode.WIREGUARD_BLOCKED
            return (is_blocked and is_its) or verdict.culprit in ("", finding.peer)
        return bool(finding.peer) and (verdict.culprit == finding.peer or self._is_cut_off(finding, verdict))

    def _is_cut_off(self, finding: AuditFinding, verdict: Verdict) -> bool:
        """Whether its overlay reaches nobody, and it has entries of all its neighbours that are wrong: this is one.

        The kernel forgets all of them at once where the device is given another MAC.
        """
        if verdict.fault is not FaultCode.OVERLAY_BLACK_HOLE or {verdict.culprit, finding.culprit} != {self._node}:
            return False
        every = (each for each, _ in (*self._standing.values(), *self._gone.values()) if each.culprit == self._node)
        found = (each for each in every if CATALOGUE[each.code].severity is Severity.CRITICAL)
        lost = {each.peer for each in found if each.device == finding.device}
        return bool(self.neighbours) and self.neighbours <= lost

    def status(self) -> tuple[FindingStatus, ...]:
        """All of them for operators, the worst first."""
        told = (self._status(each, since) for each, since in self._standing.values())
        return tuple(sorted(told, key=lambda each: (-weight(each.severity), each.since_ns)))

    def _status(self, each: AuditFinding, since: int) -> FindingStatus:
        state, commands = self._repairs.state(each.name)
        entry = CATALOGUE[each.code]
        return FindingStatus(
            fault=each.code,
            layer=entry.layer,
            severity=each.severity,
            device=each.device,
            subject=each.subject,
            peer=each.peer,
            culprit=each.culprit,
            since_ns=since,
            because=each.because,
            repair=state,
            commands=commands,
        )

    def standing(self) -> Mapping[Name, AuditFinding]:
        """The findings by name."""
        return {name: each for name, (each, _) in self._standing.items()}


def _may_break_one_way(finding: AuditFinding, verdict: Verdict) -> bool:
    """Whether a tunnel passes nothing in one direction and something is wrong with it, or with what is below it.

    That a peer is silent is the same seen from its counters, and says less.
    """
    is_below = CATALOGUE[finding.code].layer in (Layer.WIREGUARD, Layer.UNDERLAY)
    return verdict.fault is FaultCode.ONE_WAY_BREAK and is_below and finding.code not in _SILENT_PEER


def _is_carriers_size(finding: AuditFinding, verdict: Verdict) -> bool:
    """Whether a tunnel or VXLAN does not fit any more, and somebody has changed the host mesh below and not that."""
    is_shrunk = finding.code is FaultCode.MTU_MISCONFIGURED and maker_of(finding.device) is not None
    is_over_it = verdict.fault in _OF_SIZE and verdict.layer in (Layer.WIREGUARD, Layer.OVERLAY)
    return is_shrunk and is_over_it and verdict.culprit == finding.culprit


def _caused(verdict: Verdict, cause: AuditFinding, *also: str) -> Verdict:
    return msgspec.structs.replace(
        verdict,
        fault=cause.code,
        layer=CATALOGUE[cause.code].layer,
        culprit=cause.culprit,
        because=(*cause.because, *also, f"probes alone say {verdict.fault}", *verdict.because),
    )


def _raised(each: AuditFinding) -> FaultRaised:
    entry = CATALOGUE[each.code]
    return FaultRaised(
        fault=each.code,
        layer=entry.layer,
        severity=each.severity,
        device=each.device,
        subject=each.subject,
        peer=each.peer,
        culprit=each.culprit,
        because=each.because,
    )
