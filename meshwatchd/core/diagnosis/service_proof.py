"""What a judgement about a service rests on, as sentences; what the Kubernetes API says begins with "API:"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meshwatchd.core.diagnosis.service_signs import WANTS_CERTIFICATE, bad_conditions, late_ports
from meshwatchd.model.faults import find_fault
from meshwatchd.model.service_check import (
    Connection,
    DnsResult,
    Handshake,
    Lookup,
    MeshWay,
    Observations,
    Origin,
    Reach,
    Segments,
    TlsResult,
)

_DNS: Final = {
    DnsResult.EMPTY: "answers without an address (NOERROR)",
    DnsResult.NXDOMAIN: "answers NXDOMAIN",
    DnsResult.SERVFAIL: "answers SERVFAIL",
    DnsResult.SILENT: "does not answer",
}
_ORIGINS: Final = {
    Origin.ANSWER: "",
    Origin.GIVEN: "",
    Origin.ENDPOINT: "the endpoint ",
    Origin.LAST: "the last known address ",
}
_HANDSHAKES: Final = {
    Handshake.CLOSED: "the connection ends within the TLS handshake",
    Handshake.NOT_TLS: "what answers is no TLS",
    Handshake.SILENT: "the TLS handshake is not answered",
    Handshake.UNTRIED: "no time was left for a TLS handshake",
}


def dns(o: Observations) -> Iterator[str]:
    """What the DNS servers answer."""
    for lookup in (o.answer, o.also, o.control):
        if lookup is not None:
            yield _answered(lookup)
    if o.answer6 is not None and o.answer6.addresses:
        yield _answered(o.answer6)


def _answered(lookup: Lookup) -> str:
    return f"{lookup.server}, asked for {lookup.name}, {_dns_result(lookup)}"


def _dns_result(lookup: Lookup) -> str:
    if lookup.result is DnsResult.ADDRESSES:
        return f"answers {', '.join(lookup.addresses)}"
    words = _DNS.get(lookup.result, f"answers {lookup.detail}")
    if lookup.result is DnsResult.NXDOMAIN and lookup.zone:
        return f"{words} for the zone {lookup.zone}"
    return f"{words} ({lookup.detail})" if lookup.result is DnsResult.SILENT and lookup.detail else words


def connections(o: Observations) -> Iterator[str]:
    """What the SYNs met; the last known address is no part of it."""
    for each in o.connections:
        if each.origin is not Origin.LAST:
            yield _reached(each)
    late = late_ports(o)
    if late:
        yield f"API: it named port {late[0]} too late: --port {late[0]}"
    elif any(each.is_guessed for each in o.connections):
        yield "the port of the service is not known: the usual ones were tried"


def _reached(each: Connection) -> str:
    where = f"{_ORIGINS[each.origin]}{each.address} port {each.port}"
    match each.reach:
        case Reach.ESTABLISHED:
            return f"{where} accepts connections"
        case Reach.REFUSED:
            return f"{where} refuses the connection"
        case Reach.UNREACHABLE:
            return f"{where} cannot be reached: {each.detail}"
        case Reach.SILENT:
            return f"{where} does not answer the SYN"


def last(o: Observations) -> Iterator[str]:
    """Whether the last known address still answers, which makes it discovery alone."""
    tried = [each for each in o.connections if each.origin is Origin.LAST]
    for each in tried:
        if each.reach in (Reach.ESTABLISHED, Reach.REFUSED):
            yield f"{_reached(each)}: only the name is missing, the way still works"
    if tried and all(each.reach in (Reach.SILENT, Reach.UNREACHABLE) for each in tried):
        addresses = ", ".join(dict.fromkeys(each.address for each in tried))
        yield f"the last known address {addresses} does not answer either: look at the way as well"


def mesh(o: Observations) -> Iterator[str]:
    """What the daemon knows of the way; why it was not asked."""
    if o.daemon_problem:
        yield "the daemon cannot be asked, so it is not known whether the mesh's own probes pass"
    if o.ways and not any(way.address for way in o.ways):
        yield "the mesh knows no node with such an address, so all its locations are looked at"
    for way in o.ways:
        yield _described(way)


def _described(way: MeshWay) -> str:
    whose = f"{way.address} belongs to {way.node}{f' in {way.location}' if way.location else ''}: " if way.node else ""
    over = f"the path {way.path}" if way.path else "the way there"
    to = "" if whose else f" to {way.location}"
    state = f"{whose}{over}{to} is {way.state or 'not watched'}"
    if not way.fault:
        return state
    fault = find_fault(way.fault)
    title = fault.title if fault is not None else way.fault
    named = f" at {way.culprit}" if way.culprit else ""
    return f"{state}; {way.fault}, layer {way.layer}{named}: {title}"


def segments(o: Observations) -> Iterator[str]:
    """What became of full segments."""
    for each in o.connections:
        if each.segments is Segments.LOST:
            yield f"{each.address} port {each.port} accepts connections, and acknowledges no full segment"
        elif each.segments is Segments.ACKNOWLEDGED:
            yield f"{each.address} port {each.port} acknowledges full segments"


def tls(o: Observations) -> Iterator[str]:
    """What the handshakes brought."""
    for each in o.connections:
        if each.tls is not None:
            asked = f" for {each.tls.sni}" if each.tls.sni else ""
            yield f"{each.address} port {each.port}{asked}: {_shaken(each.tls)}"


def _shaken(talk: TlsResult) -> str:
    if talk.outcome is Handshake.ALERT:
        wanted = ", so a workload of the mesh has answered" if talk.alert == WANTS_CERTIFICATE else ""
        return f"the peer sends {f'the TLS alert {talk.alert}' if talk.alert else 'a TLS alert without a name'}{wanted}"
    if talk.outcome is not Handshake.DONE:
        return _HANDSHAKES[talk.outcome] + (f" ({talk.detail})" if talk.detail else "")
    spent = ", and its certificate has expired" if talk.is_expired else ""
    doubt = f"; this host's authorities do not vouch for it ({talk.doubt})" if talk.doubt else ""
    return f"{talk.version} is agreed{spent}{doubt}"


def http(o: Observations) -> Iterator[str]:
    """What HTTP answered."""
    for each in o.connections:
        if each.http is not None:
            missing = "does not answer" if each.http.is_tried else "had no time left to answer"
            result = f"answers {each.http.status}" if each.http.status else missing
            yield f"{each.address} port {each.port} {result}: GET {each.http.path}"


def withdrawn(o: Observations) -> Iterator[str]:
    """Where the name has led before."""
    if o.remembered is not None:
        yield f"the name was {', '.join(o.remembered.addresses)} before, and is this cluster's own service"


def api(o: Observations) -> Iterator[str]:
    """What the Kubernetes API says about it."""
    if o.api is None:
        return
    for each in bad_conditions(o):
        yield f"API: the ServiceExport has {each.type}={each.status}, {each.reason}: {each.message}"
    if o.api.is_exported is False:
        yield "API: this cluster has no ServiceExport of that name"
    if o.api.is_imported is False:
        yield "API: this cluster has no ServiceImport of that name"
    elif o.api.is_imported:
        clusters = f", exported by {', '.join(o.api.clusters)}" if o.api.clusters else ""
        yield f"API: this cluster has the ServiceImport{clusters}"
    for group in o.api.endpoints or ():
        whose = f"of cluster {group.cluster}" if group.cluster else "of this cluster"
        yield f"API: {group.ready_total} of {group.total} endpoints {whose} are ready"
