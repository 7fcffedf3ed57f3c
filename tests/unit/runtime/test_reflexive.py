"""What others see of this node's address is taken where it can be a way in."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.runtime.reflexive import MAX_DIRECT, Reflexive, tunnel_of
from tests.support import hellos

TUNNEL = WireGuardState(
    device="kilo0",
    public_key="own",
    listen_port=51820,
    at_ns=0,
    peers=(
        WireGuardPeer(public_key="b1-key", endpoint="198.51.100.21:51820"),
        WireGuardPeer(public_key="c1-key", endpoint="192.0.2.9:40312"),
        WireGuardPeer(public_key="d1-key", endpoint="[2001:db8::1]:51820"),
    ),
)


def test_the_tunnel_is_found_by_its_device():
    """Other WireGuard devices of the node say nothing about the mesh."""
    assert TUNNEL == tunnel_of((TUNNEL,), "kilo0")
    assert tunnel_of((TUNNEL,), "wg0") is None


@pytest.mark.parametrize(
    ("key", "port", "seen"),
    [
        ("b1-key", 51820, "198.51.100.21"),
        ("c1-key", 51820, ""),
        ("d1-key", 51820, "2001:db8::1"),
        ("x-key", 51820, ""),
        ("", 0, ""),
    ],
    ids=["port kept", "port changed by a NAT", "IPv6", "no peer of ours", "says nothing"],
)
def test_a_peer_is_told_where_it_is_seen(key, port, seen):
    """A port that a NAT has made up is a way out, and no way in."""
    peer = hellos.hello("b1", tunnel_public_key=key, tunnel_port=port)
    assert seen == Reflexive().sees((TUNNEL,), peer)


def test_a_snapshot_is_looked_through_once():
    """A device may have a peer for each node, and each hello asks; what another snapshot has counts at once."""

    class Counted(tuple[WireGuardPeer, ...]):
        """Counts how often it is gone through."""

        __slots__ = ()

        rounds = 0

        def __iter__(self):
            type(self).rounds += 1
            return super().__iter__()

    reflexive, peer = Reflexive(), hellos.hello("b1", tunnel_public_key="b1-key", tunnel_port=51820)
    tunnels = (msgspec.structs.replace(TUNNEL, peers=Counted(TUNNEL.peers)),)
    assert ["198.51.100.21"] * 9 == [reflexive.sees(tunnels, peer) for _ in range(9)]
    assert 1 == Counted.rounds
    assert "" == reflexive.sees((), peer)


def test_what_most_see_is_believed():
    """One witness in the wrong place outvotes nobody, and may change its mind."""
    reflexive = Reflexive()
    assert "" == reflexive.endpoint()
    for witness, seen in (("b1", "203.0.113.11"), ("c1", "203.0.113.11"), ("d1", "192.0.2.1")):
        reflexive.heard(witness, seen=seen, came_from="", counter=0)
    assert "203.0.113.11" == reflexive.endpoint()

    reflexive.heard("b1", seen="192.0.2.1", came_from="", counter=0)
    assert "192.0.2.1" == reflexive.endpoint()


@pytest.mark.parametrize("seen", ["", "2001:db8::1", "127.0.0.1", "some.host", "169.254.1.1"])
def test_what_cannot_be_an_endpoint_is_no_witness(seen):
    """Standby links are IPv4 between hosts."""
    reflexive = Reflexive()
    reflexive.heard("b1", seen=seen, came_from="", counter=0)

    assert "" == reflexive.endpoint()


def test_the_source_of_a_hello_counts_only_outside_of_the_mesh():
    """Through the tunnel everybody sees our private address."""
    reflexive = Reflexive()
    told = {each.view.node: each for each in (hellos.hello("a1"), hellos.hello("b1"), hellos.hello("b2"))}
    assert ("203.0.113.4",) == reflexive.direct(told, hellos.hello("a2"))
    reflexive.sent(1, "10.2.0.11")
    reflexive.sent(2, "203.0.113.4")

    reflexive.heard("b1", seen="", came_from="192.168.100.12", counter=1)
    assert "" == reflexive.endpoint()
    reflexive.heard("b1", seen="", came_from="203.0.113.12", counter=2)
    assert "203.0.113.12" == reflexive.endpoint()


def test_few_are_greeted_outside_of_the_mesh():
    """One leader of another location would do; those of the own see nothing."""
    told = hellos.whole_mesh(leaders={"a": "a1", "b": "b1"})
    assert ("203.0.113.4",) == Reflexive().direct(told, told[hellos.hello("a2").view.node])

    many = {
        f"z{n}": hellos.hello("b1", home=f"y{n}", standby_endpoint=f"192.0.2.{n + 1}") for n in range(MAX_DIRECT + 3)
    }
    assert MAX_DIRECT == len(Reflexive().direct(many, hellos.hello("a2")))  # type: ignore[arg-type]
    assert () == Reflexive().direct(told, None)


def test_open_questions_are_bounded():
    """A leader that never answers costs nothing."""
    reflexive = Reflexive()
    reflexive.direct(hellos.whole_mesh(), hellos.hello("a2"))
    for counter in range(1000):
        reflexive.sent(counter, "203.0.113.4")

    assert 100 > len(reflexive._open)


def test_who_is_forgotten_is_no_witness():
    """Leaders of earlier days saw this node at an address that it has no more, and there may be many of them."""
    reflexive, told = Reflexive(), hellos.whole_mesh()
    for number in range(5):
        reflexive.heard(f"gone-{number}", seen="203.0.113.11", came_from="", counter=0)
    reflexive.heard("b1", seen="203.0.113.12", came_from="", counter=0)
    assert "203.0.113.11" == reflexive.endpoint()
    reflexive.direct(told, hellos.hello("a2"))

    assert "203.0.113.12" == reflexive.endpoint()
