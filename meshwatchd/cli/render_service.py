"""A service of several clusters as text: the judgement, what it rests on, and each step that was taken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from meshwatchd.cli.text import Cell, Paint, columns, entry, render_age, render_rtt
from meshwatchd.model.service_check import (
    ApiFacts,
    Area,
    Connection,
    DnsResult,
    Handshake,
    Health,
    Judgement,
    Lookup,
    Observations,
    Origin,
    Reach,
    Segments,
)

_HEALTH = MappingProxyType(
    {Health.GOOD: ("OK", "ok"), Health.DOUBTFUL: ("DOUBTFUL", "warning"), Health.BROKEN: ("BROKEN", "critical")}
)
_AREAS = MappingProxyType(
    {
        Area.NONE: "",
        Area.DISCOVERY: "discovery, ",
        Area.DATAPATH: "datapath, ",
        Area.SERVICE: "service, ",
        Area.UNKNOWN: "",
    }
)
_ORIGINS = MappingProxyType({Origin.ENDPOINT: ", an endpoint", Origin.LAST: ", the last known address"})


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of the command."""

    judgement: Judgement
    observations: Observations


def render_service(view: ServiceView, *, paint: Paint) -> str:
    """The page."""
    judged, seen = view.judgement, view.observations
    word, role = _HEALTH[judged.health]
    area = "" if judged.area.value == judged.code.value else _AREAS[judged.area]
    lines = [f"{paint(word, role)}  {seen.name}: {area}{paint(judged.code.value, 'strong')}"]
    lines += entry("what", [judged.meaning], paint)
    if judged.proof:
        lines += entry("why", judged.proof, paint)
    if judged.remedy:
        lines += entry("do", [judged.remedy], paint)
    rows = [*_lookups(seen), *_connections(seen), *_ways(seen), *_api(seen), *_memory(seen)]
    lines += ["", *columns(("STEP", "ASKED", "RESULT", "TIME"), rows, paint)]
    problems = {"daemon": seen.daemon_problem, "API": seen.api_problem}
    notes = [*seen.notes, *(f"{who} not asked: {why}" for who, why in problems.items() if why)]
    lines += ["", *(paint(note, "dim") for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def _row(step: str, asked: str, result: Cell, time_ns: int = 0) -> list[Cell]:
    return [(step, ""), (asked, ""), result, (render_rtt(time_ns) if time_ns else "", "")]


def _lookups(seen: Observations) -> Iterator[list[Cell]]:
    for lookup in (seen.answer, seen.answer6, seen.also, seen.local, seen.control):
        if lookup is not None:
            asked = f"{lookup.server}: {lookup.name} {lookup.record}"
            yield _row("dns", asked, _answered(lookup), lookup.time_ns)


def _answered(lookup: Lookup) -> Cell:
    if lookup.result is DnsResult.ADDRESSES:
        return ", ".join(lookup.addresses), "ok"
    words = {DnsResult.EMPTY: "no address", DnsResult.SILENT: "no answer"}.get(lookup.result, lookup.detail)
    zone = f" for the zone {lookup.zone}" if lookup.zone and lookup.result is DnsResult.NXDOMAIN else ""
    return f"{words}{zone}", "" if lookup.record == "AAAA" else "warning"


def _connections(seen: Observations) -> Iterator[list[Cell]]:
    for each in seen.connections:
        guess = ", guessed" if each.is_guessed else ""
        asked = f"{each.address} port {each.port}{_ORIGINS.get(each.origin, '')}{guess}"
        detail = f": {each.detail}" if each.detail and each.reach is Reach.UNREACHABLE else ""
        role = "ok" if each.reach is Reach.ESTABLISHED else "critical"
        yield _row("connect", asked, (f"{each.reach}{detail}", role), each.time_ns)
        yield from _inside(each, asked)


def _inside(each: Connection, asked: str) -> Iterator[list[Cell]]:
    """What an established connection carries."""
    if each.segments is not Segments.UNTRIED:
        role = {Segments.ACKNOWLEDGED: "ok", Segments.LOST: "critical"}.get(each.segments, "")
        words = "closed by the service first" if each.segments is Segments.CLOSED else each.segments.value
        yield _row("segments", asked, (words, role))
    talk = each.tls
    if talk is not None:
        words = {Handshake.DONE: talk.version, Handshake.ALERT: f"alert {talk.alert or 'without a name'}"}.get(
            talk.outcome, talk.outcome.value
        )
        words += f", ALPN {talk.alpn}" if talk.alpn else ""
        if talk.ends_s:
            words += f", certificate until {datetime.fromtimestamp(talk.ends_s, UTC):%Y-%m-%d}"
        words += f", not verified: {talk.doubt}" if talk.doubt else ", verified" * bool(talk.ends_s)
        name = f"{each.address} port {each.port} {talk.sni}".rstrip()
        yield _row("tls", name, (words, "ok" if talk.outcome is Handshake.DONE and not talk.is_expired else "warning"))
    if each.http is not None:
        status = each.http.status
        words = str(status) if status else "no answer" if each.http.is_tried else "untried"
        role = "ok" if 200 <= status < 400 else "warning"
        yield _row("http", f"{each.address} port {each.port} {each.http.path}", (words, role))


def _ways(seen: Observations) -> Iterator[list[Cell]]:
    for way in seen.ways:
        place = f" in {way.location}" if way.location else ""
        asked = f"{way.address}, {way.kind} of {way.node}{place}" if way.node else f"location {way.location}"
        words = (way.state or "not watched") + (f" by {way.path}" if way.path else "")
        words += f"; {way.fault}{f' at {way.culprit}' if way.culprit else ''}" if way.fault else ""
        yield _row("mesh", asked, (words, "critical" if way.is_broken else "ok"))


def _api(seen: Observations) -> Iterator[list[Cell]]:
    if seen.api is not None:
        yield from _facts(seen.api)


def _facts(api: ApiFacts) -> Iterator[list[Cell]]:
    if api.is_imported is not None:
        ports = ", ".join(f"{port.protocol} {port.port}" for port in api.ports)
        found = " ".join(filter(None, (api.kind or "there", ", ".join(api.ips), ports)))
        yield _row("api", "ServiceImport", (found, "ok") if api.is_imported else ("missing", "warning"))
    if api.is_exported is not None:
        words = ", ".join(f"{each.type}={each.status} {each.reason}".rstrip() for each in api.conditions)
        yield _row("api", "ServiceExport", (words or "there", "") if api.is_exported else ("missing", ""))
    for group in api.endpoints or ():
        whose = f"EndpointSlices of {group.cluster}" if group.cluster else "EndpointSlices of this cluster"
        role = "ok" if group.ready_total else "warning"
        yield _row("api", whose, (f"{group.ready_total} of {group.total} ready", role))
    for gap in api.gaps:
        yield _row("api", gap.kind, (f"not read: {gap.why}", "warning"))


def _memory(seen: Observations) -> Iterator[list[Cell]]:
    before = seen.remembered
    if before is not None:
        when = "as given by --last" if before.age_s is None else render_age(before.age_s * 1_000_000_000)
        local = ", this cluster's own" if before.is_local else ""
        yield _row("before", f"{seen.name}, {when}", (", ".join(before.addresses) + local, ""))
