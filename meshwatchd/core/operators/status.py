"""The engine's state as operators see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwatchd.core.diagnosis.advisory_probes import is_silent
from meshwatchd.core.diagnosis.classifier import explains
from meshwatchd.core.diagnosis.service_canaries import EXPLAINABLE, troubles
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.core.pmtu.report import build_sizes
from meshwatchd.core.probing.intervals import Rate
from meshwatchd.core.probing.rest_limits import describe_rest, shape_of
from meshwatchd.core.session.session import Session
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.canary import Canary
from meshwatchd.model.faults import Severity, Verdict, weight
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.status import UNWATCHED, CanaryStatus, PairStatus, PathStatus, RateStatus, SessionStatus, Status


def build_status(
    state: EngineState,
    now: int,
    counters: Mapping[str, int],
    *,
    rejected: str = "",
    collisions: tuple[str, ...] = (),
) -> Status:
    """Everything `meshwatchctl status` shows.

    Args:
        state: of the engine.
        now: monotonic nanoseconds.
        counters: what the process has counted.
        rejected: why the last snapshot shows no mesh; empty where it shows one.
        collisions: what keeps this node from changing anything, though its mode is enforce.
    """
    controllers = tuple(state.controllers.values())
    pairs = tuple(_pair(state, controller, now) for controller in controllers)
    findings = state.findings.status()
    of_pairs = max((pair.verdict.severity for pair in pairs), key=weight, default=Severity.WARNING)
    of_node = Severity.WARNING if collisions else Severity.OK
    worst = max((of_pairs, of_node, *(each.severity for each in findings)), key=weight)
    return Status(
        at_ns=now,
        node=state.node,
        location=state.topology.local.location if state.topology else "",
        role=_role(state),
        mode=state.settings.daemon.mode,
        is_ready=bool(controllers) and all(controller.is_ready for controller in controllers),
        severity=worst,
        pairs=pairs,
        sessions=tuple(_session(each) for each in state.schedule.sessions if each.plan.layer is not Layer.POD),
        canaries=tuple(
            _canary(session, session.plan.canary, controller.verdicts.current, here=state.node)
            for controller in controllers
            for session in (*controller.watch.side.canaries, *controller.watch.side.services)
            if session.plan.canary is not None
        ),
        rates=tuple(_rate(rate) for rate in state.schedule.rates()),
        counters=dict(counters),
        sizes=build_sizes(state.sizes, state.topology, now),
        findings=findings,
        orders=state.memory.orders.standing,
        rejected=rejected,
        collisions=collisions,
        rest=describe_rest(state.settings.probe, shape_of(state.topology)) if state.topology else None,
        detour=state.leg.describe(),
        drained=tuple(name for name in _names(state) if state.views.is_admin_down(name, now)),
    )


def _names(state: EngineState) -> Iterator[NodeName]:
    return (node.name for node in state.topology.mesh.nodes) if state.topology is not None else iter(())


def _role(state: EngineState) -> str:
    if state.topology is None:
        return "unknown"
    location = state.topology.mesh.location(state.topology.local.location)
    if state.node == location.leader:
        return "leader"
    return "standby" if state.node in location.standbys else "member"


def _pair(state: EngineState, controller: PairController, now: int) -> PairStatus:
    assert state.topology is not None, "controllers exist only with a topology"
    watch, active = controller.watch, controller.mover.active
    following = controller.next_path(now)
    states = [_state(watch.group(path)) for path in watch.paths]
    watched = [each for each in zip(watch.paths, states, strict=True) if each[1] != UNWATCHED]
    standbys = [state for path, state in watched if not path.is_between_leaders]
    good = sum(state == "good" for state in standbys)
    return PairStatus(
        pair=watch.index,
        location=state.topology.local.location,
        remote_location=watch.remote,
        active_rank=active.rank,
        generation=controller.mover.generation,
        verdict=controller.verdicts.current,
        redundancy="none" if not good else "full" if good == len(standbys) else "reduced",
        is_chosen=controller.mover.is_pinned,
        paths=tuple(
            PathStatus(
                number=path.number,
                rank=path.rank,
                relays=path.relays,
                state=each,
                is_active=path is active,
                is_local_relay=state.node in path.relays,
                penalty=int(controller.context.damper.penalty(path, now)),
                is_suppressed=controller.context.damper.is_suppressed(path, now),
                is_next=path is following,
            )
            for path, each in zip(watch.paths, states, strict=True)
        ),
    )


def _state(group: Group) -> str:
    if not group.sessions:
        return UNWATCHED
    if group.is_down:
        return "down"
    if not group.is_proven:
        return "unknown"
    return "suspect" if group.is_suspect or not group.is_good else "good"


def _session(session: Session) -> SessionStatus:
    plan = session.plan
    return SessionStatus(
        peer=plan.peer,
        layer=plan.layer,
        path=plan.path,
        flow=plan.flow,
        address=plan.destination,
        state=session.state,
        rtt_ns=session.rtt_ns,
        sent=session.sent,
        lost=session.lost,
        last_heard_ns=session.last_heard,
    )


def _canary(session: Session, canary: Canary, verdict: Verdict, *, here: NodeName) -> CanaryStatus:
    [*trouble] = troubles((session,))
    may_be_explained = is_silent(session) and all(each.fault in EXPLAINABLE for each in trouble)
    is_explained = may_be_explained and explains(verdict.fault, verdict.culprit, canary.node, here=here)
    return CanaryStatus(
        name=canary.name,
        node=canary.node,
        kind=canary.kind,
        address=canary.address,
        port=canary.port,
        state=session.state,
        rtt_ns=session.rtt_ns,
        sent=session.sent,
        lost=session.lost,
        last_heard_ns=session.last_heard,
        depends_on=verdict.fault if is_explained else "",
        fault="" if is_explained else next((each.fault.value for each in trouble), ""),
    )


def _rate(rate: Rate) -> RateStatus:
    return RateStatus(
        layer=rate.kind.layer,
        path=rate.kind.path,
        flow=rate.kind.flow,
        sessions=rate.sessions,
        interval_ns=rate.interval_ns,
        stretch=round(rate.stretch, 2),
    )
