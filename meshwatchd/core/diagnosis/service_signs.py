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

_BAD_STATES: Final = {("Valid", "False"), ("Ready", "False"), ("Conflict", "True")}


def result_of(lookup: Lookup | None) -> DnsResult | None:
    """None where nothing was asked."""
    return lookup.result if lookup is not None else None


def is_without_address(o: Observations) -> bool:
    """The name exists, and has no address of either family."""
    return result_of(o.answer) is DnsResult.EMPTY and not o.addresses


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
    """Ready endpoints of all clusters that export it; None where the API knows of no endpoints at all."""
    groups = o.api.exported_endpoints if o.api is not None else ()
    return sum(each.ready_total for each in groups) if groups else None


def broken_ways(o: Observations) -> tuple[MeshWay, ...]:
    """Ways of the mesh on which its own probes fail."""
    return tuple(way for way in o.ways if way.is_broken)


def is_way_broken(o: Observations) -> bool:
    """The way to such an address is broken; where no node is known to have it, the ways to all locations are."""
    broken = broken_ways(o)
    return bool(broken) and (bool(broken[0].address) or broken == o.ways)


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


def late_ports(o: Observations) -> tuple[int, ...]:
    """The service's ports by the API, where it has named them after others were tried in their place."""
    ports = o.api.tcp_ports if o.api is not None and is_guessed(o) else ()
    return () if any(each.port in ports for each in o.connections if each.is_guessed) else ports


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
    """An alert about a certificate, or one that is out of date; the wish for a client's is none of it."""
    talks = [each.tls for each in judged(o) if each.tls is not None]
    return any(talk.is_expired or _is_about_identity(talk.alert) for talk in talks)


def _is_about_identity(alert: str) -> bool:
    return alert != WANTS_CERTIFICATE and ("certificate" in alert or alert in ("unknown_ca", "access_denied"))


def rejected_talks(o: Observations) -> tuple[Connection, ...]:
    """Handshakes that the other end has ended, and not for a certificate."""
    ends = (Handshake.CLOSED, Handshake.NOT_TLS, Handshake.ALERT)
    return tuple(
        each
        for each in judged(o)
        if each.tls is not None
        and each.tls.outcome in ends
        and each.tls.alert != WANTS_CERTIFICATE
        and not _is_about_identity(each.tls.alert)
    )


def mute_talks(o: Observations) -> tuple[Connection, ...]:
    """Established connections on which TLS or HTTP was not answered, and there was time to."""
    return tuple(
        each
        for each in judged(o)
        if (each.tls is not None and each.tls.outcome is Handshake.SILENT)
        or (_is_without_status(each) and each.http is not None and each.http.is_tried)
    )


def untried_talks(o: Observations) -> tuple[Connection, ...]:
    """Established connections on which no time was left for TLS or HTTP."""
    return tuple(
        each
        for each in judged(o)
        if (each.tls is not None and each.tls.outcome is Handshake.UNTRIED)
        or (_is_without_status(each) and each.http is not None and not each.http.is_tried)
    )


def _is_without_status(each: Connection) -> bool:
    """An alert ends the connection, so what follows it is no silence."""
    is_ended = each.tls is not None and each.tls.outcome is Handshake.ALERT
    return each.http is not None and each.http.status == 0 and not is_ended


def failed_http(o: Observations) -> tuple[Connection, ...]:
    """Answers of HTTP that say that the server cannot serve (5xx)."""
    return tuple(each for each in judged(o) if each.http is not None and each.http.status >= 500)


def is_withdrawn(o: Observations) -> bool:
    """The name has led to another cluster, and leads to this one's own service."""
    before = o.remembered
    return before is not None and not before.is_local and o.is_local and {*before.addresses} != {*o.addresses}
