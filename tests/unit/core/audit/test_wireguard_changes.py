import msgspec

from meshwatchd.core.audit.wireguard_changes import (
    MAX_MESH_PEERS,
    MAX_SHOWN,
    STALE_NS,
    TunnelWatch,
    changes_more_than_counters,
    of_the_mesh,
    tunnel_status,
)
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.model.tunnel_facts import (
    AllowedIpsMoved,
    EndpointMoved,
    HandshakeRenewed,
    HandshakeStale,
    TunnelKeyChanged,
    TunnelPeersChanged,
)

A1, B1, B2 = "key-of-a1", "key-of-b1", "key-of-b2"


def peer(key, *prefixes, endpoint="203.0.113.11:51820", handshake_ns=SECOND, tx_bytes=0):
    """A peer with a session."""
    return WireGuardPeer(
        public_key=key, endpoint=endpoint, allowed_ips=prefixes, handshake_ns=handshake_ns, tx_bytes=tx_bytes
    )


def state(*peers, at_ns=2 * SECOND, public_key=A1):
    """A look at kilo0."""
    return WireGuardState(device="kilo0", public_key=public_key, listen_port=51820, at_ns=at_ns, peers=peers)


def observed(*states):
    """What the last of several looks tells."""
    watch = TunnelWatch()
    facts = []
    for each in states:
        facts = watch.observe([each])
    return facts


def test_a_device_seen_for_the_first_time_tells_nothing():
    """A restart of the agent is no change of the tunnel."""
    assert [] == observed(state(peer(B1, "10.2.0.0/24")))


def test_a_peer_that_roams_is_told():
    """An endpoint that becomes known is none: there was nowhere to come from."""
    before, after = peer(B1), peer(B1, endpoint="198.51.100.7:40000")
    unknown = peer(B1, endpoint="")

    moved = EndpointMoved(device="kilo0", peer=B1, before="203.0.113.11:51820", after="198.51.100.7:40000")
    assert [moved] == observed(state(before), state(after))
    assert [] == observed(state(unknown), state(after))


def test_a_stolen_prefix_is_told():
    """Both peers are there, and one has what the other had."""
    before = state(peer(B1, "10.2.0.0/24", "10.3.0.0/24"), peer(B2))
    after = state(peer(B1, "10.3.0.0/24"), peer(B2, "10.2.0.0/24"))

    theft = AllowedIpsMoved(device="kilo0", prefixes=("10.2.0.0/24",), from_peer=B1, to_peer=B2, is_owner_gone=False)
    assert [theft] == observed(before, after)


def test_a_change_of_leader_is_no_theft():
    """The peer that had the prefixes is gone, and another one has them all."""
    facts = observed(state(peer(B1, "10.2.0.0/24")), state(peer(B2, "10.2.0.0/24")))

    heritage = AllowedIpsMoved(device="kilo0", prefixes=("10.2.0.0/24",), from_peer=B1, to_peer=B2, is_owner_gone=True)
    assert [TunnelPeersChanged(device="kilo0", added=(B2,), removed=(B1,)), heritage] == facts


def test_a_new_key_of_the_device_is_told():
    """No peer knows it before it is told."""
    facts = observed(state(peer(B1)), state(peer(B1), public_key=B2))

    assert [TunnelKeyChanged(device="kilo0", before=A1, after=B2)] == facts


def test_a_stale_handshake_and_its_renewal_are_told_once():
    """Silence proves nothing; sending without an answer does."""
    watch = TunnelWatch()
    late = SECOND + STALE_NS + 1

    def look(at_ns, tx_bytes, handshake_ns=SECOND):
        return watch.observe([state(peer(B1, tx_bytes=tx_bytes, handshake_ns=handshake_ns), at_ns=at_ns)])

    assert [] == look(2 * SECOND, 100)
    assert [] == look(late - 1, 148)
    assert [] == look(late, 148)
    assert [HandshakeStale(device="kilo0", peer=B1, age_ns=STALE_NS + 2)] == look(late + 1, 296)
    assert [] == look(late + 2, 444)
    assert [HandshakeRenewed(device="kilo0", peer=B1)] == look(late + 3, 444, handshake_ns=late + 2)
    assert [] == look(late + 4, 444, handshake_ns=late + 2)


def test_a_peer_that_never_answered_is_stale_from_when_it_was_first_seen():
    """Its first handshake is as overdue as a later one."""
    never = [state(peer(B1, handshake_ns=0, tx_bytes=number), at_ns=number * (STALE_NS + 1)) for number in (1, 2)]

    assert [HandshakeStale(device="kilo0", peer=B1, age_ns=STALE_NS + 1)] == observed(*never)


def test_counters_are_no_news():
    """They grow with every packet; a handshake is news."""
    before = state(peer(B1, tx_bytes=1))
    busier = state(peer(B1, tx_bytes=2), at_ns=4 * SECOND)
    renewed = state(peer(B1, tx_bytes=2, handshake_ns=3 * SECOND))

    assert not changes_more_than_counters([before], [busier])
    assert changes_more_than_counters([before], [renewed])
    assert changes_more_than_counters([before], [])


def test_a_device_with_a_thousand_peers_is_none_of_the_mesh():
    """And no operator reads a thousand lines."""
    crowd = state(*(peer(f"key-{number}") for number in range(MAX_MESH_PEERS + 1)))
    small = msgspec.structs.replace(crowd, device="kilo0", peers=(peer(B1),))

    assert (small,) == of_the_mesh([crowd, small])
    assert MAX_SHOWN == len(tunnel_status([crowd]))


def test_a_status_has_ages_instead_of_instants():
    """No age before the first handshake, and the one that was read where a device gives no answer any more.

    A handshake in the very moment of reading is put on the clock after the reading is.
    """
    peers = peer(B1), peer(B2, handshake_ns=0), peer(A1, handshake_ns=5 * SECOND + 1)
    shown = tunnel_status([state(*peers, at_ns=5 * SECOND)])

    assert [(B1, 4 * SECOND), (B2, None), (A1, 0)] == [(each.peer, each.handshake_age_ns) for each in shown]
