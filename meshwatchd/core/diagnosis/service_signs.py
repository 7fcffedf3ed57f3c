"""What the rules about a service look at, each as one function of the observations."""

from __future__ import annotations

from typing import Final

from meshwatchd.model.service_check import (
    ApiCondition,
    Connection,
    DnsResult,
    Handshake,
    Lookup,
    MeshWay,
    Observations,
    Origin,
    Reach,
    Segments,
)

UNANSWERED: Final = (Reach.SILENT, Reach.UNREACHABLE)

WANTS_CERTIFICATE: Final = "certificate_required"
"""Alert 116: the gateway has passed the handshake on to a workload that wants a client of the mesh; we are none."""

_NAMES: Final = ("unrecognized_name", "no_application_protocol")
"""Alerts about what was asked for, not about who asks."""

_BAD_STATES: Final = {("Valid", "False"), ("Ready", "False"), ("Conflict", "True")}


def result_of(lookup: Lookup | None) -> DnsResult | None:
    """None where nothing was asked."""
    return lookup.result if lookup is not None else None


def is_direct_better(o: Observations) -> bool:
    """The second server has addresses, and the first has none."""
    return o.answer is not None and not o.addresses and result_of(o.also) is DnsResult.ADDRESSES


def is_domain_foreign(o: Observations) -> bool:
    """The question is refused, or the name denied by a zone that the set's domain is not in, as the root."""
    if o.answer is None or o.answer.result is not DnsResult.NXDOMAIN:
        return result_of(o.answer) is DnsResult.REFUSED
    zone = o.answer.zone
    return bool(zone) and zone != o.domain and not zone.endswith(f".{o.domain}")


def bad_conditions(o: Observations) -> tuple[ApiCondition, ...]:
    """Conditions of the ServiceExport that say that it is not accepted."""
    conditions = o.api.conditions if o.api is not None else ()
    return tuple(each for each in conditions if (each.type, each.status) in _BAD_STATES)


def is_export_missing_here(o: Observations) -> bool:
    """This cluster has the service, and neither exports nor imports it."""
    api = o.api
    has_own = any(not each.cluster and each.total for each in (api.endpoints or ())) if api is not None else False
    return api is not None and api.is_exported is False and not api.is_imported and has_own


def count_ready(o: Observations) -> int | None:
    """Ready endpoints of all clusters; None where the API knows of no endpoints at all."""
    groups = (o.api.endpoints or ()) if o.api is not None else ()
    return sum(each.ready_total for each in groups) if groups else None


def broken_ways(o: Observations) -> tuple[MeshWay, ...]:
    """Ways of the mesh on which its own probes fail."""
    return tuple(way for way in o.ways if way.is_broken)


def judged(o: Observations) -> tuple[Connection, ...]:
    """Connections to the name's addresses; of ports that were guessed the best one of each address."""
    direct = [each for each in o.connections if each.origin in (Origin.ANSWER, Origin.GIVEN)]
    known = [each for each in direct if not each.is_guessed]
    best: dict[str, Connection] = {}
    for each in sorted((each for each in direct if each.is_guessed), key=lambda each: [*Reach].index(each.reach)):
        best.setdefault(each.address, each)
    return (*known, *best.values())


def is_guessed(o: Observations) -> bool:
    """Nobody has said which port the service has."""
    return any(each.is_guessed for each in judged(o))


def with_reach(o: Observations, *wanted: Reach) -> tuple[Connection, ...]:
    """Connections that ended so."""
    return tuple(each for each in judged(o) if each.reach in wanted)


def without_answer(o: Observations) -> tuple[Connection, ...]:
    """Connections of which the SYN was not answered, neither way."""
    return with_reach(o, *UNANSWERED)


def is_reached(o: Observations) -> bool:
    """Some address of the name accepts connections, and full segments too as far as they were tried."""
    return any(each.segments is not Segments.LOST for each in with_reach(o, Reach.ESTABLISHED))


def endpoints_established(o: Observations) -> tuple[Connection, ...]:
    """Connections to endpoints that the API has named."""
    return tuple(each for each in o.connections if each.origin is Origin.ENDPOINT and each.reach is Reach.ESTABLISHED)


def is_identity_refused(o: Observations) -> bool:
    """An alert, or a certificate that is out of date; the wish for a client's certificate is none of it."""
    talks = [each.tls for each in judged(o) if each.tls is not None]
    return any(
        talk.is_expired
        or (talk.outcome is Handshake.ALERT and talk.alert != WANTS_CERTIFICATE and talk.alert not in _NAMES)
        for talk in talks
    )


def rejected_talks(o: Observations) -> tuple[Connection, ...]:
    """Handshakes that were ended without TLS, or since the name or protocol is not known."""
    ends = (Handshake.CLOSED, Handshake.NOT_TLS)
    return tuple(
        each for each in judged(o) if each.tls is not None and (each.tls.outcome in ends or each.tls.alert in _NAMES)
    )


def mute_talks(o: Observations) -> tuple[Connection, ...]:
    """Established connections on which neither TLS nor HTTP was answered."""
    return tuple(
        each
        for each in judged(o)
        if (each.tls is not None and each.tls.outcome is Handshake.SILENT)
        or (each.http is not None and each.http.status == 0 and (each.tls is None or not each.tls.alert))
    )


def failed_http(o: Observations) -> tuple[Connection, ...]:
    """Answers of HTTP that say that the server cannot serve (5xx)."""
    return tuple(each for each in judged(o) if each.http is not None and each.http.status >= 500)


def is_withdrawn(o: Observations) -> bool:
    """The name has led to another cluster, and leads to this one's own service."""
    before = o.remembered
    return before is not None and not before.is_local and o.is_local and {*before.addresses} != {*o.addresses}
