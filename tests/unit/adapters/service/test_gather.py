"""All questions at once, and an end to them whatever is silent."""

from __future__ import annotations

import asyncio
import os
import time

import msgspec
import pytest

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.connect import Knock
from meshwatchd.adapters.service.gather import END_S, Questions, gather, spread
from meshwatchd.model.service_check import ApiEndpoints, ApiFacts, ApiPort, DnsResult, Origin, Reach, Remembered
from tests.support.service_stage import CONTROL, HOST, SILENCE, closed_port, dns_server, full_listener, tcp_server

NAME = "shop.default.svc.clusterset.local"
QUESTIONS = Questions("shop.default", "clusterset.local", "cluster.local", None, is_api_asked=False)


def _gather(**changes):
    return asyncio.run(gather(QUESTIONS._replace(**changes)))


@pytest.fixture
def kube(tmp_path, monkeypatch):
    """meshwatchd-kube as a script that answers what a test gives it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def answer(facts, before=":"):
        path = tmp_path / "meshwatchd-kube"
        path.write_text(f"#!/bin/sh\n{before}\necho '{msgspec.json.encode(facts).decode()}'\n")
        path.chmod(0o755)

    return answer


def test_each_question_has_its_answer():
    """The name in both families, the control question, this cluster's own service, and the second server's."""
    with (
        dns_server({NAME: f"{HOST} ::1", "cluster.local": "NXDOMAIN", CONTROL: "10.96.0.1"}) as server,
        dns_server({NAME: "EMPTY"}) as also,
        tcp_server() as port,
    ):
        found = _gather(server=server, also=also, knocks=(Knock(port),))
    lookups = (found.answer, found.answer6, found.control, found.local, found.also)
    expected = [*[DnsResult.ADDRESSES] * 3, DnsResult.NXDOMAIN, DnsResult.EMPTY]
    assert expected == [each.result if each else None for each in lookups]
    assert [(HOST, Reach.ESTABLISHED), ("::1", Reach.REFUSED)] == [
        (each.address, each.reach) for each in found.connections
    ]
    assert (None, "") == (found.api, found.api_problem)


def test_the_own_domain_is_not_asked_twice():
    """Linkerd's mirrors have names of the cluster's own domain."""
    with dns_server({"shop.default.svc.cluster.local": HOST}) as server:
        found = _gather(server=server, domain="cluster.local", knocks=(Knock(9),))
    assert found.local is None
    assert found.answer is not None
    assert (HOST,) == found.answer.addresses


def test_at_most_four_addresses_are_tried():
    """A headless service may have a hundred."""
    addresses = [f"127.0.0.{number}" for number in range(1, 8)]
    with dns_server({NAME: " ".join(addresses)}) as server, closed_port() as port:
        found = _gather(server=server, knocks=(Knock(port),))
    assert ["127.0.0.1", "127.0.0.3", "127.0.0.5", "127.0.0.7"] == [each.address for each in found.connections]
    assert ("4 of 7 addresses were tried",) == found.notes


@pytest.mark.parametrize(
    ("fours", "sixes", "expected"),
    [
        (0, 0, ()),
        (2, 1, ("4.0", "4.1", "6:0")),
        (4, 1, ("4.0", "4.1", "4.3", "6:0")),
        (9, 9, ("4.0", "4.8", "6:0", "6:8")),
        (1, 9, ("4.0", "6:0", "6:4", "6:8")),
        (0, 9, ("6:0", "6:2", "6:5", "6:8")),
    ],
)
def test_addresses_are_tried_of_both_families_and_of_the_whole_list(fours, sixes, expected):
    """The lowest alone are one node's pods as often as not."""
    assert expected == spread([f"4.{n}" for n in range(fours)] + [f"6:{n}" for n in range(sixes)])


def test_an_own_endpoint_is_tried_only_where_it_is_exported(kube):
    """Another service of the same name, which the set's name does not lead to."""
    with tcp_server() as port, dns_server({NAME: HOST}) as server:
        for is_exported, expected in ((False, [HOST]), (None, [HOST]), (True, [HOST, "127.0.0.8"])):
            own = (ApiEndpoints(ready=("127.0.0.8",), ports=(port,)),)
            kube(ApiFacts(ports=(ApiPort(port=port),), endpoints=own, is_exported=is_exported))
            found = _gather(server=server, is_api_asked=True)
            assert expected == [each.address for each in found.connections]


@pytest.mark.parametrize("answer", ["NXDOMAIN", "EMPTY", "SERVFAIL", SILENCE])
def test_a_name_without_an_address_has_its_last_one_tried(answer):
    """And a name that has one does not."""
    before = Remembered(addresses=(HOST,))
    with tcp_server() as port:
        with dns_server({NAME: answer}) as server:
            (found,) = _gather(server=server, knocks=(Knock(port),), remembered=before).connections
        assert (Origin.LAST, Reach.ESTABLISHED) == (found.origin, found.reach)
        with dns_server({NAME: "127.0.0.2"}) as server:
            (found,) = _gather(server=server, knocks=(Knock(port),), remembered=before).connections
        assert (Origin.ANSWER, "127.0.0.2") == (found.origin, found.address)


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        (Knock(0), [443, 80]),
        (Knock(0, TlsWish("shop")), [443]),
        (Knock(0, path="/"), [80]),
    ],
)
def test_ports_that_nobody_says_are_guessed(like, expected):
    """By what is spoken."""
    found = _gather(given=("127.9.9.9",), like=like)
    assert [(port, True, Origin.GIVEN) for port in expected] == [
        (each.port, each.is_guessed, each.origin) for each in found.connections
    ]


def test_the_api_names_ports_and_one_endpoint(kube):
    """Of another cluster, if it has any; UDP is not tried."""
    with tcp_server() as port, dns_server({NAME: HOST}) as server:
        groups = (
            ApiEndpoints(ready=("127.0.0.8",), ports=(port,)),
            ApiEndpoints(cluster="east", ready=(HOST, "127.0.0.9"), ports=(port,)),
        )
        facts = ApiFacts(ports=(ApiPort(port=53, protocol="UDP"), ApiPort(port=port)), endpoints=groups)
        kube(facts)
        found = _gather(server=server, is_api_asked=True)
    assert facts == found.api
    assert [(HOST, Origin.ANSWER), ("127.0.0.9", Origin.ENDPOINT)] == [
        (each.address, each.origin) for each in found.connections
    ]
    assert {(port, False)} == {(each.port, each.is_guessed) for each in found.connections}


def test_an_api_that_is_late_still_tells_what_it_knows(kube):
    """Ports are guessed then."""
    kube(ApiFacts(is_exported=True, ports=(ApiPort(port=8080),)), before="sleep 1.5")
    found = _gather(given=("127.9.9.9",), is_api_asked=True)
    assert found.api is not None
    assert found.api.is_exported
    assert all(each.is_guessed for each in found.connections)


def test_everything_that_hangs_has_an_end(kube):
    """DNS, the last address, the API."""
    kube(ApiFacts(), before="exec sleep 60")
    began = time.monotonic()
    with dns_server({"local": SILENCE}) as server, full_listener() as port:
        found = _gather(
            server=server,
            also=server,
            remembered=Remembered(addresses=(HOST,)),
            knocks=(Knock(port, TlsWish("shop"), "/"),),
            is_api_asked=True,
        )
    assert time.monotonic() - began < END_S + 0.3
    assert {DnsResult.SILENT} == {each.result for each in found[:5] if each is not None}
    assert [Reach.SILENT] == [each.reach for each in found.connections]
    assert "meshwatchd-kube did not answer in time" == found.api_problem
