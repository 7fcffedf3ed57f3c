"""From measured sizes to a verdict: the lowest layer that carries less than its devices promise, and who is to blame.

    underlay    this node and a neighbour          all neighbours at once: this node
    overlay     the same
    IPIP        a member and its leader
    WireGuard   the two leaders; where every node has several tunnels, all of them at once: this node
    relay       what no layer of the own location explains:
                    not even the far relay gets large packets     between the relays
                    it does, and all nodes behind it do not       its overlay
                    it does, and one node does not                that node

A member has no session of its own to the far end of its leader's tunnel: the last three lines are how it names the
layer all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from meshwatchd.core.pmtu.expected_mtu import IPIP_BYTES, VXLAN_BYTES, WIREGUARD_BYTES
from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.pmtu.session import SizeSession
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.model.faults import Direction, FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer
from meshwatchd.model.topology import Path, Topology

_SEGMENTS = (Layer.UNDERLAY, Layer.OVERLAY, Layer.IPIP)

_OVERHEAD = {Layer.OVERLAY: VXLAN_BYTES, Layer.WIREGUARD: WIREGUARD_BYTES, Layer.IPIP: IPIP_BYTES}


SIZE_FAULTS = (
    FaultCode.MTU_BLACK_HOLE,
    FaultCode.STANDBY_MTU_SMALLER,
    FaultCode.MTU_MISCONFIGURED,
    FaultCode.MTU_POISONED,
    FaultCode.FRAGMENTS_DROPPED,
)
"""The worst first."""


class SizeFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What sizes say about one pair of locations.

    Attributes:
        because: the evidence; the last sentence is the number to configure.
    """

    fault: FaultCode
    layer: Layer
    severity: Severity
    culprit: str
    direction: Direction = Direction.UNKNOWN
    because: tuple[str, ...] = ()


def to_verdict(found: SizeFinding, pair: int, because: tuple[str, ...]) -> Verdict:
    """A verdict whose layer, direction and severity are those of what was measured: small packets still pass."""
    return Verdict(
        fault=found.fault,
        layer=found.layer,
        severity=found.severity,
        pair=pair,
        culprit=found.culprit,
        direction=found.direction,
        because=tuple(sentence for sentence in because if sentence),
    )


def judge(watch: SizeWatch, topology: Topology, active: Path, now: int) -> SizeFinding | None:
    """The worst finding about one pair; None when all sizes are as they should be.

    While the sessions look that a first black hole has hastened, only what needs no measuring is told.
    """
    if not (watch.sessions or watch.stack.misfits):
        return None
    court = _Court(watch, topology, active, now)
    return next(court.misconfigured() if now < watch.settled_at else court.findings(), None)


class _Court:
    """All the evidence about one pair at one instant."""

    def __init__(self, watch: SizeWatch, topology: Topology, active: Path, now: int) -> None:
        self._watch, self._topology, self._active, self._now = watch, topology, active, now

    def findings(self) -> Iterator[SizeFinding]:
        """The worst first, and of black holes that of the lowest layer."""
        yield from (self._own_doing(each) or each for each in self._segments())
        yield from self._paths()
        yield from self._smaller()
        yield from self.misconfigured()
        yield from self._poisoned()
        yield from self._fragments()

    def _of(self, layer: Layer, path: Path | None = None) -> list[SizeSession]:
        return [
            session
            for session in self._watch.of(layer, NO_PATH if path is None else path.number)
            if not session.plan.may_fragment
        ]

    def _segments(self) -> Iterator[SizeFinding]:
        for layer in _SEGMENTS:
            sessions = self._of(layer)
            lost = _blocked(sessions)
            if lost:
                is_own = len(sessions) > 1 and len(lost) == len(sessions) and layer is not Layer.IPIP
                yield self._hole(layer, self._topology.local_node if is_own else lost[0].plan.peer, lost)

    def _own_doing(self, found: SizeFinding) -> SizeFinding | None:
        """What everybody loses with this node is this node's doing where its own devices do not fit each other."""
        if found.culprit != self._topology.local_node:
            return None
        misfit = next((each for each in self.misconfigured() if each.layer is found.layer), None)
        if misfit is None:
            return None
        return msgspec.structs.replace(misfit, severity=found.severity, because=(*misfit.because, *found.because))

    def _paths(self) -> Iterator[SizeFinding]:
        paths = [path for path in self._topology.local_paths() if path.pair == self._active.pair and path.is_primary]
        for path in paths:
            lost = _blocked(self._of(Layer.WIREGUARD, path))
            if lost:
                is_own = self._is_lost_by_all_tunnels() or self._outgrows(Layer.WIREGUARD, _worst(lost))
                found = self._hole(Layer.WIREGUARD, self._topology.local_node if is_own else lost[0].plan.peer, lost)
                yield self._own_doing(found) or found
        for path in (self._active, *paths):
            sessions = self._of(Layer.RELAY, path)
            lost = _blocked(sessions)
            if lost:
                yield self._hole(*self._place(sessions, path), lost)

    def _outgrows(self, layer: Layer, worst: SizeSession) -> bool:
        """Whether as much is carried as fits below the own device, which is bigger than that."""
        fits = (each.carries_bytes for each in self._watch.stack.misfits if each.layer is layer)
        return worst.is_measured and any(worst.both_bytes >= size for size in fits)

    def _is_lost_by_all_tunnels(self) -> bool:
        """Whether the tunnels to several nodes lose large packets, and none carries them: what they share is here."""
        tunnels = [s for s in self._watch.sessions if s.plan.layer is Layer.WIREGUARD and not s.plan.may_fragment]
        peers = {session.plan.peer for session in tunnels}
        return len(peers) > 1 and peers == {session.plan.peer for session in _blocked(tunnels)}

    def _place(self, sessions: list[SizeSession], path: Path) -> tuple[Layer, str]:
        """The layer and the node that a path's sessions point to, where the own location is innocent."""
        relay = path.relay_in(path.other_location(self._topology.local.location))
        lost = {session.plan.peer for session in sessions if session.is_blocked}
        behind = [session.plan.peer for session in sessions if session.plan.peer != relay]
        if self._topology.is_clustered:
            # Nobody relays: what several nodes lose is lost between the clusters, at none of them.
            return Layer.OVERLAY, min(lost) if len(lost) == 1 else ""
        if relay in lost:
            return Layer.OVERLAY if self._topology.is_on_underlay else Layer.WIREGUARD, relay
        return Layer.OVERLAY, relay if all(peer in lost for peer in behind) else min(lost)

    def _hole(self, layer: Layer, culprit: str, lost: list[SizeSession]) -> SizeFinding:
        worst = _worst(lost)
        direction = direction_of(worst, self._now)
        where, peers = worst.plan.layer.name.lower(), ", ".join(session.plan.peer for session in lost)
        if is_told(worst):
            return self._announced(layer, culprit, worst)
        is_carried = worst.is_measured and worst.expected_bytes <= worst.both_bytes < worst.goal_bytes
        in_use = _blocked(self._of(Layer.RELAY, self._active))
        return SizeFinding(
            fault=FaultCode.FRAGMENTS_DROPPED if is_carried else FaultCode.MTU_BLACK_HOLE,
            layer=layer,
            severity=Severity.CRITICAL if in_use and not is_carried else Severity.WARNING,
            culprit=culprit,
            direction=direction,
            because=(
                f"packets of {worst.goal_bytes} bytes to {peers} and back are lost on layer {where}, small ones pass",
                "whole packets pass: what is fragmented on the way is lost" if is_carried else "",
                _limits(worst, direction),
                advice(layer, worst, self._topology),
            ),
        )

    def _announced(self, layer: Layer, culprit: str, session: SizeSession) -> SizeFinding:
        """Something on the way carries less than the devices promise, and says so: path MTU discovery works."""
        return SizeFinding(
            fault=FaultCode.MTU_MISCONFIGURED,
            layer=layer,
            severity=Severity.WARNING,
            culprit=culprit,
            direction=direction_of(session, self._now),
            because=(
                f"packets of {session.goal_bytes} bytes to {session.plan.peer} and back do not pass",
                f"ICMP says so, and the kernel sends no more than {session.both_bytes}: senders adapt",
                advice(layer, session, self._topology),
            ),
        )

    def _smaller(self) -> Iterator[SizeFinding]:
        """Standbys that carry less than the path in use, to the same nodes.

        What is wrong at a node shows on every path to it, and on one of them first.
        """
        in_use = {session.plan.peer: session.passed_at for session in self._of(Layer.RELAY, self._active)}
        for path in self._topology.local_paths():
            if path.pair != self._active.pair or path.number == self._active.number:
                continue
            lost = _blocked(self._of(Layer.RELAY, path))
            lost = [each for each in lost if in_use.get(each.plan.peer, self._now) > each.failed_at]
            if not lost:
                continue
            worst = _worst(lost)
            yield SizeFinding(
                fault=FaultCode.STANDBY_MTU_SMALLER,
                layer=Layer.RELAY,
                severity=Severity.WARNING,
                culprit=path.relay_in(path.other_location(self._topology.local.location)),
                direction=direction_of(worst, self._now),
                because=(
                    f"the path in use carries {worst.expected_bytes} bytes, standby {' - '.join(path.relays)} does not",
                    _limits(worst, direction_of(worst, self._now)),
                ),
            )

    def misconfigured(self) -> Iterator[SizeFinding]:
        """Own devices that do not fit each other."""
        for misfit in self._watch.stack.misfits:
            yield SizeFinding(
                fault=FaultCode.MTU_MISCONFIGURED,
                layer=misfit.layer,
                severity=Severity.WARNING,
                culprit=self._topology.local_node,
                because=(
                    f"{misfit.device} has MTU {misfit.mtu_bytes}, below it {misfit.carries_bytes} fit in one piece",
                    "longer packets live by fragments, or not at all",
                    f"configure MTU {misfit.carries_bytes} on {misfit.device}",
                ),
            )

    def _poisoned(self) -> Iterator[SizeFinding]:
        ours = [each for each in self._watch.sessions if each.plan.path in (self._active.number, NO_PATH)]
        # The lowest first: VXLAN hands on to its inner routes what its outer route has learned.
        for session in sorted(ours, key=lambda each: each.plan.layer):
            if is_poisoned(session, self._watch):
                yield SizeFinding(
                    fault=FaultCode.MTU_POISONED,
                    layer=session.plan.layer,
                    severity=Severity.WARNING,
                    # What is wrong is a belief of this node's kernel, and it is this one that has to forget.
                    culprit=self._topology.local_node,
                    because=(
                        f"the kernel has learned an MTU of {session.learned_mtu_bytes} to {session.plan.destination}",
                        f"probes of {session.both_bytes} bytes pass both ways",
                        "ICMP said so: a message that is forged, or out of date",
                    ),
                )

    def _fragments(self) -> Iterator[SizeFinding]:
        tested = [session for session in self._watch.sessions if session.plan.may_fragment]
        whole = {session.plan.peer: session.healed_at for session in self._of(Layer.UNDERLAY) if not session.is_blocked}
        # What was lost with whole packets was lost for their reason, and may pass like them since.
        lost = [s for s in _blocked(tested) if s.plan.peer in whole and s.missed_at > whole[s.plan.peer]]
        if not lost:
            return
        is_own = len(tested) > 1 and len(lost) == len(tested)
        is_arriving = lost[0].outbound_bytes >= lost[0].goal_bytes
        yield SizeFinding(
            fault=FaultCode.FRAGMENTS_DROPPED,
            layer=Layer.UNDERLAY,
            severity=Severity.WARNING,
            culprit=self._topology.local_node if is_own else lost[0].plan.peer,
            direction=Direction.INBOUND if is_arriving else Direction.OUTBOUND,
            because=(
                f"{lost[0].goal_bytes} bytes in two fragments to {', '.join(s.plan.peer for s in lost)} are lost",
                f"whole packets of {self._watch.stack.underlay} bytes pass",
                "whatever outgrows a tunnel's underlay vanishes: its outer packets are fragmented",
            ),
        )


def _blocked(sessions: Iterable[SizeSession]) -> list[SizeSession]:
    """Those that lose large packets, but for a size that the kernel has heard of while the limit is being searched."""
    return [each for each in sessions if each.is_blocked and (each.is_measured or not each.has_learned_less)]


def is_told(session: SizeSession) -> bool:
    """Whether the kernel has learned the very limit that was measured: then nothing vanishes, senders adapt."""
    return session.is_measured and session.learned_mtu_bytes == session.both_bytes


def _worst(sessions: list[SizeSession]) -> SizeSession:
    """The one that carries least, of those whose limit is known."""
    return min(sessions, key=lambda session: (not session.is_measured, session.both_bytes))


def direction_of(session: SizeSession, now: int) -> Direction:
    """Which way large packets are lost; the way back is judged by what the peer's own probes show here."""
    if not session.is_measured:
        return Direction.UNKNOWN
    if session.outbound_bytes >= session.goal_bytes:
        return Direction.INBOUND
    return Direction.BOTH if session.is_inbound_limited(now) else Direction.OUTBOUND


def _limits(session: SizeSession, direction: Direction) -> str:
    if not session.is_measured:
        return "the exact size is being searched"
    if direction is Direction.INBOUND:
        return f"answers of up to {session.both_bytes} bytes come back; probes arrive there at any size"
    return f"packets of up to {session.outbound_bytes} bytes arrive there"


def advice(layer: Layer, session: SizeSession, topology: Topology) -> str:
    """The number to configure; nothing before it is known."""
    if not session.is_measured:
        return ""
    size = session.both_bytes
    below = f", or let {size + _OVERHEAD[layer]} bytes pass below it" if layer in _OVERHEAD else ""
    return f"configure MTU {size} on {device_of(layer, topology)}{below}"


def device_of(layer: Layer, topology: Topology) -> str:
    """What is to be configured for a layer."""
    if layer is Layer.OVERLAY:
        return topology.overlay_device
    return "the nodes' network devices" if layer is Layer.UNDERLAY else topology.wireguard_device


def is_poisoned(session: SizeSession, watch: SizeWatch) -> bool:
    """Whether the kernel believes less than what was measured, and not because it once was so."""
    learned = session.learned_mtu_bytes
    return (
        session.is_measured
        and not session.is_blocked
        and 0 < learned < session.expected_bytes <= session.both_bytes
        and not watch.is_known_limit(learned)
    )
