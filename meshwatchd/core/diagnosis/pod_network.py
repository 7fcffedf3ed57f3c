"""Whether packets pass between addresses among pods while they pass between addresses of nodes.

A rule, an AllowedIPs entry or a filter may lose the packets of pods and no others. Each node has an address among its
pods that is the host's; between those an established UDP flow is probed, and TCP by one SYN after the other:

    a3 10.244.3.0 --overlay--> a1 ==tunnel==> b1 --overlay--> b3 10.244.6.0

    of the other nodes are silent     the pods that are cut off are
    one of several                    its own
    all, neighbours included          this node's
    all but the leader of theirs      behind that leader, which passes none on
    any other choice                  nobody's by this node's probes alone: a node that sees more reports the name

A session counts only while the node's own address answers, which is asked closely as soon as its pods' is silent
(`mesh.engine_state`), and only by what it has missed since the path last worked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from meshwatchd.core.diagnosis.advisory_probes import is_mute
from meshwatchd.core.diagnosis.evidence import Evidence, PodNetwork
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.core.session.shared_risk_group import DISTURBED_NATS
from meshwatchd.model.ids import FlowClass, Layer

LEAST_MISSES = 3
"""Since the path last worked: a session that a fault of the path took down answers the first of them if it can."""


class PodNetworkWatch:
    """The sessions between addresses among pods, as one pair of locations looks at them.

    Args:
        direct: the sessions of the pair's primary path, between addresses of nodes.
        before: the same pair in the mesh before this one.

    Attributes:
        since: when the path, or a node behind it, last did not answer; 0 while that has not happened.
    """

    def __init__(
        self,
        schedule: Schedule,
        members: Collection[str],
        direct: Iterable[Session],
        before: PodNetworkWatch | None = None,
    ) -> None:
        asked = schedule.select(layer=Layer.POD_NETWORK, is_advisory=True)
        near = {s.plan.peer for s in asked}
        # The overlay to neighbours is probed between the same addresses.
        overlay = schedule.select(layer=Layer.OVERLAY, flow=FlowClass.PINNED)
        self._udp = (*(s for s in asked if s.plan.canary is None), *(s for s in overlay if s.plan.peer in near))
        self._tcp = tuple(s for s in asked if s.plan.canary is not None)
        self._members, self._direct = members, tuple(direct)
        self.since: int = 0 if before is None else before.since

    def look(self, now: int, *, is_unwell: bool) -> PodNetwork:
        """What is silent and what answers; nothing while all of the other location answers.

        Args:
            now: nanoseconds.
            is_unwell: the path in use, the primary path or a node behind it does not answer at this moment.
        """
        if is_unwell:
            self.since = now
        for sessions in (self._udp, self._tcp):
            proven = tuple(s for s in sessions if s.is_proven)
            lost = {s.plan.peer: s.first_loss for s in proven if _is_cut(s, self.since)}
            silent = {*lost}
            here = tuple(s.plan.peer for s in proven if s.plan.peer in self._members)
            cut = tuple(peer for peer in here if peer in lost and self._is_alive(peer, lost[peer]))
            if not cut:
                continue
            awaited = {s.plan.peer for s in proven if s.plan.peer not in silent and _is_in_doubt(s)}
            elsewhere = [s.plan.peer for s in proven if s.plan.peer not in self._members]
            return PodNetwork(
                silent=cut,
                is_tcp_only=sessions is self._tcp,
                answering=tuple(peer for peer in here if peer not in silent),
                silent_elsewhere=tuple(peer for peer in elsewhere if peer in silent),
                answering_elsewhere=tuple(peer for peer in elsewhere if peer not in silent),
                is_complete=not awaited,
            )
        return PodNetwork()

    def _is_alive(self, peer: str, since: int) -> bool:
        """Whether a node's own address has answered a probe that left since an instant, and goes on doing so."""
        own = (s for s in self._direct if s.plan.peer == peer and s.is_proven and s.state is not SessionState.DOWN)
        return any(session.since(since)[0] for session in own)


def culprit(e: Evidence) -> str:
    """The node whose pods are cut off; nobody where another would explain as much."""
    found = e.pod_network
    if not found.answering and not found.answering_elsewhere:
        return e.self_name if len(found.silent) + len(found.silent_elsewhere) > 1 else ""
    if len(found.silent) == 1:
        return found.silent[0]
    return e.remote_leader if e.remote_leader in found.answering else ""


def because(e: Evidence) -> tuple[str, ...]:
    """What is not answered at which node, beside what is."""
    found = e.pod_network
    kind = "no TCP SYN" if found.is_tcp_only else "no probe"
    answering = (*found.answering, *found.answering_elsewhere)
    return (
        f"{kind} from this node's address among its pods to that of {', '.join(found.silent)} is answered",
        f"those of {', '.join(answering)} answer" if answering else "none of the others is answered either",
        "UDP between the same addresses is answered" if found.is_tcp_only else "",
        "every layer of the mesh below answers, at the addresses of the nodes",
    )


def _is_cut(session: Session, since: int) -> bool:
    hits, misses = session.since(since)
    return is_mute(session) and (not since or (not hits and misses >= LEAST_MISSES))


def _is_in_doubt(session: Session) -> bool:
    """Whether it may be silent with the next probes; chance misses alone do not get so far."""
    return session.state is SessionState.DOWN or session.cusum.nats >= DISTURBED_NATS
