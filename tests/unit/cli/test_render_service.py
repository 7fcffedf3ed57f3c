"""Steps of a service as a table; the pages as a whole are golden files."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.render_service import ServiceView, render_service
from meshwatchd.cli.text import paint_nothing
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.model.service_check import (
    Area,
    DnsResult,
    Handshake,
    Health,
    HttpResult,
    Reach,
    Remembered,
    Segments,
    ServiceCode,
    TlsResult,
)
from tests.support.example_services import (
    CONFLICTING,
    EXAMPLES,
    EXPIRED,
    NONE_READY,
    PASSED_ON,
    VIP,
    connection,
    lookup,
    seen,
)


def _page(observations):
    return render_service(ServiceView(judgement=judge(observations), observations=observations), paint=paint_nothing)


def _rows(observations):
    """The table's lines with single spaces."""
    lines = _page(observations).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("STEP"))
    return [" ".join(line.split()) for line in lines[start + 1 :]]


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_first_line_says_what_it_is(name):
    """Health, whose business, and the code."""
    judgement = judge(EXAMPLES[name][1])
    word = {Health.GOOD: "OK", Health.DOUBTFUL: "DOUBTFUL", Health.BROKEN: "BROKEN"}[judgement.health]
    is_bare = judgement.area in (Area.NONE, Area.UNKNOWN) or judgement.code is ServiceCode.DATAPATH
    area = "" if is_bare else f"{judgement.area}, "
    assert f"{word}  shop.default: {area}{judgement.code}" == _page(EXAMPLES[name][1]).splitlines()[0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lookup(DnsResult.ADDRESSES, VIP), "A 10.110.3.4 2.00 ms"),
        (lookup(DnsResult.EMPTY), "A no address 2.00 ms"),
        (lookup(DnsResult.SILENT), "A no answer 2.00 ms"),
        (lookup(DnsResult.SERVFAIL), "A SERVFAIL 2.00 ms"),
        (lookup(DnsResult.NXDOMAIN, zone="."), "A NXDOMAIN for the zone . 2.00 ms"),
    ],
)
def test_answers_of_dns_are_short(answer, expected):
    """With server, name and time."""
    assert f"dns 10.96.0.10: shop.default.svc.clusterset.local {expected}" == _rows(seen(answer))[0]


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        (PASSED_ON, "outbound_.80_._.shop alert certificate_required"),
        (EXPIRED, "shop.example TLSv1.3, certificate until 2020-01-01, not verified: certificate has expired"),
        (
            TlsResult(outcome=Handshake.DONE, version="TLSv1.3", alpn="istio", ends_s=2_000_000_000),
            "TLSv1.3, ALPN istio, certificate until 2033-05-18, verified",
        ),
        (TlsResult(outcome=Handshake.CLOSED), "closed"),
        (TlsResult(outcome=Handshake.ALERT), "alert without a name"),
    ],
)
def test_handshakes_are_told_in_a_line(talk, expected):
    """With name, version, protocol, and the certificate's end."""
    assert f"tls 10.110.3.4 port 8080 {expected}" in _rows(seen(None, connection(tls=talk)))


def test_connections_are_told_with_what_they_carry():
    """Guesses and errors too."""
    rows = _rows(
        seen(
            None,
            connection(http=HttpResult(path="/ready", status=200), segments=Segments.CLOSED),
            connection(Reach.UNREACHABLE, detail="No route to host", is_guessed=True),
        )
    )
    assert "connect 10.110.3.4 port 8080 established 31.00 ms" in rows
    assert "segments 10.110.3.4 port 8080 closed by the service first" in rows
    assert "http 10.110.3.4 port 8080 /ready 200" in rows
    assert "connect 10.110.3.4 port 8080, guessed unreachable: No route to host 31.00 ms" in rows


def test_what_the_api_says_is_marked_as_that():
    """And what it has not said."""
    assert [
        "api ServiceImport missing",
        "api ServiceExport Conflict=True PortConflict, Valid=True Valid",
        "api EndpointSlice not read: forbidden (403 endpointslices is forbidden)",
    ] == [row for row in _rows(seen(api=CONFLICTING)) if row.startswith("api")]
    assert [
        "api ServiceImport ClusterSetIP 10.110.3.4 TCP 8080",
        "api ServiceExport missing",
        "api EndpointSlices of east 0 of 3 ready",
    ] == [row for row in _rows(seen(api=NONE_READY)) if row.startswith("api")]


def test_why_somebody_was_not_asked_stands_below():
    """With other notes."""
    shown = seen(daemon_problem="there is no socket", api_problem="it is not installed", notes=("DNS server: x",))
    assert ["DNS server: x", "daemon not asked: there is no socket", "API not asked: it is not installed"] == (
        _page(shown).splitlines()[-3:]
    )


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (Remembered(addresses=(VIP,)), "before shop.default, as given by --last 10.110.3.4"),
        (
            Remembered(addresses=(VIP,), age_s=7_300, is_local=True),
            "before shop.default, 2 h ago 10.110.3.4, this cluster's own",
        ),
    ],
)
def test_what_the_name_was_before_is_the_last_step(before, expected):
    """With its age."""
    assert expected == _rows(seen(remembered=before))[-1]


def test_the_reply_for_programs_has_all_of_it():
    """It can be read back."""
    code, observations = EXAMPLES["datapath"]
    view = ServiceView(judgement=judge(observations), observations=observations)
    decoded = msgspec.json.decode(msgspec.json.encode(view), type=ServiceView)
    assert view == decoded
    assert ServiceCode.DATAPATH is code is decoded.judgement.code
