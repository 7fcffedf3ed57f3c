"""Every query of the dashboard and every alert rule, in a Prometheus that scrapes six daemons while faults stand."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from netnslab import faults, state_faults
from netnslab.lab import Lab
from netnslab.waiting import wait_until
from scripts.generate.dashboard import PANELS
from tests.support.stage import QUICK, Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

WATCHER, PORT, METRICS_PORT = "b3", 9090, 9469
CANARY = {"name": "kubelet-a3", "node": "a3", "kind": "tcp", "address": "192.168.100.13", "port": 9}
SETTINGS = {**QUICK, "metrics": {"listen": f"0.0.0.0:{METRICS_PORT}"}, "probe": {"canary": [CANARY]}}
VARIABLES = {"$__rate_interval": "10s", "$__range": "5m", "$instance": ".*", "$location": ".*"}
SCRAPED_S = 60
"""For rates of all of six daemons on a busy machine."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """One mesh for all tests of this file."""
    with stage(tmp_path_factory.mktemp("dashboard"), settings=SETTINGS) as built:
        yield built


@contextmanager
def prometheus(lab: Lab, folder: Path, rules: Path) -> Iterator[None]:
    """The server on one node, with all six as targets."""
    targets = [f"{node.node_ip}:{METRICS_PORT}" for node in lab.topology.nodes.values()]
    scrape = {"job_name": "meshwatchd", "static_configs": [{"targets": targets}]}
    pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration = {"global": pace, "rule_files": [str(rules)], "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
    with (folder / "prometheus.log").open("wb") as log:
        server = lab.node(WATCHER).popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{PORT}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)


def ask(lab: Lab, path: str, **parameters: str) -> Any:
    """The data of one answer of the HTTP API."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    connection.sock = lab.node(WATCHER).space.call(lambda: socket.create_connection(("127.0.0.1", PORT), 10))
    try:
        connection.request("GET", f"/api/v1/{path}?{urlencode(parameters)}")
        reply = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    assert "success" == reply["status"], reply
    return reply["data"]


def queries() -> list[str]:
    """Of all panels, as Grafana would send them."""
    found = []
    for expression in (expression for panel in PANELS for expression, _ in panel.queries):
        text = expression
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        found.append(text)
    return found


def empty(lab: Lab) -> list[str]:
    """The queries to which there is no answer."""
    return [text for text in queries() if not ask(lab, "query", query=text)["result"]]


def test_every_panel_shows_something_and_every_rule_is_evaluated(mesh: Stage, root, tmp_path):
    """All six are scraped; new flows die at a leader, so verdicts are told, and an entry is missing, so a fault is."""
    lab = mesh.lab
    fault, entry = (
        faults.make(lab, "overlay-new-flows", "b1", {"memory_s": 60.0}),
        state_faults.make(lab, "fdb-entry-missing"),
    )
    with prometheus(lab, tmp_path, root / "etc/prometheus/meshwatchd.rules.yml"), mesh.struck(fault):
        entry.inject()
        try:
            wait_until(lambda: _answers(lab), timeout_s=SCRAPED_S, what="Prometheus", poll_s=0.5)
            up = 'count(up{job="meshwatchd"} == 1)'
            wait_until(lambda: _value(lab, up) == len(mesh.nodes), timeout_s=SCRAPED_S, what="six targets", poll_s=1)
            wait_until(lambda: not empty(lab), timeout_s=SCRAPED_S, what=f"answers to {empty(lab)}", poll_s=2)
            rules = [rule for group in ask(lab, "rules")["groups"] for rule in group["rules"]]
            assert rules
            assert [] == [rule["name"] for rule in rules if rule["health"] != "ok"]
        finally:
            entry.heal()


def _answers(lab: Lab) -> bool:
    try:
        return bool(ask(lab, "query", query="vector(1)")["result"])
    except (OSError, ValueError):  # not there yet, or a page that says so
        return False


def _value(lab: Lab, query: str) -> float:
    result = ask(lab, "query", query=query)["result"]
    return float(result[0]["value"][1]) if result else 0.0
