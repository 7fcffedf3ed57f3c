"""Whether packets pass between addresses among pods while they pass between addresses of nodes.

A rule, an AllowedIPs entry or a filter may lose the packets of pods and no others. Each node has an address among its
pods that is the host's; between those an established UDP flow is probed, TCP by one SYN after the other, and UDP as
others send it by datagrams to a port that is nobody's, which the kernel there says is closed:

    a3 10.244.3.0 --overlay--> a1 ==tunnel==> b1 --overlay--> b3 10.244.6.0

    of the other nodes are silent     the pods that are cut off are
    one of several                    its own
    all, neighbours included          this node's
    all but the leader of theirs      behind that leader, which passes none on
    any other choice                  nobody's by this node's probes alone: a node that sees more reports the name

A session counts only while the node's own address answers, which is asked closely as soon as its pods' is silent
(`mesh.engine_state`), and only by what it has missed since the path last worked. Where only some of the three are
lost, the others are waited for: TCP lost and other UDP passing is a filter for TCP, both lost and probes passing is
`probes-only`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from meshwatchd.core.diagnosis.advisory_probes import asks_pod, canary_of, is_mute
from meshwatchd.core.diagnosis.evidence import Evidence, PodNetwork, PodTraffic
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.core.session.shared_risk_group import DISTURBED_NATS
from meshwatchd.model.canary import CanaryKind
from meshwatchd.model.ids import FlowClass, Layer

_ASKED = MappingProxyType({PodTraffic.TCP: "TCP SYN", PodTraffic.UDP: "UDP datagram to a closed port"})

LEAST_MISSES = 3
"""Since the path last worked: a session that a fault of the path took down answers the first of them if it can."""

LEAST_ANSWERS = 2
"""Since something else was first lost. With one answer it may be over, and what was lost is asked again first."""

CLOSED_MISSES = 20
"""Datagrams to a closed port in a row before they alone are called lost: a kernel that has told many hosts so, or was
told to do it seldom (icmp_msgs_per_sec, icmp_ratelimit), answers some."""


class PodNetworkWatch:
    """The sessions between addresses among pods, as one pair of locations looks at them.

    Args:
        direct: the sessions of the pair's primary path, between addresses of nodes.
        before: the same pair in the mesh before this one.
        canaries: behind nodes of the other location.

    Attributes:
        since: when the path, or a node behind it, last did not answer; 0 while that has not happened.
    """

    def __init__(
        self,
        schedule: Schedule,
        members: Collection[str],
        direct: Iterable[Session],
        *,
        before: PodNetworkWatch | None = None,
        canaries: Iterable[Session] = (),
    ) -> None:
        asked = schedule.select(layer=Layer.POD_NETWORK, is_advisory=True)
        near = {s.plan.peer for s in asked}
        # The overlay to neighbours is probed between the same addresses.
        overlay = schedule.select(layer=Layer.OVERLAY, flow=FlowClass.PINNED)
        closed = [(s, s.plan.canary.kind) for s in asked if s.plan.canary is not None]
        self._sessions = {
            PodTraffic.PROBES: (
                *(s for s in asked if s.plan.canary is None),
                *(s for s in overlay if s.plan.peer in near),
            ),
            PodTraffic.TCP: tuple(s for s, kind in closed if kind is CanaryKind.TCP),
            PodTraffic.UDP: tuple(s for s, kind in closed if kind is CanaryKind.UDP),
        }
        pods = [(s, canary_of(s.plan).kind is CanaryKind.UDP) for s in canaries if asks_pod(s.plan)]
        self._pods = {
            PodTraffic.TCP: tuple(s for s, is_udp in pods if not is_udp),
            PodTraffic.UDP: tuple(s for s, is_udp in pods if is_udp),
        }
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
        for traffic, sessions in self._sessions.items():
            proven = tuple(s for s in sessions if s.is_proven)
            cut_off = tuple(s for s in proven if self._is_cut(s, traffic))
            # Where nobody answers it is not the filters of all others; and their pods are asked from a node's address.
            is_alone = len({s.plan.peer for s in cut_off}) == len({s.plan.peer for s in proven}) > 1
            lost = {s.plan.peer: s.first_loss for s in cut_off if is_alone or not self._has_pod(s, traffic)}
            silent = {*lost}
            here = tuple(s.plan.peer for s in proven if s.plan.peer in self._members)
            cut = tuple(peer for peer in here if peer in lost and self._is_alive(peer, lost[peer]))
            if not cut:
                continue
            awaited = {s.plan.peer for s in proven if s.plan.peer not in silent and _is_in_doubt(s)}
            elsewhere = [s.plan.peer for s in proven if s.plan.peer not in self._members]
            lost_too, passing, unknown = self._beside(traffic, {peer: lost[peer] for peer in cut})
            return PodNetwork(
                silent=cut,
                lost=frozenset((traffic, *lost_too)),
                passing=passing,
                answering=tuple(peer for peer in here if peer not in silent),
                silent_elsewhere=tuple(peer for peer in elsewhere if peer in silent),
                answering_elsewhere=tuple(peer for peer in elsewhere if peer not in silent),
                is_complete=not (awaited or unknown),
            )
        return PodNetwork()

    def _beside(
        self, traffic: PodTraffic, lost: Mapping[str, int]
    ) -> tuple[frozenset[PodTraffic], frozenset[PodTraffic], bool]:
        """What else is lost to these nodes, what passes, and whether one of both is not known yet.

        Where probes are lost nothing else is asked for: whatever passes beside them, the verdict is the same.

        Args:
            traffic: what is known to be lost.
            lost: when the first of the latest questions left that each of them did not answer.
        """
        lost_too, passing, is_unknown = set(), set(), False
        for other in () if traffic is PodTraffic.PROBES else (each for each in PodTraffic if each is not traffic):
            asked = [s for s in self._sessions[other] if s.plan.peer in lost and s.is_proven]
            outcomes = [s.since(lost[s.plan.peer]) for s in asked]
            hits, misses = (sum(each) for each in zip(*outcomes, strict=True)) if outcomes else (0, 0)
            if hits >= LEAST_ANSWERS:
                passing.add(other)
            elif misses >= LEAST_MISSES and not hits:
                lost_too.add(other)
            else:
                is_unknown = is_unknown or bool(asked)
        return frozenset(lost_too), frozenset(passing), is_unknown

    def _is_cut(self, session: Session, traffic: PodTraffic) -> bool:
        """Whether a session is silent by what it missed since the path last worked."""
        hits, misses = session.since(self.since)
        if not is_mute(session) or (self.since and (hits or misses < LEAST_MISSES)):
            return False
        return traffic is not PodTraffic.UDP or session.since(session.first_loss)[1] >= CLOSED_MISSES

    def _has_pod(self, session: Session, traffic: PodTraffic) -> bool:
        """Whether a pod behind that node answers the same.

        A closed port may be silent since the node filters what comes to itself: its pods are reached all the same.
        """
        pods = (s for s in self._pods.get(traffic, ()) if s.plan.peer == session.plan.peer)
        answers = [pod.since(session.first_loss) for pod in pods]
        return any(hits >= LEAST_ANSWERS and not misses for hits, misses in answers)

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
    return e.remote_relay if e.remote_relay in found.answering else ""


def because(e: Evidence) -> tuple[str, ...]:
    """What is not answered at which node, beside what is."""
    found = e.pod_network
    names = [name for traffic, name in _ASKED.items() if traffic in found.lost and PodTraffic.PROBES not in found.lost]
    kind = " and no ".join(names) or "probe"
    seen = {node for _, node in e.silent_canaries} & {*found.silent}
    answering = (*found.answering, *found.answering_elsewhere)
    return (
        f"no {kind} from this node's address among its pods to that of {', '.join(found.silent)} is answered",
        f"those of {', '.join(answering)} answer" if answering else "none of the others is answered either",
        "" if PodTraffic.PROBES in found.lost else "the probes between the same addresses are answered",
        *(f"a {name} is answered as well" for traffic, name in _ASKED.items() if traffic in found.passing),
        "every layer of the mesh below answers, at the addresses of the nodes",
        ""
        if not names or seen
        else "no canary there is silent: a filter for what comes to the nodes themselves looks the same",
    )


def _is_in_doubt(session: Session) -> bool:
    """Whether it may be silent with the next probes; chance misses alone do not get so far."""
    return session.state is SessionState.DOWN or session.cusum.nats >= DISTURBED_NATS
