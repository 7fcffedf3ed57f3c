"""Rates are held, and only nodes of the mesh are found."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.packet.peers import ALL_ANSWERS_PER_S, PEER_SESSIONS, Budgets, Peers, TokenBucket, budgets_of
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings, ProbeProfile, ProbeSettings, Settings
from meshwatchd.model.topology import Node
from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret, key_id, node_id
from meshwatchd.wire.replay import ReplayVerdict

SECOND_NS = 1_000_000_000
BUDGETS = Budgets(peer_per_s=100, all_per_s=150)
OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def _mesh(count: int, profile: ProbeProfile = ProbeProfile.DEFAULT) -> Settings:
    nodes = tuple(
        Node(
            name=NodeName(f"n{number}"),
            location=LocationName("here"),
            node_ip="10.0.0.1",
            pod_cidr="10.1.0.0/24",
            overlay_ip="10.1.0.0",
        )
        for number in range(count)
    )
    return Settings(probe=ProbeSettings(profile=profile), mesh=MeshSettings(node=nodes))


@pytest.mark.parametrize(("profile", "hertz"), [("fast", 50), ("default", 20), ("wan", 5)])
def test_a_peer_s_budget_is_twice_what_its_sessions_can_ask_for(profile, hertz):
    """200 sessions in step with their timers use half of it; the rest is for confirm bursts."""
    budgets = budgets_of(_mesh(3, ProbeProfile(profile)))

    assert 2 * PEER_SESSIONS * hertz == budgets.peer_per_s
    assert 2 * budgets.peer_per_s == budgets.all_per_s


def test_the_budget_of_all_is_bounded_by_what_a_core_can_do():
    """A large mesh is limited as a whole, and one peer's share of that stays the same."""
    budgets = budgets_of(_mesh(1_000))

    assert ALL_ANSWERS_PER_S == budgets.all_per_s
    assert budgets_of(_mesh(3)).peer_per_s == budgets.peer_per_s
    assert budgets_of(_mesh(0)).all_per_s == budgets.peer_per_s


def test_a_flood_of_one_peer_leaves_the_other_its_whole_share():
    """In all there is more than any one may take."""
    peers = Peers(MeshKeys("a1", [MeshSecret(secret=OLD)]), [NodeName("b1"), NodeName("b2")], budgets_of(_mesh(3)))
    loud, quiet = peers.peer(NodeName("b1")), peers.peer(NodeName("b2"))

    served = sum(loud.bucket.take(1) and peers.bucket.take(1) for _ in range(100_000))
    assert budgets_of(_mesh(3)).peer_per_s // 4 == served
    assert loud.bucket.is_empty(1)
    assert not quiet.bucket.is_empty(1)
    assert all(quiet.bucket.take(1) and peers.bucket.take(1) for _ in range(served))


def test_secrets_change_and_windows_stay():
    """A rotation must not reopen what was replayed, nor forget whose epoch is proven."""
    peers = Peers(MeshKeys("a1", [MeshSecret(secret=OLD)]), [NodeName("b1")], BUDGETS)
    guard = peers.peer(NodeName("b1")).guard
    guard.confirm(7)
    guard.accept(7, 1)
    before = peers.sending_key(NodeName("b1"))

    used = peers.use([MeshSecret(secret=NEW), MeshSecret(secret=OLD, role=KeyRole.RECEIVE_ONLY)])

    assert (key_id(NEW), tuple(sorted((key_id(OLD), key_id(NEW))))) == used
    assert key_id(NEW) == peers.sending_key(NodeName("b1")).key_id == peers.signing_id
    assert peers.claimed(node_id("b1"), key_id(OLD)) == (peers.peer(NodeName("b1")), before)
    assert guard is peers.peer(NodeName("b1")).guard
    assert ReplayVerdict.DUPLICATE is guard.accept(7, 1)


def test_a_name_is_known_under_any_key():
    """Who missed a rotation is named; strangers are not."""
    peers = Peers(MeshKeys("a1", [MeshSecret(secret=OLD)]), [NodeName("b1")], BUDGETS)

    assert peers.named(node_id("b1")) is peers.peer(NodeName("b1"))
    assert peers.named(node_id("x9")) is None


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
    peers = Peers(MeshKeys("a1", [MeshSecret(secret=secret)]), [NodeName("b1")], BUDGETS)
    claimed = peers.claimed(node_id("b1"), key_id(secret))

    assert claimed is not None
    assert "b1" == claimed[0].name
    assert peers.peer(NodeName("b1")) is claimed[0]
    assert peers.claimed(node_id("b2"), key_id(secret)) is None
    assert peers.claimed(node_id("b1"), key_id(secret) ^ 1) is None
    assert NodeName("b2") not in peers
    assert "b1" == peers.sending_key(NodeName("b1")).peer
