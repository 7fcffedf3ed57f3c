"""A service of the other location on a real mesh: what the daemon knows of the way decides what it is."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.service_stage import dns_server, tcp_server
from tests.support.stage import QUICK, Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NAME = "shop.default.svc.clusterset.local"
HERE, THERE, PORT = "b3", "a3", 8080
LIMIT_BYTES = 1400
"""Of the network below b1's overlay: SYNs pass, full segments do not."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Iterator[Stage]:
    """A mesh that only watches, so what is broken stays broken; with a service in a pod of a3."""
    settings = {**QUICK, "daemon": {"mode": "observe"}}
    with stage(tmp_path_factory.mktemp("service"), settings=settings) as built:
        pod = built.lab.topology.nodes[THERE].pod_ip
        listening = built.lab.pod(THERE).space.call(lambda: socket.create_server((pod, PORT)))
        with tcp_server(listening=listening):
            yield built


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
