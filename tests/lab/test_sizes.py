"""Black holes of large packets on real kernels: named soon, measured to the byte, and nothing else blamed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping

import pytest

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.stage import QUICK, SECOND, Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLOUD, ONPREM = ("b1", "b2", "b3"), ("a1", "a2", "a3")
VERDICT_NS, EXACT_NS = 3 * SECOND, 10 * SECOND
SETTLE_S, HEAL_S = 150, 60
"""Segments and standbys are looked at twice a minute (core.pmtu.rest_intervals); a lost one waits for the next."""
OUTER = 50
"""What VXLAN adds: a limit of the network of 1400 bytes leaves 1350 for the overlay."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Iterator[Stage]:
    """One mesh for all tests of this file, measured once."""
    with stage(tmp_path_factory.mktemp("sizes"), settings=QUICK, rate=10) as built:
        wait_until(lambda: is_measured(built), timeout_s=SETTLE_S, what="every path to be measured", poll_s=0.5)
        yield built


@pytest.fixture
def healthy(mesh) -> Iterator[Stage]:
    """The mesh, found and left with nothing to complain of."""
    wait_named(mesh, "none", "", (*CLOUD, *ONPREM))
    yield mesh
    wait_named(mesh, "none", "", (*CLOUD, *ONPREM))


def sizes(mesh: Stage, node: str) -> list[dict[str, object]]:
    """The table of `meshwatchctl mtu`."""
    shown = mesh.daemons.control(node, "--json", "mtu")
    rows: list[dict[str, object]] = json.loads(shown.stdout)["sizes"] if shown.stdout else []
    return rows


def is_measured(mesh: Stage) -> bool:
    """Whether every node has measured every path."""
    tables = [sizes(mesh, node) for node in mesh.nodes]
    return all(table and all(row["state"] == "ok" for row in table) for table in tables)


def wait_named(mesh: Stage, fault: str, culprit: str, nodes: tuple[str, ...]) -> None:
    """Wait until each of `nodes` names the fault and the culprit."""
    wait_until(
        lambda: all((fault, culprit) == mesh.named(node) for node in nodes),
        timeout_s=HEAL_S,
        what=f"{fault} at {culprit} by {nodes}",
        poll_s=0.5,
    )


def told(mesh: Stage, since_ns: int, fault: str) -> Mapping[str, int]:
    """When each node stated a fault first, after an instant."""
    first: dict[str, int] = {}
    for event in mesh.events(since_ns, "verdict.changed"):
        if event.fields["fault"] == fault:
            first.setdefault(event.node, event.at_ns - since_ns)
    return first


def accused(mesh: Stage, since_ns: int) -> set[tuple[object, object]]:
    """Every fault and culprit stated since an instant."""
    events = mesh.events(since_ns, "verdict.changed")
    return {(event.fields["fault"], event.fields["culprit"]) for event in events} - {("none", "")}


def of_layer(rows: list[dict[str, object]], layer: int, peer: str) -> dict[str, object]:
    """What is measured on a layer, by direction."""
    return {
        str(row["direction"]): row["measured_bytes"] for row in rows if (row["layer"], row["peer"]) == (layer, peer)
    }


def test_a_healthy_mesh_carries_what_its_devices_promise(healthy):
    """The underlay 1500, the overlay 1450, every path 1420."""
    rows = sizes(healthy, "b3")

    assert {1500} == {row["measured_bytes"] for row in rows if row["layer"] == 1 and row["direction"] == "both"}
    assert {1450} == {row["measured_bytes"] for row in rows if row["layer"] == 4}
    assert {1420} == {row["measured_bytes"] for row in rows if row["layer"] == 5}


@pytest.mark.parametrize("limit", [1400, 1283])
def test_a_black_hole_below_the_overlay(healthy, limit, record_property):
    """Every node names it within 3 s and knows the byte within 10; nothing moves, and nothing else is blamed."""
    mesh, everybody = healthy, (*CLOUD, *ONPREM)
    fault = faults.mtu_black_hole(mesh.lab, "b1", limit_bytes=limit)
    with fault.armed():
        began_ns = fault.inject()
        wait_until(
            lambda: set(everybody) == set(told(mesh, began_ns, "mtu-black-hole")),
            timeout_s=20,
            what="every node to name the black hole",
            poll_s=0.5,
        )
        measured = wait_until(
            lambda: [
                event
                for event in mesh.events(began_ns, "mtu.measured")
                if event.node == "b2" and event.fields["layer"] == "overlay" and event.fields["peer"] == "b1"
            ],
            timeout_s=20,
            what="the exact size",
            poll_s=0.5,
        )
        times = told(mesh, began_ns, "mtu-black-hole")

        record_property("named_after_ms", max(times.values()) // 1_000_000)
        record_property("exact_after_ms", (measured[0].at_ns - began_ns) // 1_000_000)
        assert max(times.values()) <= VERDICT_NS
        assert measured[0].at_ns - began_ns <= EXACT_NS
        assert (limit - OUTER, limit - OUTER) == tuple(
            measured[0].fields[name] for name in ("outbound_bytes", "inbound_bytes")
        )
        assert {("mtu-black-hole", "b1")} == accused(mesh, began_ns)
        assert () == mesh.diverted()
        assert f"MTU {limit - OUTER}" in mesh.daemons.control("b2", "mtu", "b1").stdout


def test_a_black_hole_in_one_direction(healthy):
    """What leaves b1 is cut: its neighbours lose answers only, b1 loses what it sends."""
    mesh = healthy
    with faults.mtu_black_hole(mesh.lab, "b1", limit_bytes=1400, is_one_way=True):
        wait_named(mesh, "mtu-black-hole", "b1", CLOUD)
        wait_until(
            lambda: (
                of_layer(sizes(mesh, "b2"), 4, "b1") == {"outbound": 1450, "inbound": 1350}
                and of_layer(sizes(mesh, "b1"), 4, "b2") == {"outbound": 1350, "inbound": 1450}
            ),
            timeout_s=20,
            what="both directions to be measured",
            poll_s=0.5,
        )

        assert "inbound" == mesh.pair("b2")["verdict"]["direction"]
        assert "outbound" == mesh.pair("b1")["verdict"]["direction"]


FORGE = """
import socket, struct, sys
victim, target = (socket.inet_aton(address) for address in sys.argv[1:3])
def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
udp = struct.pack(">HHHH", 19128, 18618, 1430, 0)
told = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1450, 1, 0x4000, 64, 17, 0, victim, target) + udp
message = struct.pack(">BBHHH", 3, 4, 0, 0, 1000) + told
message = message[:2] + struct.pack(">H", checksum(message)) + message[4:]
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.sendto(message, (sys.argv[1], 0))
"""
"""Claims that packets of a size probe's flow were too long by far: fragmentation needed, next hop 1000 (RFC 1191)."""


def test_a_poisoned_path_mtu(healthy):
    """A neighbour forges the ICMP message: the kernel believes it, the probes do not, and the verdict says so."""
    mesh = healthy
    b2, b1 = (mesh.lab.topology.nodes[name].node_ip for name in ("b2", "b1"))
    mesh.lab.node("b3").run([sys.executable, "-c", FORGE, b2, b1], check=True)
    try:
        wait_named(mesh, "mtu-poisoned", "b2", ("b2",))
        assert {"none"} == {mesh.named(node)[0] for node in (*ONPREM, "b1", "b3")}
    finally:
        mesh.lab.node("b2").run(["ip", "route", "flush", "cache"], check=True)


def test_dropped_fragments(healthy):
    """Whole packets pass, fragments do not: a warning at the node they do not reach."""
    mesh = healthy
    with faults.fragments_dropped(mesh.lab, "b2"):
        wait_named(mesh, "fragments-dropped", "b2", CLOUD)

        assert {"none"} == {mesh.named(node)[0] for node in ONPREM}
        assert () == mesh.diverted()
