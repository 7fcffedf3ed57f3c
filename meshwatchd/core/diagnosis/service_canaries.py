"""What is wrong with a service that a canary asks for by its own protocol: kinds dns, tls and http.

What it has found goes through the table of `meshwatchctl service` (`service_rules`), so that both have one name for one
fault. It is looked at only while every layer of the mesh below answers: a way that is broken has a verdict of its own,
of which the silence of a service is a consequence. No such canary judges a path, neither for it nor against it.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.diagnosis import service_proof as proof
from meshwatchd.core.diagnosis.evidence import Evidence, ServiceTrouble
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.model.canary import Canary
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.service_check import DnsResult, Health, MeshWay, Observations, ServiceCode, ServiceSeen
from meshwatchd.model.service_faults import SERVICE_FAULTS

RECOVERED_ANSWERS = 3
"""Good answers in a row after which a canary that was down is not complained about any more."""

NEVER_GOOD = 10
"""Questions since the start without a good answer, after which a service that never was good counts as bad."""

_CODES = frozenset(fault.code.value for fault in SERVICE_FAULTS)

NAMELESS = (
    *(FaultCode.DNS_UNREACHABLE, FaultCode.DNS_FORWARD_BROKEN, FaultCode.DOMAIN_NOT_SERVED),
    *(FaultCode.NOT_SYNCED, FaultCode.NOT_EXPORTED),
)
"""Faults of discovery: the node that the canary stands for has no part in them, and nobody is named."""

EXPLAINABLE = (FaultCode.POLICY_OR_BACKEND, FaultCode.EXPORTER_UNHEALTHY, FaultCode.POD_UNREACHABLE)
"""What a broken path looks like to a canary: all else has been answered, or is discovery."""


def is_good(plan: SessionPlan, seen: ServiceSeen) -> bool:
    """Whether the service is as it should be; of a name alone an address is enough."""
    if seen.lookup is not None and seen.connection is None:
        return seen.lookup.result is DnsResult.ADDRESSES and not _canary(plan).connect
    return judge(observations(plan, seen)).health is Health.GOOD


def troubles(asked: Iterable[Session]) -> tuple[ServiceTrouble, ...]:
    """What is wrong with each of the services that have no good answer."""
    return tuple(
        _trouble(session.plan, session.seen)
        for session in asked
        if session.seen is not None and is_down(session) and not is_good(session.plan, session.seen)
    )


def is_down(session: Session) -> bool:
    """Whether good answers were missing for long enough, and have not come back."""
    if session.is_proven:
        return session.state is SessionState.DOWN and session.streak(0) < RECOVERED_ANSWERS
    return session.last_heard == 0 and session.lost >= NEVER_GOOD


def culprit(e: Evidence) -> str:
    """The node that the first of them stands for; nobody where discovery is at fault."""
    first = e.services[0]
    return "" if first.fault in NAMELESS else first.node


def because(e: Evidence) -> tuple[str, ...]:
    """What each of them has found."""
    return (
        *(
            f"canary {each.canary} ({each.node}): {sentence}"
            for each in e.services
            for sentence in (each.meaning, *each.proof)
        ),
        "every layer of the mesh below answers",
    )


def observations(plan: SessionPlan, seen: ServiceSeen) -> Observations:
    """What was found, as the table reads it; the way counts as good, since nobody asks while it is not."""
    name = _canary(plan).lookup
    return Observations(
        name=name or plan.destination,
        domain=_domain(name),
        answer=seen.lookup,
        control=seen.control,
        connections=(seen.connection,) if seen.connection is not None else (),
        ways=(MeshWay(node=plan.peer, state="up"),),
    )


def _trouble(plan: SessionPlan, seen: ServiceSeen) -> ServiceTrouble:
    found = observations(plan, seen)
    judgement = judge(found)
    lines = (*proof.dns(found), *proof.connections(found), *proof.last(found), *proof.tls(found), *proof.http(found))
    return ServiceTrouble(
        canary=_canary(plan).name,
        node=plan.peer,
        fault=_fault(judgement.code),
        meaning=judgement.meaning,
        proof=tuple(dict.fromkeys(lines)),
    )


def _fault(code: ServiceCode) -> FaultCode:
    """The line of the catalogue; what leads to no conclusion is a canary without an answer."""
    return FaultCode(code.value) if code.value in _CODES else FaultCode.POD_UNREACHABLE


def _domain(name: str) -> str:
    """The domain of the set, behind NAME.NAMESPACE.svc; of any other name all but its first label."""
    _, svc, domain = name.partition(".svc.")
    return domain if svc else name.partition(".")[2] or name


def _canary(plan: SessionPlan) -> Canary:
    assert plan.canary is not None, "a service is asked for by a canary"
    return plan.canary
