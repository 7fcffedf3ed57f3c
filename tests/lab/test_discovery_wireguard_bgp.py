"""Plain WireGuard with BGP: daemons that are told the key and the mode find the mesh, and name what BGP cannot see.

BIRD runs in the east, FRR in the west.

All sessions stand while a tunnel is dead, a route of somebody else is taken first, or a peer may not carry what is
routed to it; and a prefix that is taken back is nobody's alarm.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from netnslab.waiting import wait_until
from tests.support.minimal_mesh import await_found, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

NODES = ("a1", "a2", "b1", "b2")
GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"
MISSED_S = 15
"""Less than it takes until all routes are asked for without a reason."""

CUT = """table inet cut {{
  chain out {{ type filter hook output priority 0; ip daddr {address} udp dport 51820 drop; }}
  chain in {{ type filter hook input priority 0; ip saddr {address} udp sport 51820 drop; }}
}}
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Four daemons with the minimal configuration, and how long they took to find each other."""
    with minimal_mesh("wireguard-bgp", tmp_path_factory.mktemp("wireguard-bgp")) as built:
        yield built


SPEAKERS = {"a1": "bird", "a2": "bird", "b1": "bgp", "b2": "bgp"}
NUMBERS = {"bird": 12, "bgp": 186}
SESSIONS = {"bird": ("birdc", "show", "protocols"), "bgp": ("vtysh", "-c", "show bgp neighbors")}


def _routes(lab, node):
    return lab.node(node).run(["ip", "route", "show", "proto", SPEAKERS[node]], check=True).stdout.splitlines()


def _established(lab, node):
    """How many sessions a node's routing daemon says stand."""
    told = lab.node(node).run([*SESSIONS[SPEAKERS[node]]], check=True).stdout
    return told.count("Established") if SPEAKERS[node] == "bird" else told.count("BGP state = Established")


def _verdicts(daemons, node):
    named = ((pair["verdict"]["fault"], pair["verdict"]["culprit"]) for pair in daemons.status(node)["pairs"])
    return {each for each in named if each != ("none", "")}


def _findings(daemons, node):
    return {(each["fault"], each["subject"]): each for each in daemons.status(node)["findings"]}


@contextmanager
def _done(place, do, undo):
    place.run(do.split(), check=True)
    try:
        yield
    finally:
        place.run(undo.split(), check=True)


def test_every_node_watches_every_other_and_knows_whose_the_routes_are(mesh):
    """By the kernel alone, without a word of BIRD's: each is a location of its own, asked by its address on wg0."""
    lab, daemons, took_s = mesh
    await_found(lab, daemons, pairs=3, took_s=took_s)
    for node, owner, pods in (("a1", "BIRD (proto bird)", "10.42.0.0/24"), ("b2", "FRR (proto bgp)", "10.42.3.0/24")):
        why = daemons.control(node, "topology", "--why").stdout
        assert f"routes of {owner}: 3; it alone changes them" in why
        assert f"this node's pods are in {pods}" in why


def _remembers(lab, node):
    """Whether a node has kept that the routes to all others are good."""
    return 3 == lab.node(node).run(["cat", GOOD_STATE]).stdout.count(f'"protocol":{NUMBERS[SPEAKERS[node]]}')


def test_each_fault_is_named_while_every_session_stands(mesh):
    """Four at once, each where it is: none of them moves a BGP session, and no route of theirs is changed for it.

    a1 and b1 are cut from each other; a1 takes its pods back, and a2 and b2 still reach it; a2 leads b2's pods to its
    router; b2 may not send to b1's.
    """
    lab, daemons, _ = mesh
    wait_until(lambda: all(_remembers(lab, node) for node in NODES), timeout_s=60, what="good states", poll_s=0.25)
    a1, a2, b2 = (lab.node(name) for name in ("a1", "a2", "b2"))
    keys = b2.run(["wg", "show", "wg0", "allowed-ips"], check=True).stdout
    key = next(line.split()[0] for line in keys.splitlines() if "10.8.0.3/32" in line)
    peer = f"wg set wg0 peer {key} allowed-ips 10.8.0.3/32"
    kept = [each for each in _routes(lab, "b1") if each.startswith("10.42.0.0/24")]
    a1.run(["nft", "-f", "-"], input=CUT.format(address="198.51.100.51"), check=True)
    with (
        _done(a1, "true", "nft delete table inet cut"),
        _done(a1, "birdc disable pods", "birdc enable pods"),
        _done(a2, "ip route add 10.42.3.0/24 via 172.31.16.1 dev eth0", "ip route del 10.42.3.0/24 via 172.31.16.1"),
        _done(b2, peer, f"{peer},10.42.2.0/24"),
    ):
        dead = {"a1": {("next-hop-dead", "b1")}, "b1": {("next-hop-dead", "a1")}, "a2": set(), "b2": set()}
        withdrawn, led, dropped = (
            *(("bgp-route-escaped", "10.42.0.0/24"), ("bgp-route-escaped", "10.42.3.0/24")),
            ("allowed-ips-missing", "10.42.2.0/24"),
        )
        found = {"a1": set(), "b1": set(), "a2": {withdrawn, led}, "b2": {withdrawn, dropped}}
        wait_until(
            lambda: (
                (dead, found)
                == (
                    {node: _verdicts(daemons, node) for node in NODES},
                    {node: {*_findings(daemons, node)} for node in NODES},
                )
            ),
            timeout_s=30,
            what=f"{dead}, {found}",
            poll_s=0.25,
        )
        assert {3} == {_established(lab, node) for node in NODES}
        assert kept == [each for each in _routes(lab, "b1") if each.startswith("10.42.0.0/24")] != []
        told = {
            node: " ".join(each for pair in daemons.status(node)["pairs"] for each in pair["verdict"]["because"])
            for node in ("a1", "b1")
        }
        assert "BIRD still routes there: 10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird" in told["a1"]
        assert "FRR still routes there: 10.42.0.0/24 via 10.8.0.1 dev wg0 proto bgp" in told["b1"]
        missing = " ".join(_findings(daemons, "b2")[dropped]["because"])
        assert "FRR routes 10.42.2.0/24 to b1: 10.42.2.0/24 via 10.8.0.3 dev wg0 proto bgp" in missing
        because = {name: " ".join(each["because"]) for name, each in _findings(daemons, "a2").items()}
        assert "another one is taken before it: 10.42.3.0/24 via 10.8.0.4 dev wg0 proto bird" in because[led]
        assert "BIRD's route is gone, withdrawn by it or deleted by somebody, while a1 still has" in because[withdrawn]
        assert all("leave by eth0" in each for each in because.values())
    wait_until(
        lambda: not any(_findings(daemons, node) for node in NODES),
        timeout_s=30,
        what="all to be put right",
        poll_s=0.25,
    )
    assert {3} == {len(_routes(lab, node)) for node in NODES}


def test_a_route_that_went_with_its_nexthop_object_is_missed(mesh):
    """`ip nexthop del`: the kernel drops FRR's route without a word, and FRR goes on believing that it is there."""
    lab, daemons, _ = mesh
    b2 = lab.node("b2")
    route = next(each for each in _routes(lab, "b2") if each.startswith("10.42.2.0/24"))
    nexthop = route.split("nhid ")[1].split()[0]
    b2.run(["ip", "nexthop", "del", "id", nexthop], check=True)
    wait_until(
        lambda: {*_findings(daemons, "b2")} == {("bgp-route-escaped", "10.42.2.0/24")},
        timeout_s=MISSED_S,
        what="b2 to miss its route to b1's pods",
        poll_s=0.25,
    )
    because = " ".join(_findings(daemons, "b2")["bgp-route-escaped", "10.42.2.0/24"]["because"])
    assert "FRR's route is gone, withdrawn by it or deleted by somebody, while b1 still has that prefix" in because
    b2.run(["vtysh", "-c", "clear bgp 10.8.0.3"], check=True)
    wait_until(lambda: not _findings(daemons, "b2"), timeout_s=30, what="FRR to write it anew", poll_s=0.25)
