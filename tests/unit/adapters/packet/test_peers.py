"""Rates are held, and only nodes of the mesh are found."""

from __future__ import annotations

from meshwatchd.adapters.packet.peers import Peers, TokenBucket
from meshwatchd.model.ids import NodeName
from meshwatchd.wire import MeshKeys, MeshSecret, node_id
from meshwatchd.wire.auth import key_id

SECOND_NS = 1_000_000_000


def test_bucket_gives_a_burst_and_then_its_rate():
    """A quarter of a second's worth at once; then one each interval."""
    bucket = TokenBucket(100)
    start_ns = 5 * SECOND_NS

    assert 25 == sum(bucket.take(start_ns) for _ in range(100))
    assert not bucket.take(start_ns + SECOND_NS // 200)
    assert bucket.take(start_ns + SECOND_NS // 50)


def test_bucket_does_not_save_more_than_its_burst():
    """An hour of silence buys no flood."""
    bucket = TokenBucket(100)
    bucket.take(0)

    assert 25 == sum(bucket.take(3600 * SECOND_NS) for _ in range(100))


def test_claims_are_resolved_for_nodes_of_the_mesh_only():
    """A stranger's id, and another secret's key id, find nothing."""
    secret = bytes(range(32))
    peers = Peers(MeshKeys("a1", [MeshSecret(secret=secret)]), [NodeName("b1")])
    claimed = peers.claimed(node_id("b1"), key_id(secret))

    assert claimed is not None
    assert "b1" == claimed[0].name
    assert peers.peer(NodeName("b1")) is claimed[0]
    assert peers.claimed(node_id("b2"), key_id(secret)) is None
    assert peers.claimed(node_id("b1"), key_id(secret) ^ 1) is None
    assert NodeName("b2") not in peers
    assert "b1" == peers.sending_key(NodeName("b1")).peer
