"""Plain WireGuard with BGP: daemons that are told the key and the mode find the mesh, and name what BIRD cannot see.

All sessions stand and every `birdc` says that all is well, while a tunnel is dead, a route of somebody else is taken
first, or a peer may not carry what is routed to it; and a prefix that a filter takes back is nobody's alarm.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from netnslab.waiting import wait_until
from tests.support.minimal_mesh import for_all, minimal_mesh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

NODES = ("a1", "a2", "b1", "b2")
FOUND_S = 10.0
GOOD_STATE = "/var/lib/meshwatchd/overlay-good.json"

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


def _is_well(status):
    return status is not None and status["is_ready"] and status["severity"] == "ok" and len(status["pairs"]) == 3


def _routes(lab, node):
    return lab.node(node).run(["ip", "route", "show", "proto", "bird"], check=True).stdout.splitlines()


def _established(lab, node):
    """How many sessions a node's BIRD says stand."""
    return lab.node(node).run(["birdc", "show", "protocols"], check=True).stdout.count("Established")


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
    assert took_s <= FOUND_S
    for_all(lab, daemons, _is_well, what="all to be well")
    for node in NODES:
        status = daemons.status(node)
        assert {"origin": "hellos", "nodes": 4, "unheard": [], "problems": []} == status["knowledge"], node
        assert {"up"} == {session["state"] for session in status["sessions"]}, node
    why = daemons.control("a1", "topology", "--why").stdout
    assert "routes of BIRD (proto bird): 3; it alone changes them" in why
    assert "this node's pods are in 10.42.0.0/24" in why


def test_each_of_them_is_named_while_bird_says_that_all_is_well(mesh):
    """At once: a1 and b1 are cut from each other, a2 leads b2's pods elsewhere, b2 may not carry a1's."""
    lab, daemons, _ = mesh
    for_all(lab, daemons, _is_well, what="all to be well")
    a1, a2, b2 = (lab.node(name) for name in ("a1", "a2", "b2"))
    before = {node: _routes(lab, node) for node in NODES}
    keys = b2.run(["wg", "show", "wg0", "allowed-ips"], check=True).stdout
    key = next(line.split()[0] for line in keys.splitlines() if "10.8.0.1/32" in line)
    peer = f"wg set wg0 peer {key} allowed-ips 10.8.0.1/32"
    a1.run(["nft", "-f", "-"], input=CUT.format(address="198.51.100.51"), check=True)
    with (
        _done(a1, "true", "nft delete table inet cut"),
        _done(a2, "ip route add 10.42.3.0/24 via 172.31.16.1 dev eth0", "ip route del 10.42.3.0/24 via 172.31.16.1"),
        _done(b2, peer, f"{peer},10.42.0.0/24"),
    ):
        dead = {"a1": {("next-hop-dead", "b1")}, "b1": {("next-hop-dead", "a1")}, "a2": set(), "b2": set()}
        wait_until(
            lambda: dead == {node: _verdicts(daemons, node) for node in NODES}, timeout_s=20, what=f"{dead}", poll_s=0.1
        )
        found = {"a2": ("bgp-route-escaped", "10.42.3.0/24"), "b2": ("allowed-ips-missing", "10.42.0.0/24")}
        wait_until(
            lambda: all({name} == set(_findings(daemons, node)) for node, name in found.items()),
            timeout_s=20,
            what=f"{found}",
            poll_s=0.1,
        )
        assert {3} == {_established(lab, node) for node in NODES}
        told = " ".join(each for pair in daemons.status("a1")["pairs"] for each in pair["verdict"]["because"])
        assert "BIRD still routes there: 10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird" in told
        escaped = " ".join(_findings(daemons, "a2")[found["a2"]]["because"])
        assert "leave by eth0" in escaped
        assert "birdc 'show route for 10.42.3.0/24 all'" in escaped
        assert before == {node: _routes(lab, node) for node in NODES}
    for_all(lab, daemons, _is_well, what="all to be well again")


def test_a_withdrawn_prefix_is_missed_while_its_node_lives(mesh):
    """b1 takes its pods back: all others send to them by the default route, and b1 still has them."""
    lab, daemons, _ = mesh
    for_all(lab, daemons, _is_well, what="all to be well")
    others = ("a1", "a2", "b2")
    wait_until(
        lambda: all("10.42.2.0/24" in lab.node(node).run(["cat", GOOD_STATE]).stdout for node in others),
        timeout_s=30,
        what="good states",
        poll_s=0.5,
    )
    with _done(lab.node("b1"), "birdc disable pods", "birdc enable pods"):
        name = ("bgp-route-escaped", "10.42.2.0/24")
        wait_until(
            lambda: all({name} == set(_findings(daemons, node)) for node in others),
            timeout_s=20,
            what="all to miss b1's pods",
            poll_s=0.1,
        )
        assert "BIRD has withdrawn its route" in " ".join(_findings(daemons, "a1")[name]["because"])
        assert {} == _findings(daemons, "b1")
    for_all(lab, daemons, _is_well, what="all to be well again")
