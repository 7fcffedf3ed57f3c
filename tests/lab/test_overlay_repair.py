"""Wedged overlays on real kernels: each damage is named on the node that has it, and put right within a second.

A second in which the agent could run: beside it five others and their engines look closely on the same cores.

The damage is what operators, NetworkManager and a restarted flanneld do: with ip and bridge, on one node of a mesh that
carries traffic. Afterwards the kernel holds exactly what it held before, on this node and on all others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest

from netnslab import Inhabitant
from netnslab.daemons import Event
from netnslab.live_state import kernel_objects
from netnslab.waiting import pause_until, wait_until
from tests.support.run_queue import RunQueue, run_queue
from tests.support.stage import QUICK, SECOND, Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

DEVICE = "flannel.1"
RUNGS = ("neighbour", "fdb", "route", "reseed", "bounce")
SETTINGS: Mapping[str, Mapping[str, object]] = {
    **QUICK,
    "repair": {**dict.fromkeys(RUNGS, True), "actions_per_minute": 60},
}
NAMED_S = 10
RATE = 10
"""New flows a second, not a hundred: six daemons that look closely leave two cores little."""
STRANGE_MAC = "02:de:ad:00:00:01"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Iterator[Stage]:
    """One mesh whose daemons may repair, and remember how it was."""
    with stage(tmp_path_factory.mktemp("overlay"), settings=SETTINGS, rate=RATE) as built:
        places = [built.lab.node(node) for node in built.nodes]
        wait_until(lambda: all(map(_memory, places)), timeout_s=60, what="a good state of each node", poll_s=1)
        yield built


def _memory(place: Inhabitant) -> str:
    return place.run(["cat", "/var/lib/meshwatchd/overlay-good.json"]).stdout


@contextmanager
def _kilo_beside(place: Inhabitant) -> Iterator[None]:
    """Its routes over the device go with it. Kilo itself puts them back at the end; it does not run in this lab."""
    routes = place.run(["ip", "route", "show", "dev", DEVICE, "proto", "static"], check=True).stdout.splitlines()
    yield
    for route in routes:
        place.run(["ip", "route", "replace", *route.split(), "dev", DEVICE, "proto", "static"], check=True)


def _state(place: Inhabitant) -> tuple[tuple[str, ...], ...]:
    """Neighbours that flannel made, FDB and routes of flannel.1."""
    neighbours = json.loads(place.run(["ip", "-json", "-4", "neigh", "show", "dev", DEVICE], check=True).stdout)
    fdb = place.run(["bridge", "fdb", "show", "dev", DEVICE], check=True).stdout
    routes = place.run(["ip", "-d", "-4", "route", "show", "dev", DEVICE], check=True).stdout
    return (
        tuple(sorted(f"{each['dst']} {each['lladdr']} {each['state']}" for each in neighbours if "lladdr" in each)),
        tuple(sorted(line.strip() for line in fdb.splitlines())),
        tuple(sorted(line.strip() for line in routes.splitlines())),
    )


def _raised(mesh: Stage, since_ns: int) -> list[Event]:
    return mesh.events(since_ns, "fault.raised")


def _await_repair(mesh: Stage, since_ns: int) -> Event:
    return wait_until(
        lambda: next(iter(mesh.events(since_ns, "repair.verified")), None),
        timeout_s=NAMED_S,
        what="a repair that holds",
        poll_s=0.3,
    )


def _took_ns(queue: RunQueue, raised: Event, repaired: Event) -> int:
    """From a finding to the word that its repair holds, without the time for which the agent had no processor."""
    return repaired.at_ns - raised.at_ns - queue.waited_ns(raised.at_ns, repaired.at_ns)


def _commands(mesh: Stage, damage: str) -> list[str]:
    """A damage of b3's way to b2 as a command."""
    other = mesh.lab.topology.nodes["b2"]
    return {
        "fdb-entry-missing": f"bridge fdb del {other.overlay_mac} dev {DEVICE} dst {other.node_ip} self",
        "fdb-entry-wrong": f"bridge fdb replace {other.overlay_mac} dev {DEVICE} dst 10.2.0.99 self permanent",
        "neighbour-missing": f"ip neigh del {other.overlay_ip} dev {DEVICE}",
        "neighbour-wrong-mac": (f"ip neigh replace {other.overlay_ip} lladdr {STRANGE_MAC} dev {DEVICE} nud permanent"),
        "neighbour-not-permanent": (
            f"ip neigh replace {other.overlay_ip} lladdr {other.overlay_mac} dev {DEVICE} nud stale"
        ),
        "pod-route-missing": f"ip route del {other.pod_cidr}",
    }[damage].split()


@pytest.mark.parametrize(
    "damage",
    [
        "fdb-entry-missing",
        "fdb-entry-wrong",
        "neighbour-missing",
        "neighbour-wrong-mac",
        "neighbour-not-permanent",
        "pod-route-missing",
    ],
)
def test_one_entry_of_one_peer_is_named_and_put_right(mesh, damage):
    """Verdict and repair on the node itself within a second; nobody else is blamed, touched, or loses a flow."""
    mesh.settle()
    place = mesh.lab.node("b3")
    before = _state(place)
    others = {node: kernel_objects(mesh.lab.node(node)) for node in mesh.nodes}

    began_ns = time.monotonic_ns()
    with run_queue(mesh.daemons.agent_pid("b3")) as queue:
        place.run(_commands(mesh, damage), check=True)
        repaired = _await_repair(mesh, began_ns)
    (raised,) = _raised(mesh, began_ns)
    pause_until(time.monotonic_ns() + SECOND)

    assert ("b3", damage, "b3") == (raised.node, raised.fields["fault"], raised.fields["culprit"])
    assert raised.fields["because"]
    assert _took_ns(queue, raised, repaired) < SECOND
    assert before == _state(place)
    assert others == {node: kernel_objects(mesh.lab.node(node)) for node in mesh.nodes}
    assert () == mesh.diverted()
    assert 0 == mesh.lost(began_ns, time.monotonic_ns()), "traffic of other peers"


@pytest.mark.parametrize("kind", ["blackhole", "prohibit"])
def test_a_dead_end_in_place_of_a_route_gives_way_to_it(mesh, kind):
    """The very route comes back; the commands that are told do it too, tried with a prefix that nobody has."""
    mesh.settle()
    place, other = mesh.lab.node("b3"), mesh.lab.topology.nodes["b2"]
    before = _state(place)
    began_ns = time.monotonic_ns()
    place.run(["ip", "route", "replace", kind, other.pod_cidr], check=True)
    _await_repair(mesh, began_ns)
    (raised,) = _raised(mesh, began_ns)
    (started,) = mesh.events(began_ns, "repair.started")

    assert ("b3", "pod-route-missing", "b3") == (raised.node, raised.fields["fault"], raised.fields["culprit"])
    assert before == _state(place)
    assert "" == place.run(["ip", "route", "show", "type", kind], check=True).stdout

    nobodys = "192.0.2.0/24"
    place.run(["ip", "route", "add", kind, nobodys], check=True)
    for command in cast("list[str]", started.fields["commands"]):
        place.run(["sh", "-c", command.replace(other.pod_cidr, nobodys)], check=True)
    made = place.run(["ip", "-json", "route", "show", nobodys], check=True).stdout
    place.run(["ip", "route", "del", nobodys], check=True)
    assert [(nobodys, DEVICE)] == [(each["dst"], each["dev"]) for each in json.loads(made)]


def test_a_route_that_escaped_into_wireguard_is_told_and_left_alone(mesh):
    """Somebody made that route: it is named with its device, and no repair begins."""
    mesh.settle()
    place, other = mesh.lab.node("b1"), mesh.lab.topology.nodes["b2"]
    (route,) = place.run(["ip", "route", "show", other.pod_cidr], check=True).stdout.splitlines()
    began_ns = time.monotonic_ns()
    place.run(["ip", "route", "replace", other.pod_cidr, "dev", "kilo0"], check=True)
    try:
        raised = wait_until(lambda: _raised(mesh, began_ns), timeout_s=NAMED_S, what="a finding", poll_s=0.3)
        assert [("b1", "pod-route-escaped")] == [(each.node, each.fields["fault"]) for each in raised]
        assert "kilo0" in str(raised[0].fields["because"])
    finally:
        place.run(["ip", "route", "replace", *route.split()], check=True)
    wait_until(lambda: mesh.events(began_ns, "fault.cleared"), timeout_s=NAMED_S, what="its end", poll_s=0.3)
    assert [] == mesh.events(began_ns, "repair.started", "repair.verified")


def test_a_device_that_went_down_and_up_is_filled_again(mesh):
    """Routes and neighbours are gone and the FDB is not: one repair, and everything is as it was."""
    mesh.settle()
    place = mesh.lab.node("b2")
    before = _state(place)
    began_ns = time.monotonic_ns()
    with _kilo_beside(place), run_queue(mesh.daemons.agent_pid("b2")) as queue:
        place.run(["sh", "-c", f"ip link set {DEVICE} down && ip link set {DEVICE} up"], check=True)
        repaired = _await_repair(mesh, began_ns)
    raised = _raised(mesh, began_ns)

    assert [("b2", "overlay-emptied")] == [(each.node, each.fields["fault"]) for each in raised]
    assert _took_ns(queue, raised[0], repaired) < SECOND
    assert before == _state(place)


def test_a_device_as_flanneld_recreates_it_is_filled_again(mesh):
    """Deleted with its lower device and made anew, flannel.1 has its MAC and its address and nothing else."""
    mesh.settle()
    place, node = mesh.lab.node("b2"), mesh.lab.topology.nodes["b2"]
    before = _state(place)
    vxlan = f"type vxlan id 1 local {node.node_ip} dev eth0 dstport 8472 nolearning"
    steps = (
        f"ip link del {DEVICE}",
        f"ip link add {DEVICE} address {node.overlay_mac} mtu 1450 {vxlan}",
        f"ip addr add {node.overlay_ip}/32 dev {DEVICE}",
        f"ip link set {DEVICE} up",
    )
    began_ns = time.monotonic_ns()
    with _kilo_beside(place):
        place.run(["sh", "-c", " && ".join(steps)], check=True)
        _await_repair(mesh, began_ns)
    raised = _raised(mesh, began_ns)

    assert [("b2", "overlay-emptied")] == [(each.node, each.fields["fault"]) for each in raised]
    assert before == _state(place)


def test_a_device_that_somebody_took_down_is_taken_up_and_filled(mesh):
    """Going down has deleted routes and neighbours; both come back with it."""
    mesh.settle()
    place = mesh.lab.node("b2")
    before = _state(place)
    began_ns = time.monotonic_ns()
    with _kilo_beside(place), run_queue(mesh.daemons.agent_pid("b2")) as queue:
        place.run(["ip", "link", "set", DEVICE, "down"], check=True)
        repaired = _await_repair(mesh, began_ns)
    raised = _raised(mesh, began_ns)

    assert [("b2", "overlay-device-down")] == [(each.node, each.fields["fault"]) for each in raised]
    assert _took_ns(queue, raised[0], repaired) < SECOND
    assert before == _state(place)


def test_a_mac_that_somebody_rewrote_is_named_with_what_it_flushed(mesh):
    """As systemd and NetworkManager do: the kernel drops all neighbours of the device, and they are put back."""
    mesh.settle()
    place, node = mesh.lab.node("b2"), mesh.lab.topology.nodes["b2"]
    neighbours = _state(place)[0]
    began_ns = time.monotonic_ns()
    try:
        with run_queue(mesh.daemons.agent_pid("b2")) as queue:
            place.run(["ip", "link", "set", DEVICE, "address", STRANGE_MAC], check=True)
            repaired = _await_repair(mesh, began_ns)
        raised = _raised(mesh, began_ns)
        # Neighbours that hold another MAC for it than it tells may say so as well; nobody says anything else.
        assert {("vtep-mac-changed", "b2")} == {(each.fields["fault"], each.fields["culprit"]) for each in raised}
        assert "b2" in {each.node for each in raised}
        assert _took_ns(queue, raised[0], repaired) < SECOND
        assert neighbours == _state(place)[0]
    finally:
        place.run(["ip", "link", "set", DEVICE, "address", node.overlay_mac], check=True)
