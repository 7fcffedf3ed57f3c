"""Canaries that ask for a service by its own protocol: what is named, when, and that nothing moves for it."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.service_canaries import NAMELESS, is_good, observations
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import ApplySwitch, SessionChanged, SessionPlan, VerdictChanged
from meshwatchd.model.service_check import (
    Connection,
    DnsResult,
    Handshake,
    HttpResult,
    Lookup,
    Origin,
    Reach,
    ServiceSeen,
    TlsResult,
)
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import primary_is_silent, ready
from tests.support.lab_mesh import settings_for, with_canaries

NAME = "shop.default.svc.clusterset.local"
DNS = Canary(name="name", address="10.96.0.10", port=53, node=NodeName("a3"), kind=CanaryKind.DNS, lookup=NAME)
GATE = Canary(name="gate", address="192.0.2.7", port=15443, node=NodeName("a1"), kind=CanaryKind.TLS, sni="shop")
SURE_NS = 30 * SECOND


def _lookup(result, name=NAME, addresses=(), zone=""):
    return Lookup(server="10.96.0.10", name=name, result=result, addresses=addresses, zone=zone)


def _name(result, control=DnsResult.NXDOMAIN, **more):
    other = _lookup(control, DNS.control)
    return ServiceSeen(session=SessionId(0), seq=0, lookup=_lookup(result, **more), control=other)


def _gate(reach=Reach.ESTABLISHED, outcome=Handshake.DONE, **more):
    talk = TlsResult(outcome=outcome, sni="shop", **more) if reach is Reach.ESTABLISHED else None
    connection = Connection(address="192.0.2.7", port=15443, origin=Origin.GIVEN, reach=reach, tls=talk)
    return ServiceSeen(session=SessionId(0), seq=0, connection=connection)


GOOD_NAME, GOOD_GATE = _name(DnsResult.ADDRESSES, addresses=("10.110.3.4",)), _gate()
NOT_READY = ServiceSeen(
    session=SessionId(0),
    seq=0,
    connection=Connection(
        address="192.0.2.7",
        port=15021,
        origin=Origin.GIVEN,
        reach=Reach.ESTABLISHED,
        http=HttpResult(path="/healthz/ready", status=503),
    ),
)


def _plan(canary):
    return SessionPlan(
        session=SessionId(0),
        peer=canary.node,
        layer=Layer.POD,
        path=0xFFFF,
        flow=FlowClass.FRESH,
        source="",
        destination=canary.address,
        port=canary.port,
        canary=canary,
    )


def _bench(*canaries):
    bench = ready("b3", settings=with_canaries(settings_for("b3"), *canaries))
    bench.find = lambda plan: GOOD_NAME if plan.canary is DNS else GOOD_GATE
    bench.run(8 * SECOND)
    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    return bench


@pytest.mark.parametrize(
    ("canary", "found", "fault"),
    [
        (DNS, _name(DnsResult.SILENT, control=DnsResult.SILENT), FaultCode.DNS_UNREACHABLE),
        (DNS, _name(DnsResult.SILENT), FaultCode.DNS_FORWARD_BROKEN),
        (DNS, _name(DnsResult.NXDOMAIN, zone="."), FaultCode.DOMAIN_NOT_SERVED),
        (DNS, _name(DnsResult.SERVFAIL), FaultCode.NOT_SYNCED),
        (DNS, _name(DnsResult.NXDOMAIN, zone="clusterset.local"), FaultCode.NOT_EXPORTED),
        (DNS, _name(DnsResult.EMPTY), FaultCode.EXPORTER_UNHEALTHY),
        (DNS, _name(DnsResult.OTHER), FaultCode.POD_UNREACHABLE),
        (GATE, _gate(Reach.SILENT), FaultCode.POLICY_OR_BACKEND),
        (GATE, _gate(outcome=Handshake.SILENT), FaultCode.POLICY_OR_BACKEND),
        (GATE, _gate(Reach.REFUSED), FaultCode.ENDPOINT_REFUSED),
        (GATE, _gate(outcome=Handshake.ALERT, alert="unknown_ca"), FaultCode.IDENTITY),
        (GATE, _gate(is_expired=True), FaultCode.IDENTITY),
        (GATE, _gate(outcome=Handshake.CLOSED), FaultCode.SNI_REJECTED),
        (GATE, NOT_READY, FaultCode.GATEWAY_NOT_READY),
    ],
)
def test_each_row_of_the_table_is_a_verdict_that_moves_nothing(canary, found, fault):
    """While the mesh answers; it is over when the service is good again."""
    bench = _bench(canary)
    bench.find = lambda _plan: found
    bench.run(SURE_NS)
    verdict = bench.controller.verdicts.current
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert (fault, Layer.POD, Severity.WARNING) == (verdict.fault, verdict.layer, verdict.severity)
    assert ("" if fault in NAMELESS else canary.node) == verdict.culprit
    assert any(f"canary {canary.name} ({canary.node}): " in sentence for sentence in verdict.because)
    assert ("down", fault.value, "") == (status.state, status.fault, status.depends_on)
    assert [] == bench.said(ApplySwitch)

    bench.find = lambda plan: GOOD_NAME if plan.canary is DNS else GOOD_GATE
    bench.run(SURE_NS)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    assert "" == bench.engine.status(bench.now, {}).canaries[0].fault


def test_a_service_that_never_was_good_is_named():
    """A canary that was declared is wanted to answer."""
    bench = ready("b3", settings=with_canaries(settings_for("b3"), DNS))
    bench.find = lambda _plan: _name(DnsResult.NXDOMAIN)
    bench.run(SURE_NS)

    assert FaultCode.NOT_EXPORTED is bench.controller.verdicts.current.fault


@pytest.mark.parametrize("is_late", [False, True])
def test_what_nobody_saw_is_no_silence(is_late):
    """While the agent that asks is being replaced, or hangs and finds out later: the service stays what it was."""
    bench = _bench(GATE)
    session = next(s for s in bench.engine.state.schedule.sessions if s.plan.canary == GATE)
    lost, since = session.lost, bench.now
    bench.unseen_ns = 900 * MS if is_late else 0
    bench.run(SURE_NS)

    assert "up" == bench.engine.status(bench.now, {}).canaries[0].state
    assert lost == session.lost
    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    assert "down" not in {fact.state for fact in bench.said(SessionChanged, since=since) if fact.layer is Layer.POD}


def test_a_path_that_is_broken_has_its_own_name_and_explains_the_silence():
    """The service is silent in consequence, and what it is called then is not said."""
    bench = _bench(GATE)
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan)
    bench.find = lambda _plan: _gate(Reach.SILENT)
    bench.run(SURE_NS)
    told = {change.verdict.fault for change in bench.said(VerdictChanged)}
    verdict = bench.controller.verdicts.current
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert FaultCode.POLICY_OR_BACKEND not in told
    assert FaultCode.LEADER_DEAD is verdict.fault
    assert "silent in consequence: canary gate on a1" in verdict.because
    assert (FaultCode.LEADER_DEAD, "") == (status.depends_on, status.fault)


def test_a_name_that_does_not_exist_is_no_consequence_of_a_path():
    """It was answered; the status says what is wrong with it beside the verdict about the path."""
    bench = _bench(DNS)
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan)
    bench.find = lambda _plan: _name(DnsResult.NXDOMAIN)
    bench.run(SURE_NS)
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert FaultCode.LEADER_DEAD is bench.controller.verdicts.current.fault
    assert ("", "not-exported") == (status.depends_on, status.fault)
    assert not any("in consequence" in sentence for sentence in bench.controller.verdicts.current.because)


def test_a_good_service_speaks_for_no_path():
    """A DNS server of the own cluster answers however broken the mesh is: traffic is moved as without it."""
    moved = []
    for canaries in ((), (DNS, GATE)):
        bench = ready("b3", settings=with_canaries(settings_for("b3"), *canaries))
        bench.find = lambda plan: GOOD_NAME if plan.canary is DNS else GOOD_GATE
        bench.run(8 * SECOND)
        bench.vouch()
        bench.silent = primary_is_silent
        bench.run(10 * SECOND)
        moved.append({change.verdict.fault for change in bench.said(VerdictChanged)})

    assert FaultCode.PROBE_PORT_BLOCKED not in moved[1]
    assert moved[0] == moved[1]


def test_bad_services_are_no_pods_that_probes_alone_reach():
    """Two of them on two nodes are two services: no middlebox is suspected."""
    bench = _bench(DNS, GATE)
    bench.find = lambda plan: _name(DnsResult.EMPTY) if plan.canary is DNS else _gate(Reach.SILENT)
    bench.run(SURE_NS)
    told = {change.verdict.fault for change in bench.said(VerdictChanged)}

    assert FaultCode.PROBES_ONLY not in told
    assert FaultCode.EXPORTER_UNHEALTHY is bench.controller.verdicts.current.fault
    assert any("canary gate (a1): " in sentence for sentence in bench.controller.verdicts.current.because)


@pytest.mark.parametrize(("connect", "expected"), [(0, True), (80, False)])
def test_an_address_is_enough_unless_a_connection_is_wanted(connect, expected):
    """It proves nothing about the way."""
    canary = Canary(
        name="x", address="10.96.0.10", port=53, node=NodeName("a3"), kind=CanaryKind.DNS, lookup=NAME, connect=connect
    )
    assert expected is is_good(_plan(canary), GOOD_NAME)


@pytest.mark.parametrize(
    ("name", "domain"), [(NAME, "clusterset.local"), ("shop.example.org", "example.org"), ("shop", "shop")]
)
def test_the_domain_is_what_a_zone_must_be_in(name, domain):
    """Behind NAME.NAMESPACE.svc, or behind the first label."""
    canary = Canary(name="x", address="10.96.0.10", port=53, node=NodeName("a3"), kind=CanaryKind.DNS, lookup=name)
    assert domain == observations(_plan(canary), GOOD_NAME).domain


def test_the_table_is_the_commands_own():
    """One fault has one name, whoever finds it."""
    seen = observations(_plan(GATE), _gate(Reach.REFUSED))
    assert FaultCode.ENDPOINT_REFUSED.value == judge(seen).code.value
