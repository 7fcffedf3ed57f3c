"""What only warns: IPv6 beside IPv4, and canaries. Neither moves traffic; each is named when it alone is silent.

The standby routes are IPv4, and so are all sessions that judge a path. An IPv6 session shares its leg with an IPv4
twin: while the twin is dead its silence says nothing new, and while the twin lives it says that only IPv6 is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from meshwatchd.core.diagnosis.evidence import BulkPlaces
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.model.canary import Canary, CanaryKind, CanaryRole
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import SessionPlan

NEVER_ANSWERED = 10
"""Questions in vain since the start after which a session that never was up counts as silent."""

SURE_ANSWERS = 3
"""A canary may ride on a flow that the network remembers once, and twice; a third time is no accident."""

_LADDER = (Layer.UNDERLAY, Layer.WIREGUARD, Layer.OVERLAY, Layer.RELAY)
"""From the lowest on: the layer that is named is the one to look at first."""


class SideIssues:
    """The advisory sessions of one pair of locations.

    Args:
        is_outside: whether a canary asks a host outside of the mesh: then it is a witness, and stands for no pod.
    """

    def __init__(
        self,
        schedule: Schedule,
        concerns: Callable[[SessionPlan], bool],
        is_outside: Callable[[SessionPlan], bool] = lambda _plan: False,
    ) -> None:
        concerned = tuple(s for s in schedule.select(layer=Layer.POD, is_advisory=True) if concerns(s.plan))
        asked = tuple(s for s in concerned if not is_service(s.plan) and not is_outside(s.plan))
        self.services = tuple(s for s in concerned if is_service(s.plan))
        self.canaries = tuple(s for s in asked if not is_bulk(s.plan))
        self._bulk = bulk_and_handshake(asked)
        self._twins = tuple(
            (session, twin)
            for layer in _LADDER
            for session in schedule.select(layer=layer, is_advisory=True)
            if concerns(session.plan)
            for twin in _twins(schedule, session.plan)
        )

    def silent_ip6(self) -> tuple[tuple[Layer, str], ...]:
        """Layers and peers that do not answer by IPv6 while they do by IPv4, the lowest layer first."""
        return tuple(
            (session.plan.layer, session.plan.peer)
            for session, twin in self._twins
            if is_silent(session) and twin.is_proven and twin.state is not SessionState.DOWN
        )

    def silent_canaries(self) -> tuple[tuple[str, str], ...]:
        """Names and nodes of the canaries that ask a pod and get no answer."""
        return tuple(place_of(s.plan) for s in self.canaries if is_mute(s) and asks_pod(s.plan))

    def answering_nodes(self) -> tuple[str, ...]:
        """The nodes of the canaries whose pods answer, and have done so since the last of others fell silent."""
        pods = tuple(s for s in self.canaries if asks_pod(s.plan))
        since = max((s.first_loss for s in pods if is_mute(s)), default=0)
        up = (s for s in pods if s.is_proven and s.state is not SessionState.DOWN)
        return tuple(dict.fromkeys(s.plan.peer for s in up if not since or s.since(since)[0]))

    def silent_services(self) -> tuple[Canary, ...]:
        """The canaries that ask a kubelet or an API server and get no answer; API servers, which serve many, first."""
        silent = (canary_of(s.plan) for s in self.canaries if is_mute(s) and not asks_pod(s.plan))
        return tuple(sorted(silent, key=lambda each: each.resolved_role is not CanaryRole.APISERVER))

    def bulk_lost_since(self) -> int:
        """When full segments began to be lost to the first that loses them, at the latest; 0 while none does."""
        return min((_lost_since(s) for s, twin in self._bulk if is_bulk_lost(s, twin)), default=0)

    def bulk(self) -> BulkPlaces:
        """What has become of the canaries in bulk that were ever carried."""
        return sort_bulk(self._bulk, self.bulk_lost_since())

    def answering_canaries(self, since: int, counts: Callable[[SessionPlan], bool]) -> tuple[str, ...]:
        """Of the canaries that count, those that have answered every question since an instant, several of them.

        With no instant: those of them that answer at all.
        """
        if not since:
            return tuple(place_of(s.plan)[0] for s in self.canaries if counts(s.plan) and not is_silent(s))
        outcomes = [(session, session.since(since)) for session in self.canaries if counts(session.plan)]
        return tuple(place_of(s.plan)[0] for s, (hits, misses) in outcomes if hits >= SURE_ANSWERS and not misses)


def is_silent(session: Session) -> bool:
    """Whether a session is down, or was asked often enough and never came up."""
    if session.is_proven:
        return session.state is SessionState.DOWN
    return session.last_heard == 0 and session.lost >= NEVER_ANSWERED


def is_mute(canary: Session) -> bool:
    """Whether a canary is silent, and has not begun to answer.

    One that was silent for whatever broke the path is down for ten answers more, which is longer than the path is.
    """
    return is_silent(canary) and canary.streak(0) < SURE_ANSWERS


def is_service(plan: SessionPlan) -> bool:
    """Whether a service is asked for by its own protocol: it may be anybody's, and says nothing of pods or paths."""
    return plan.canary is not None and plan.canary.is_service


def is_bulk(plan: SessionPlan) -> bool:
    """Whether full segments are sent; then silence says nothing of whoever is asked."""
    return plan.canary is not None and plan.canary.kind is CanaryKind.BULK


def bulk_and_handshake(asked: tuple[Session, ...]) -> tuple[tuple[Session, Session], ...]:
    """The canaries in bulk, each with the session that only connects to the same service."""
    small = {place_of(s.plan): s for s in asked if not is_bulk(s.plan)}
    return tuple((s, small[place_of(s.plan)]) for s in asked if is_bulk(s.plan) and place_of(s.plan) in small)


def is_bulk_lost(bulk: Session, handshake: Session) -> bool:
    """Whether connections go on being accepted since the last time that full segments were acknowledged."""
    if not bulk.is_proven or bulk.state is not SessionState.DOWN:
        return False
    hits, misses = handshake.since(bulk.last_heard)
    return hits >= SURE_ANSWERS and hits >= SURE_ANSWERS * misses


def sort_bulk(asked: tuple[tuple[Session, Session], ...], since: int) -> BulkPlaces:
    """Which canaries in bulk are lost, carried or awaited since an instant; 0: no loss is known.

    They come round one after the other: whoever answered last before the loss began is no witness of what came then.
    One that is down with its handshake says nothing of full segments.
    """
    lost = tuple(place_of(s.plan) for s, twin in asked if is_bulk_lost(s, twin))
    up = tuple(s for s, _ in asked if s.is_proven and s.state is not SessionState.DOWN)
    carried = tuple(place_of(s.plan) for s in up if not since or s.since(since)[0] >= SURE_ANSWERS)
    awaited = tuple(
        place
        for s, twin in asked
        if (place := place_of(s.plan)) not in (*lost, *carried) and (s in up or _may_be_lost(s, twin))
    )
    return BulkPlaces(lost=lost, carried=carried, awaited=awaited)


def _may_be_lost(bulk: Session, handshake: Session) -> bool:
    """Nothing is acknowledged, and too few connections were tried since to say that they are accepted."""
    is_down = bulk.state is SessionState.DOWN and handshake.state is not SessionState.DOWN
    return is_down and handshake.since(bulk.last_heard)[0] < SURE_ANSWERS


def _lost_since(bulk: Session) -> int:
    """At the latest: the question that followed the last one to be answered was in vain.

    The history would tell exactly, and forgets how it began.
    """
    return bulk.last_heard + canary_of(bulk.plan).interval


def _twins(schedule: Schedule, plan: SessionPlan) -> Iterator[Session]:
    yield from schedule.select(layer=plan.layer, peer=plan.peer, path=plan.path, flow=plan.flow)


def place_of(plan: SessionPlan) -> tuple[str, str]:
    """Name and node of a canary."""
    return canary_of(plan).name, plan.peer


def canary_of(plan: SessionPlan) -> Canary:
    """The canary that a session of Layer.POD asks."""
    assert plan.canary is not None, "sessions of Layer.POD ask a canary"
    return plan.canary


def asks_pod(plan: SessionPlan) -> bool:
    """Whether its silence speaks for pods; kubelets and API servers are the host's own."""
    return canary_of(plan).resolved_role is CanaryRole.POD
