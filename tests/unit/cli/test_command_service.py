"""`meshwatchctl service` against stand-ins: each row of the table, as an operator meets it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime

import msgspec
import pytest

from meshwatchd.adapters.service.memory import Memory
from meshwatchd.cli.main import main
from meshwatchd.cli.text import STALE_NS
from meshwatchd.model.service_check import ServiceCode
from tests.support.certificates import write_certificate
from tests.support.deaf_listener import deaf_listener
from tests.support.example_nodes import NODES
from tests.support.example_status import BROKEN, HEALTHY, status
from tests.support.service_stage import (
    CONTROL,
    HOST,
    SILENCE,
    closed_port,
    dns_server,
    full_listener,
    gateway,
    tcp_server,
)

NAME = "shop.default.svc.clusterset.local"
OWN = "shop.default.svc.cluster.local"
CLUSTER = {CONTROL: "10.96.0.1", OWN: "NXDOMAIN/cluster.local"}
NOT_READY = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """A state directory of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "meshwatchctl" / "services.json"


@pytest.fixture
def judge(tmp_path, capsys):
    """Run the command against a DNS server of these answers, without a daemon."""

    def _judge(zones, *arguments, socket=tmp_path / "none.sock"):
        with dns_server({**CLUSTER, **zones}) as (host, port):
            words = ["service", "shop.default", "--dns", f"{host}:{port}", "--no-api", "--json", *map(str, arguments)]
            status = main(["--socket", str(socket), *words])
        reply = msgspec.json.decode(capsys.readouterr().out)
        return status, ServiceCode(reply["judgement"]["code"]), reply

    return _judge


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("NXDOMAIN", ServiceCode.NOT_EXPORTED),
        ("NXDOMAIN/.", ServiceCode.DOMAIN_NOT_SERVED),
        ("REFUSED", ServiceCode.DOMAIN_NOT_SERVED),
        ("FORMERR", ServiceCode.UNDETERMINED),
        ("EMPTY", ServiceCode.EXPORTER_UNHEALTHY),
        ("SERVFAIL", ServiceCode.NOT_SYNCED),
        (SILENCE, ServiceCode.DNS_FORWARD_BROKEN),
    ],
)
def test_what_dns_answers_is_discovery(judge, answer, expected):
    """Nothing is connected to, since there is no address and none was known."""
    ended, code, reply = judge({"clusterset.local": answer})
    assert (2, expected) == (ended, code)
    assert [] == reply["observations"]["connections"]


def test_a_server_that_answers_nothing_is_unreachable(judge):
    """Cluster DNS as a whole."""
    assert (2, ServiceCode.DNS_UNREACHABLE) == judge({"local": SILENCE, CONTROL: SILENCE, OWN: SILENCE})[:2]


def test_a_second_server_shows_what_is_not_passed_on(judge):
    """The set's own server has the name."""
    with dns_server({NAME: "10.110.3.4"}) as (host, port):
        ended, code, _ = judge({NAME: "NXDOMAIN"}, "--also", f"{host}:{port}", "--last", "127.9.9.9")
    assert (2, ServiceCode.DNS_FORWARD_BROKEN) == (ended, code)


def test_a_service_that_answers_is_good(judge):
    """And its address is remembered."""
    with tcp_server() as port:
        assert (0, ServiceCode.GOOD) == judge({NAME: HOST}, "--port", port)[:2]


def test_a_name_that_is_gone_has_its_last_address_tried(capsys, tmp_path):
    """It was seen by the run before, by the same server."""
    zones = {**CLUSTER, NAME: HOST}
    with tcp_server() as port, dns_server(zones) as (host, dns_port):
        words = ["service", "shop.default", "--dns", f"{host}:{dns_port}", "--no-api", "--port", str(port)]
        assert 0 == main(["--socket", str(tmp_path / "none.sock"), *words])
        zones[NAME] = "NXDOMAIN"
        capsys.readouterr()
        assert 2 == main(["--socket", str(tmp_path / "none.sock"), *words])
    page = capsys.readouterr().out
    assert "BROKEN  shop.default: discovery, not-exported\n" in page
    assert f"{HOST} port {port} accepts connections: only the name is missing, the way still works" in " ".join(
        page.split()
    )


def test_an_address_that_is_given_goes_before_the_remembered_one(judge):
    """Nobody has asked before."""
    with tcp_server() as port:
        _, code, reply = judge({NAME: "EMPTY"}, "--port", port, "--last", HOST)
    assert ServiceCode.EXPORTER_UNHEALTHY is code
    assert {"addresses": [HOST], "is_local": False, "age_s": None} == reply["observations"]["remembered"]
    assert [("last", "established")] == [
        (each["origin"], each["reach"]) for each in reply["observations"]["connections"]
    ]


def test_a_name_that_comes_home_is_no_outage(judge, memory):
    """The other cluster's address was remembered; afterwards the own one is, and all is good."""
    zones = {NAME: HOST, OWN: HOST}
    with tcp_server() as port, dns_server({**CLUSTER, **zones}) as (host, dns_port):
        server = f"{host}:{dns_port}"
        Memory(NAME, server, memory).keep(("10.110.3.4",), is_local=False)
        words = ("--port", port, "--dns", server)
        assert (0, ServiceCode.WITHDRAWN) == judge({}, *words)[:2]
        assert (0, ServiceCode.GOOD) == judge({}, *words)[:2]


def test_a_syn_without_an_answer_is_undetermined_without_a_daemon(judge):
    """The page says what is missing."""
    with full_listener() as port:
        ended, code, reply = judge({NAME: HOST}, "--port", port)
    assert (2, ServiceCode.UNDETERMINED) == (ended, code)
    assert "there is no socket" in reply["observations"]["daemon_problem"]


@pytest.fixture
def mesh(room):
    """A daemon that reports, and whose a3 has the addresses of this host's loopback among its pods."""
    at_loopback = msgspec.structs.replace(NODES[-1], pod_cidr="127.0.0.0/8")
    room.backend.known = (*NODES[:-1], at_loopback)

    def _mesh(shown):
        room.backend.current = msgspec.structs.replace(shown, at_ns=time.monotonic_ns())
        return room.path

    return _mesh


def test_a_syn_without_an_answer_is_the_datapath_where_the_meshs_probes_fail(judge, mesh):
    """Layer and node are the daemon's."""
    with full_listener() as port:
        broken = mesh(status(BROKEN, states="down good down good"))
        ended, code, reply = judge({NAME: HOST}, "--port", port, socket=broken)
    assert (2, ServiceCode.DATAPATH) == (ended, code)
    assert f"{BROKEN.fault}, layer {BROKEN.layer.name.lower()} at {BROKEN.culprit}" in reply["judgement"]["proof"][0]


def test_a_syn_without_an_answer_is_the_service_where_the_meshs_probes_are_well(judge, mesh):
    """A network policy, or the pod."""
    with full_listener() as port:
        assert (2, ServiceCode.POLICY_OR_BACKEND) == judge({NAME: HOST}, "--port", port, socket=mesh(HEALTHY))[:2]


def test_a_daemon_that_has_stopped_reporting_is_no_witness(judge, room):
    """What was true once says nothing about a SYN of today, on a machine that was started a minute ago as well."""
    room.backend.known = NODES
    at_ns = time.monotonic_ns() - 2 * STALE_NS
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=at_ns)
    with full_listener() as port:
        _, code, reply = judge({NAME: HOST}, "--port", port, socket=room.path)
    assert (ServiceCode.UNDETERMINED, "its engine has stopped reporting") == (
        code,
        reply["observations"]["daemon_problem"],
    )


def test_a_refusal_is_the_endpoint(judge):
    """Of a port that is known to be the service's; a guess proves less."""
    with closed_port() as port:
        assert (2, ServiceCode.ENDPOINT_REFUSED) == judge({NAME: HOST}, "--port", port)[:2]
    assert (1, ServiceCode.ENDPOINT_REFUSED) == judge({NAME: "127.9.9.9"})[:2]


def test_full_segments_that_are_lost_are_the_mtu(judge):
    """The kernel of that listener drops them; tests/lab/test_service.py has a network that does."""
    with deaf_listener() as listener:
        assert (2, ServiceCode.MTU) == judge({NAME: HOST}, "--port", listener.getsockname()[1])[:2]


def test_a_certificate_that_is_out_of_date_is_the_identity(judge, tmp_path):
    """The handshake goes through."""
    with gateway(write_certificate(tmp_path, datetime(2020, 1, 1, tzinfo=UTC))) as port:
        _, code, reply = judge({NAME: HOST}, "--port", port, "--tls")
    assert ServiceCode.IDENTITY is code
    assert any("its certificate has expired" in line for line in reply["judgement"]["proof"])


def test_sni_and_alpn_open_the_gateway_and_nothing_else_does(judge, tmp_path):
    """A mesh's workload behind it wants a certificate, and that is good news."""
    with gateway(write_certificate(tmp_path), sni="shop.mesh", alpn="istio", wants_client=True) as port:
        words = ("--port", port, "--alpn", "istio", "--sni")
        assert (0, ServiceCode.GOOD) == judge({NAME: HOST}, *words, "shop.mesh")[:2]
        assert (2, ServiceCode.SNI_REJECTED) == judge({NAME: HOST}, *words, "shop.elsewhere")[:2]


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_gateway_that_is_not_ready_says_so(judge, tmp_path, is_tls):
    """In plain text or not."""
    certificate = write_certificate(tmp_path)
    with gateway(certificate, reply=NOT_READY) if is_tls else tcp_server(NOT_READY) as port:
        words = ("--port", port, "--http", "/healthz/ready", *["--tls"] * is_tls)
        assert (2, ServiceCode.GATEWAY_NOT_READY) == judge({NAME: HOST}, *words)[:2]


def test_a_note_says_how_many_addresses_were_tried(judge):
    """Of a headless service with many pods; all that are given by hand are tried."""
    many = [f"127.9.9.{number}" for number in range(1, 18)]
    assert "4 of 17 addresses were tried" in judge({NAME: " ".join(many)}, "--port", 9)[2]["observations"]["notes"]
    given = [word for address in many[:5] for word in ("--at", address)]
    assert many[:5] == [each["address"] for each in judge({}, "--port", 9, *given)[2]["observations"]["connections"]]


def test_a_preset_tries_the_gateways_own_ports(judge):
    """At the address that is given: DNS is not asked for it."""
    _, code, reply = judge({}, "--preset", "linkerd-gateway", "--at", "127.9.9.9")
    assert ServiceCode.ENDPOINT_REFUSED is code
    assert [4143, 4191] == [each["port"] for each in reply["observations"]["connections"]]
    assert reply["observations"]["answer"] is None
    assert reply["observations"]["notes"][0].startswith("Linkerd: ")


@pytest.mark.parametrize(
    "words",
    [
        ["shop"],
        ["shop.default.svc"],
        ["Shop.default"],
        ["shop.default", "--domain", "a..b"],
        ["shop.default", "--http", "ready"],
        ["shop.default", "--dns", "cluster"],
        ["shop.default", "--at", "fe80::1%a..b"],
        ["shop.default", "--sni", "a..b"],
        ["shop.default", "--sni", ".x"],
        ["shop.default", "--sni", "sh\u00f6p.example"],
        ["shop.default", "--sni", "x\r\nHost: y"],
        ["shop.default", "--sni", ".".join(["a" * 63] * 4)],
        ["shop.default", "--alpn", "\u00fc"],
        ["shop.default", "--alpn", "h" * 256],
        ["shop.default", "--preset", "istio-eastwest"],
        ["shop.default", "--preset", "istio-eastwest", "--alpn", "h2", "--at", "127.9.9.9"],
    ],
)
def test_wrong_usage_is_said_before_anything_is_asked(words, capsys):
    """With what to write instead."""
    assert 64 == main(["service", *words])
    assert "Error: " in capsys.readouterr().err


def test_without_a_dns_server_nothing_can_be_asked(monkeypatch, capsys):
    """This host has no kubelet."""
    assert 3 == main(["service", "shop.default", "--no-api"])
    assert "no DNS server is known" in capsys.readouterr().err


def test_help_loads_no_dns_library():
    """Who asks for help in a hurry waits for nothing that is not needed."""
    script = "import sys; from meshwatchd.cli.main import main; main(['--help']); sys.exit('dns' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode


def _time(*words):
    began = time.monotonic()
    command = [sys.executable, "-m", "meshwatchd.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return time.monotonic() - began, done


def test_the_whole_answer_comes_within_three_seconds_whatever_hangs(tmp_path, monkeypatch):
    """DNS, the daemon, meshwatchd-kube and a handshake hang; starting the program is not what is measured."""
    program = tmp_path / "meshwatchd-kube"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        socket.socket(socket.AF_UNIX) as daemon,
        dns_server({"local": SILENCE}) as (host, dns_port),
        tcp_server() as port,
    ):
        daemon.bind(str(tmp_path / "control.sock"))
        daemon.listen()
        server = f"{host}:{dns_port}"
        words = ("--dns", server, "--also", server, "--last", HOST, "--port", str(port), "--tls", "--http", "/")
        starting_s, _ = _time("service", "--help")
        taken_s, done = _time("--socket", str(tmp_path / "control.sock"), "service", "shop.default", *words)
    assert 2 == done.returncode, done.stderr
    assert "shop.default: datapath, dns-unreachable" in done.stdout
    assert taken_s - starting_s < 2.7
