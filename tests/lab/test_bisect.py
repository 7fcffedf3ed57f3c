"""Packets die at known places, and one run names each of them: real kernels, real daemons, taps and crafted packets."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from netnslab import Inhabitant, Lab, faults
from netnslab.daemons import CONFIGURATION, Daemons
from netnslab.waiting import pause_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

READY_S = 90
PROCESS_S = 30
KNOWN_NS = 4_000_000_000
"""Known flows cycle over eight ports, one every 200 ms: all have gone by twice."""
OVERLAY, LOWER = "flannel.1", "eth0"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Lab, Daemons]]:
    """Daemons on every node; they only look on, so that nothing moves while we look for packets."""
    directory = tmp_path_factory.mktemp("bisect")
    settings: dict[str, dict[str, object]] = {"daemon": {"mode": "observe"}, "bisect": {"on_verdict": False}}
    with Lab.up("kilo-flannel") as lab, Daemons(lab, directory, settings=settings) as daemons:
        daemons.wait_ready(timeout_s=READY_S)
        yield lab, daemons


@pytest.fixture
def mesh(built) -> Lab:
    """The lab alone."""
    lab: Lab = built[0]
    return lab


def bisect(lab: Lab, node: str, peer: str) -> dict[str, Any]:
    """One run by hand."""
    command = [sys.executable, "-P", "-m", "meshwatchd.bisect", "--config", CONFIGURATION, peer]
    done = lab.node(node).run(command, timeout=PROCESS_S)
    assert 0 == done.returncode, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def verdict(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """Place, direction and flows."""
    return result["place"], result["direction"], result["flows"]


def series(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The counts of one series."""
    found: dict[str, Any] = next(each for each in result["series"] if each["name"] == name)
    return found


@contextmanager
def changed(place: Inhabitant, change: str, back: str) -> Iterator[None]:
    """Something is different for a while."""
    place.run(["sh", "-ec", change], check=True)
    try:
        yield
    finally:
        place.run(["sh", "-ec", back], check=True)


def nft(place: Inhabitant, family: str, hook: str, rule: str) -> AbstractContextManager[None]:
    """A rule at a hook, for a while."""
    chain = f"add table {family} hush; add chain {family} hush c {{ type filter hook {hook} priority 0; }}"
    return changed(place, f"nft '{chain}; add rule {family} hush c {rule}'", f"nft delete table {family} hush")


def mac_of(lab: Lab, node: str) -> str:
    """Of its overlay device."""
    (link,) = json.loads(lab.node(node).run(["ip", "-json", "link", "show", OVERLAY], check=True).stdout)
    return str(link["address"])


def overlay_ip(lab: Lab, node: str) -> str:
    """Of its overlay device."""
    return str(lab.topology.nodes[node].overlay_ip)


@pytest.mark.parametrize(
    ("node", "peer", "device"), [("b3", "b1", OVERLAY), ("b3", "a3", OVERLAY), ("b1", "a3", "kilo0")]
)
def test_a_healthy_way(mesh, node, peer, device):
    """To the leader, and to another location from both: nothing dies, nothing crafted is sent."""
    result = bisect(mesh, node, peer)

    assert ("nowhere", "none") == (result["place"], result["flows"]), result["because"]
    assert 12 == series(result, "kernel")["at_overlay"]
    assert 0 == series(result, "crafted")["sent"]
    assert device == result["taps"][0]["device"]
    assert 0 == sum(tap["dropped"] for tap in result["taps"])


def test_a_run_leaves_nothing_behind(mesh):
    """Rules, routes, neighbours, FDB entries and devices are what they were, and it needs CAP_NET_RAW alone."""
    node = mesh.node("b3")

    def state() -> list[str]:
        shown = "ip rule; ip route show table all; ip -brief link; bridge fdb show; ip neigh show dev flannel.1"
        return sorted(node.run(["sh", "-c", shown], check=True).stdout.splitlines())

    before = state()
    limited = "setpriv --bounding-set -all,+net_raw --inh-caps -all"
    command = f"{limited} {sys.executable} -P -m meshwatchd.bisect --config {CONFIGURATION} b1"
    with nft(node, "ip", "output", "udp dport 8472 drop"):
        done = node.run(["sh", "-c", command], timeout=PROCESS_S)

    assert 0 == done.returncode, done.stderr
    assert "local-netfilter" == json.loads(done.stdout)["place"]
    assert before == state()


def test_an_operator_asks_the_daemon(built):
    """The agent starts the process; the answer is a page for people, and an event."""
    mesh, daemons = built
    with nft(mesh.node("b3"), "ip", "output", "udp dport 8472 drop"):
        shown = daemons.control("b3", "bisect", "b1")

    assert 2 == shown.returncode, shown.stderr
    assert "netfilter" in shown.stdout.splitlines()[0]
    (event,) = [event for event in daemons.events(since_ns=0) if event.name == "path.bisected"]
    assert ("b3", "b1", "local-netfilter") == (event.node, event.fields["peer"], event.fields["place"])


def test_fdb_entry_deleted(mesh):
    """Packets enter flannel.1 and leave by nothing, while those made by hand are answered."""
    mac, entry = mac_of(mesh, "b1"), f"dev {OVERLAY} dst {mesh.topology.nodes['b1'].node_ip}"
    with changed(mesh.node("b3"), f"bridge fdb del {mac} {entry}", f"bridge fdb append {mac} {entry} self permanent"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-fdb", "outbound") == verdict(result)[:2], result["because"]
    assert (12, 0) == (series(result, "kernel")["at_overlay"], series(result, "kernel")["at_lower"])
    assert 8 == series(result, "crafted")["echoed"]
    assert mac in result["because"][0]


def test_fdb_entry_to_another_node(mesh):
    """Packets leave the NIC, for somebody else."""
    mac, nodes = mac_of(mesh, "b1"), mesh.topology.nodes
    replace = f"bridge fdb replace {mac} dev {OVERLAY} self permanent dst"
    with changed(mesh.node("b3"), f"{replace} {nodes['b2'].node_ip}", f"{replace} {nodes['b1'].node_ip}"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-fdb", "outbound") == verdict(result)[:2], result["because"]
    assert nodes["b2"].node_ip in result["because"][0]


def test_neighbour_wrong(mesh):
    """The MAC of nobody: frames with the right one, put into the same device, are answered."""
    replace = f"ip neigh replace {overlay_ip(mesh, 'b1')} dev {OVERLAY} nud permanent lladdr"
    with changed(mesh.node("b3"), f"{replace} 02:11:22:33:44:55", f"{replace} {mac_of(mesh, 'b1')}"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-neighbour", "outbound") == verdict(result)[:2], result["because"]
    assert 8 == series(result, "injected")["echoed"]
    assert "02:11:22:33:44:55" in result["because"][0]
    assert mac_of(mesh, "b1") in result["because"][0]


def test_neighbour_deleted(mesh):
    """The kernel asks by broadcast, which this overlay does not carry: nothing enters it."""
    address = overlay_ip(mesh, "b1")
    back = f"ip neigh replace {address} dev {OVERLAY} nud permanent lladdr {mac_of(mesh, 'b1')}"
    with changed(mesh.node("b3"), f"ip neigh del {address} dev {OVERLAY}", back):
        result = bisect(mesh, "b3", "b1")

    assert ("local-neighbour", "outbound") == verdict(result)[:2], result["because"]
    assert 0 == series(result, "kernel")["at_overlay"]


def test_the_peers_mac_changed(mesh):
    """Its device was made anew: what is heard from it tells, against both tables here."""
    old, new = mac_of(mesh, "b1"), "02:bb:bb:bb:bb:04"
    lines = mesh.node("b1").run(["ip", "neigh", "show", "dev", OVERLAY, "nud", "permanent"], check=True).stdout
    refill = "; ".join(
        f"ip neigh replace {words[0]} dev {OVERLAY} nud permanent lladdr {words[2]}"
        for words in (line.split() for line in lines.splitlines())
    )
    change = f"ip link set {OVERLAY} address"
    with changed(mesh.node("b1"), f"{change} {new}; {refill}", f"{change} {old}; {refill}"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-neighbour", "outbound") == verdict(result)[:2], result["because"]
    assert new in result["because"][0]


def test_route_gone(mesh):
    """Packets do not enter the overlay; the kernel says so, or a default route takes them."""
    cidr = mesh.topology.nodes["b1"].pod_cidr
    back = f"ip route add {cidr} via {overlay_ip(mesh, 'b1')} dev {OVERLAY} proto boot onlink"
    with changed(mesh.node("b3"), f"ip route del {cidr}", back):
        result = bisect(mesh, "b3", "b1")

    assert ("local-route", "outbound") == verdict(result)[:2], result["because"]


def test_no_underlay_route(mesh):
    """Outer packets have nowhere to go."""
    vtep = mesh.topology.nodes["b1"].node_ip
    with changed(mesh.node("b3"), f"ip route add blackhole {vtep}", f"ip route del blackhole {vtep}"):
        result = bisect(mesh, "b3", "b1")

    assert ("underlay-route", "outbound") == verdict(result)[:2], result["because"]


def test_underlay_arp_unresolved(mesh):
    """The overlay device counts its packets as sent, and nobody answers ARP on the NIC."""
    mac = f"ip link set {LOWER} arp"
    flush = f"ip neigh flush dev {LOWER}"
    with changed(mesh.node("b1"), f"{mac} off", f"{mac} on"):
        mesh.node("b3").run(["sh", "-ec", flush], check=True)
        result = bisect(mesh, "b3", "b1")

    assert ("underlay-arp", "outbound") == verdict(result)[:2], result["because"]


def test_filter_above_the_overlay(mesh):
    """Inner packets are dropped at the output hook: frames put into the device go round it."""
    with nft(mesh.node("b3"), "ip", "output", f"oif {OVERLAY} udp dport 18618 drop"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-filter", "outbound") == verdict(result)[:2], result["because"]
    assert ["EPERM"] == series(result, "kernel")["errors"]


def test_filter_between_the_devices(mesh):
    """Outer packets are dropped at the output hook, above the NIC: frames put into the NIC go round it."""
    with nft(mesh.node("b1"), "ip", "output", "udp dport 8472 drop"):
        result = bisect(mesh, "b1", "b3")

    assert ("local-netfilter", "outbound") == verdict(result)[:2], result["because"]
    assert 8 == series(result, "framed")["echoed"]


def test_traffic_control_on_the_nic(mesh):
    """An egress filter, below IP and above the driver: not even frames leave."""
    with nft(mesh.node("b1"), "netdev", f"egress device {LOWER}", "udp dport 8472 drop"):
        result = bisect(mesh, "b1", "b3")

    assert ("local-qdisc", "outbound") == verdict(result)[:2], result["because"]


def test_filter_on_the_way_in(mesh):
    """Answers reach the NIC and are dropped before the overlay device."""
    with nft(mesh.node("b3"), "ip", "input", "udp dport 8472 drop"):
        result = bisect(mesh, "b3", "b1")

    assert ("local-ingress", "inbound") == verdict(result)[:2], result["because"]


@pytest.mark.parametrize(("node", "peer", "direction"), [("b1", "b3", "outbound"), ("b3", "b1", "inbound")])
def test_black_hole_below_the_nic(mesh, node, peer, direction):
    """All overlay packets of the leader die at the switch: handed to the driver here, never seen by the taps there."""
    with faults.overlay_black_hole(mesh, "b1"):
        result = bisect(mesh, node, peer)

    assert ("wire", direction, "all") == verdict(result), result["because"]
    assert (["wire"], True) == (result["candidates"], result["is_two_sided"])
    assert (12, 12, 0) == tuple(series(result, "kernel")[key] for key in ("at_overlay", "at_lower", "echoed"))
    assert 4 == series(result, "underlay")["echoed"]


def test_without_the_peers_taps_every_place_beyond_the_nic_is_named(mesh):
    """Its agent cannot be asked: the same fault, the same place first, and what cannot be told apart from it."""
    with faults.overlay_black_hole(mesh, "b1"), nft(mesh.node("b3"), "ip", "input", "udp dport 18616 drop"):
        result = bisect(mesh, "b1", "b3")

    assert ("wire", False) == (result["place"], result["is_two_sided"]), result["because"]
    assert ["wire", "peer-ingress", "peer-overlay", "peer-egress"] == result["candidates"]


@pytest.mark.parametrize(
    ("hook", "rule", "expected"),
    [
        ("input", "udp dport 8472 drop", ("peer-ingress", "outbound")),
        ("input", f"iif {OVERLAY} udp dport 18618 drop", ("peer-overlay", "outbound")),
        ("output", "udp dport 8472 drop", ("peer-egress", "inbound")),
    ],
)
def test_filters_of_the_peer(mesh, hook, rule, expected):
    """Between its NIC and its overlay device, behind that, and on its answers' way out."""
    with nft(mesh.node("b1"), "ip", hook, rule):
        result = bisect(mesh, "b3", "b1")

    assert expected == verdict(result)[:2], result["because"]
    assert [expected[0]] == result["candidates"]


def test_new_flows_die_below_the_nic(mesh):
    """The seed's fault, at the leader and seen from a member: remembered flows live, every crafted one is new."""
    with faults.overlay_black_hole_new_flows(mesh, "b1", memory_s=120).armed() as fault:
        pause_until(time.monotonic_ns() + KNOWN_NS)
        fault.inject()
        results = {node: bisect(mesh, node, peer) for node, peer in (("b1", "b3"), ("b3", "b1"))}
        fault.heal()

    assert ("wire", "outbound", "new") == verdict(results["b1"]), results["b1"]["because"]
    assert ("wire", "inbound", "new") == verdict(results["b3"]), results["b3"]["because"]
    for result in results.values():
        assert series(result, "crafted")["echoed"] <= 1
        known = result["known_flows"]
        assert known["sent"] == known["answered"] > 0
