"""By which device packets to WireGuard's endpoints leave, as this machine's kernel says."""

from __future__ import annotations

import socket

import pytest

from meshwatchd.adapters.netlink.endpoint_lookup import MAX_LOOKUPS, EndpointLookups
from meshwatchd.model.snapshot import Link, RouteLookup, Snapshot, WireGuardPeer, WireGuardState

LO = Link(name="lo", index=socket.if_nametoindex("lo"), kind="", is_up=True, mtu_bytes=65536, addresses=("127.0.0.1",))


def _snapshot(*endpoints: str) -> Snapshot:
    peers = tuple(WireGuardPeer(public_key=str(number), endpoint=each) for number, each in enumerate(endpoints))
    state = WireGuardState(device="wg0", public_key="OWN", listen_port=51820, at_ns=1, peers=peers)
    return Snapshot(links=(LO,), wireguard=(state,))


@pytest.fixture
def lookups():
    """A socket to the kernel."""
    made = EndpointLookups()
    yield made
    made.close()


def test_each_endpoint_is_asked_once(lookups):
    """A peer that has not been heard yet has none, and several may share an address."""
    seen = lookups.add(_snapshot("127.0.0.1:51820", "", "127.0.0.1:51821", "127.0.0.2:51820"))

    assert tuple(RouteLookup(address=f"127.0.0.{last}", dev="lo") for last in (1, 2)) == seen.lookups


def test_what_cannot_be_asked_or_answered_is_left_out(lookups):
    """No address, an address that no route leads to, a device that the snapshot does not show."""
    assert () == lookups.add(_snapshot("no-address:1", "[fe80::1]:1", "0.0.0.300:1")).lookups
    unseen = Snapshot(wireguard=_snapshot("127.0.0.1:1").wireguard)
    assert () == lookups.add(unseen).lookups


def test_a_large_mesh_is_asked_about_in_part(lookups):
    """A handful of network cards is known after a handful of answers."""
    seen = lookups.add(_snapshot(*(f"127.0.{number}.1:1" for number in range(MAX_LOOKUPS + 9))))

    assert MAX_LOOKUPS == len(seen.lookups)


def test_neighbours_are_asked_beside_endpoints_and_kept_apart(lookups):
    """Whose device tells what is under the tunnel, and whose says by whom a detour leads: not the same question."""
    seen = lookups.add(_snapshot("127.0.0.1:51820"), ("127.0.0.3", "no-address", "127.0.0.3"))

    assert (RouteLookup(address="127.0.0.1", dev="lo"),) == seen.lookups
    assert {RouteLookup(address="127.0.0.3", dev="lo", via="")} == set(seen.near)
