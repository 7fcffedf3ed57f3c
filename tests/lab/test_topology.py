"""What a daemon finds out on a node of the lab: from its kernel alone, from Kilo's agent, and while leaders change."""

from __future__ import annotations

import sys
import time

import pytest

from netnslab import Lab, varlink
from netnslab.daemons import INTERFACE, SOCKET, Daemons
from netnslab.waiting import pause_until, wait_until
from tests.support.node_states import graph
from tests.unit.adapters.sources.test_kilo_graph import draw
from tests.unit.adapters.sources.test_kilo_metrics import WHOLE as METRICS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

NODE = "b3"
SECOND = 1_000_000_000
START_S, SOURCES_S = 20.0, 30.0
TRANSIENT_NS = SECOND // 4
FOLLOW_S = 3.0
"""What a change of leaders may take until it is followed."""

# Kilo's agent as its neighbours on the node see it: two answers on a loopback port, read anew from files.
AGENT = """
import http.server, pathlib, sys
folder = pathlib.Path(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (folder / ("metrics" if self.path == "/metrics" else "graph")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 1107), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def lab():
    """One mesh for all tests of this file."""
    with Lab.up("kilo-flannel") as mesh:
        yield mesh


@pytest.fixture
def daemons(lab, tmp_path):
    """A daemon on one member, which changes nothing."""
    with Daemons(lab, tmp_path, settings={"daemon": {"mode": "observe"}}, nodes=[NODE]) as running:
        yield running


@pytest.fixture
def ask(lab):
    """Asks for the view, as `meshwatchctl topology` does; nothing before the daemon can answer."""

    def asked():
        try:
            (reply,) = varlink.call(lab.node(NODE), SOCKET, f"{INTERFACE}.Topology")
        except varlink.CallFailedError:
            return None
        return reply["view"]

    return asked


def reasons(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding['source']}: {finding['text']}" for finding in view["why"])


def test_a_node_is_known_from_its_kernel_and_files(daemons, ask):
    """No configuration says any of this: role, leader, addresses, layers, and where others are."""
    view = wait_until(ask, timeout_s=START_S, what="a view")

    assert (["kilo", "flannel"], "location") == (view["profiles"], view["granularity"])
    assert ("10.2.0.13", "10.244.6.0/24", "10.244.6.0") == (view["node_ip"], view["pod_cidr"], view["overlay_ip"])
    assert ("10.244.4.0", False) == (view["leader"], view["is_leader"])
    assert ["kilo0", "flannel.1", "eth0"] == [layer["device"] for layer in view["layers"]]
    others = {other.node_ip for other in graph().nodes if other.name != NODE}
    assert others <= {candidate["address"] for candidate in view["candidates"]}
    assert not view["location"]
    # The configuration declares the mesh and with it the location's name, which the engine reports after a moment.
    wait_until(
        lambda: daemons.control(NODE, "topology").stdout.startswith(
            "b3 in cloud, led by 10.244.4.0; kilo over flannel\n"
        ),
        timeout_s=START_S,
        what="the location's name",
    )


def test_kilos_agent_gives_names_and_nonsense_takes_none_away(lab, daemons, ask, tmp_path):
    """Malformed answers are told with their source; what was known stays known."""
    (tmp_path / "graph").write_text(draw(graph()))
    (tmp_path / "metrics").write_text(METRICS.replace("kilo_leader 1", "kilo_leader 0"))
    agent = lab.node(NODE).popen([sys.executable, "-c", AGENT, str(tmp_path)])
    try:
        named = wait_until(
            lambda: (view := ask()) and view["location"] and view, timeout_s=SOURCES_S, what="a location"
        )
        assert "cloud" == named["location"]

        (tmp_path / "graph").write_text("<html>")
        rejected = wait_until(
            lambda: (view := ask()) and "kilo graph: rejected" in reasons(view) and view,
            timeout_s=SOURCES_S,
            what="a rejection",
        )
        assert "cloud" == rejected["location"]
        assert "source.rejected" in (tmp_path / f"daemon-{NODE}.log").read_text()
    finally:
        agent.terminate()
        agent.wait()


def test_a_restart_of_kilo_is_no_change_and_a_promotion_is_followed(lab, daemons, ask):
    """A member whose kilo0 is up for a moment is a member; one whose kilo0 stays up leads within three seconds."""
    place = lab.node(NODE)
    wait_until(ask, timeout_s=START_S, what="a view")

    place.run(["ip", "link", "set", "kilo0", "up"], check=True)
    pause_until(time.monotonic_ns() + TRANSIENT_NS)
    during = ask()
    place.run(["ip", "link", "set", "kilo0", "down"], check=True)
    ended_ns = time.monotonic_ns()
    after = []
    while time.monotonic_ns() < ended_ns + 3 * SECOND:
        after.append(ask()["is_leader"])
    assert {False} == {during["is_leader"], *after}

    place.run(["ip", "link", "set", "kilo0", "up"], check=True)
    began_ns = time.monotonic_ns()
    try:
        wait_until(lambda: ask()["is_leader"], timeout_s=2 * FOLLOW_S, what="the new role")
        took_s = (time.monotonic_ns() - began_ns) / SECOND
    finally:
        place.run(["ip", "link", "set", "kilo0", "down"], check=True)
    assert took_s <= FOLLOW_S, f"{took_s:.2f} s"
