"""A service of the other location on a real mesh: what the daemon knows of the way decides what it is.

The same service is asked for by canaries of the daemons all the time: by its name, at a gateway, and whether that is
ready.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from netnslab import faults
from netnslab.topology_file import load
from netnslab.waiting import wait_until
from tests.support.certificates import write_certificate
from tests.support.service_stage import SILENCE, dns_server, gateway, tcp_server
from tests.support.stage import QUICK, Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NAME = "shop.default.svc.clusterset.local"
HERE, THERE, PORT = "b3", "a3", 8080
CLOUD = ("b1", "b2", "b3")
LIMIT_BYTES = 1400
"""Of the network below b1's overlay: SYNs pass, full segments do not."""


DNS_PORT, GATE_PORT, READY_PORT = 5300, 15443, 15021
SNI = "outbound_.80_._.shop.default.svc.cluster.local"
POD, DNS_IP = load("kilo-flannel").nodes[THERE].pod_ip, load("kilo-flannel").nodes[HERE].node_ip
CANARIES = (
    {"name": "name", "kind": "dns", "address": DNS_IP, "port": DNS_PORT, "lookup": NAME, "connect": PORT},
    {"name": "gate", "kind": "tls", "address": POD, "port": GATE_PORT, "sni": SNI, "alpn": "istio"},
    {"name": "ready", "kind": "http", "address": POD, "port": READY_PORT, "path": "/healthz/ready"},
)
READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
TOLD_S = 40
"""Some questions a second apart, three seconds of patience for a side issue, and a loaded machine."""


@pytest.fixture(scope="module")
def zones() -> dict[str, str]:
    """What the DNS server of the cloud answers, until a test changes its mind."""
    return {NAME: POD, "cluster.local": "NXDOMAIN"}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory, zones) -> Iterator[Stage]:
    """A mesh that only watches, so what is broken stays broken; with a service and its gateway in a pod of a3."""
    directory = tmp_path_factory.mktemp("service")
    canaries = [{**each, "node": THERE} for each in CANARIES]
    settings = {**QUICK, "daemon": {"mode": "observe"}, "probe": {"canary": canaries}}
    with stage(directory, settings=settings) as built, ExitStack() as stack:
        stack.enter_context(dns_server(zones, within=lambda _make: built.lab.node(HERE).space.call(_dns_socket)))
        inside = built.lab.pod(THERE).space
        listening = [inside.call(partial(socket.create_server, (POD, port))) for port in (PORT, GATE_PORT, READY_PORT)]
        stack.enter_context(tcp_server(listening=listening[0]))
        shown = write_certificate(directory)
        stack.enter_context(gateway(shown, sni=SNI, alpn="istio", listening=listening[1]))
        stack.enter_context(tcp_server(READY, listening=listening[2]))
        yield built


def _dns_socket() -> socket.socket:
    serving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    serving.bind((DNS_IP, DNS_PORT))
    return serving


@pytest.fixture
def ask(mesh, tmp_path):
    """Run the command on b3, whose DNS server has the pod's address; the reply for programs."""
    zones = {NAME: mesh.lab.topology.nodes[THERE].pod_ip, "cluster.local": "NXDOMAIN"}

    def _ask() -> dict[str, Any]:
        command = [sys.executable, "-P", "-m", "meshwatchd.cli.main", "service", "shop.default", "--no-api", "--json"]
        words = ["--dns", f"{host}:{port}", "--port", str(PORT)]
        done = mesh.lab.node(HERE).run(["env", f"XDG_STATE_HOME={tmp_path}", *command, *words], timeout=60)
        assert done.stdout, done.stderr
        reply: dict[str, Any] = json.loads(done.stdout)
        return reply

    with dns_server(zones, within=mesh.lab.node(HERE).space.call) as (host, port):
        yield _ask


def test_a_service_of_the_other_location_answers(ask):
    """Its place and the path to it are named."""
    reply = ask()
    assert "good" == reply["judgement"]["code"]
    (way,) = reply["observations"]["ways"]
    assert (THERE, "pod", "onprem", "good") == (way["node"], way["kind"], way["location"], way["state"])


def test_a_way_that_is_broken_is_the_datapath_with_the_daemons_verdict(mesh, ask):
    """The SYN is not answered, the mesh's probes are not either, and the leader is named."""
    with faults.overlay_black_hole(mesh.lab, "b1"):
        mesh.wait_verdicts("overlay-black-hole", "b1", [HERE])
        reply = ask()
    assert ("datapath", 2) == (reply["judgement"]["code"], reply["judgement"]["health"])
    assert "overlay-black-hole, layer overlay at b1" in reply["judgement"]["proof"][0]


def test_full_segments_that_die_on_the_way_are_the_mtu(mesh, ask):
    """SYNs pass a network that drops what is long without a word, and the daemon has the same verdict."""
    with faults.mtu_black_hole(mesh.lab, "b1", limit_bytes=LIMIT_BYTES):
        mesh.wait_verdicts("mtu-black-hole", "b1", [HERE])
        judgement = ask()["judgement"]
    assert ("mtu", 2) == (judgement["code"], judgement["health"])
    assert any("mtu-black-hole" in line for line in judgement["proof"])
    wait_until(lambda: "good" == ask()["judgement"]["code"], timeout_s=60, what="the service to answer again")


def test_a_filter_before_the_pod_is_the_services(mesh, ask):
    """The mesh's probes are well, and nobody answers the SYN: a network policy drops it."""
    pod = mesh.lab.pod(THERE)
    hook = "type filter hook input priority 0"
    rules = f"table inet netpol {{ chain input {{ {hook}; tcp dport {PORT} drop; }}; }}\n"
    pod.run(["nft", "-f", "-"], input=rules, check=True)
    try:
        judgement = ask()["judgement"]
    finally:
        pod.run(["nft", "delete", "table", "inet", "netpol"], check=True)
    assert ("policy-or-backend", 2) == (judgement["code"], judgement["health"])


def _wait_named(mesh: Stage, fault: str, culprit: str) -> tuple[str, ...]:
    """The evidence, when every node of the cloud has that verdict."""
    wait_until(
        lambda: {(fault, culprit)} == {mesh.named(node) for node in CLOUD},
        timeout_s=TOLD_S,
        what=f"{fault} at {culprit or 'nobody'} by {CLOUD}",
        poll_s=0.5,
    )
    because = mesh.pair(HERE)["verdict"]["because"]
    assert isinstance(because, list)
    return tuple(because)


def _wait_up(mesh: Stage) -> None:
    """Wait until all three canaries answer the node that asks."""

    def are_up() -> bool:
        shown = json.loads(mesh.daemons.control(HERE, "--json", "status").stdout)["canaries"]
        return {("name", "up"), ("gate", "up"), ("ready", "up")} == {(each["name"], each["state"]) for each in shown}

    wait_until(are_up, timeout_s=TOLD_S, what="the canaries to answer", poll_s=0.5)


def test_canaries_name_what_discovery_and_the_gateway_do(mesh, zones):
    """By the words of the command, on every node that asks; the mesh itself is well throughout."""
    _wait_named(mesh, "none", "")
    _wait_up(mesh)
    try:
        zones[NAME] = "NXDOMAIN"
        because = _wait_named(mesh, "not-exported", "")
        assert any("only the name is missing, the way still works" in sentence for sentence in because)
        zones[NAME] = SILENCE
        _wait_named(mesh, "dns-forward-broken", "")
        zones[NAME] = "EMPTY"
        _wait_named(mesh, "exporter-unhealthy", THERE)
    finally:
        zones[NAME] = POD
    _wait_named(mesh, "none", "")
    hook = "type filter hook input priority 0"
    rules = f"table inet netpol {{ chain input {{ {hook}; tcp dport {GATE_PORT} drop; }}; }}\n"
    pod = mesh.lab.pod(THERE)
    pod.run(["nft", "-f", "-"], input=rules, check=True)
    try:
        because = _wait_named(mesh, "policy-or-backend", THERE)
    finally:
        pod.run(["nft", "delete", "table", "inet", "netpol"], check=True)
    assert f"canary gate ({THERE}): {POD} port {GATE_PORT} does not answer the SYN" in because
    _wait_named(mesh, "none", "")
