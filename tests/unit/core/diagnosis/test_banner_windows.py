"""What fits into a banner, and who is told which part of it."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.banner_windows import (
    IN_TURN,
    NEWS_TURNS,
    Parts,
    bit_of,
    cut,
    from_window,
    shared_pairs,
    to_window,
    windows,
    windows_of,
)
from meshwatchd.core.failover.topology_change_hold import HERE
from meshwatchd.model.events import ActivePath, Banner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH
from tests.sim.random_mesh import Shape, mesh_of
from tests.support.lab_mesh import snapshot_of

FIFTY = mesh_of((Shape(1, 1),) * 50)


def _topology(name: str, mesh=FIFTY) -> Topology:
    topology = OVERLAY_MESH.recognise(snapshot_of(name, mesh=mesh), mesh, NodeName(name))
    assert isinstance(topology, Topology)
    return topology


def _banner() -> Banner:
    """Every pair of a node of fifty locations, all of its legs good."""
    active = tuple(ActivePath(pair=pair, rank=pair % 4, generation=pair) for pair in range(50))
    mask = sum(1 << bit_of(pair, view) for pair in range(50) for view in range(5))
    return Banner(view_up=mask | HERE, view_known=mask | HERE, active=active, is_admin_down=True, has_misfit=True)


@pytest.mark.parametrize(("locations", "count"), [(1, 0), (2, 0), (4, 0), (5, 1), (6, 1), (7, 2), (50, 9), (60, 10)])
def test_a_mesh_of_few_locations_has_no_windows(locations, count):
    """Four have six pairs, which is what one banner says."""
    assert count == windows(locations)


def test_a_banner_without_windows_is_told_whole():
    """The wire format of a small mesh is what it was."""
    assert _banner() == cut(_banner(), 0)


def test_the_windows_together_are_the_banner():
    """No pair is left out and none is said twice; what is about the node is in every part."""
    whole, parts = _banner(), [cut(_banner(), window) for window in range(1, 10)]

    assert whole.active == tuple(active for part in parts for active in part.active)
    union = 0
    for part in parts:
        assert part.view_up & HERE
        assert part.is_admin_down
        assert part.has_misfit
        assert 0 == union & part.view_up & ~HERE
        union |= part.view_up
    assert whole.view_up == union


@pytest.mark.parametrize("window", range(10))
def test_a_window_survives_the_wire(window):
    """32 bits each, whatever the pair."""
    part = cut(_banner(), window)
    bits = to_window(part.view_up, window)

    assert window == 0 or bits < 1 << 32
    assert part.view_up == from_window(bits, window)


def test_the_two_ends_of_a_pair_mean_the_same_by_its_number():
    """And no two pairs of one location have the same."""
    at = {name: shared_pairs(_topology(name)) for name in ("a1", "b1", "ax2")}

    assert at["a1"][NodeName("b1")] == at["b1"][NodeName("a1")] == at["b1"][NodeName("a3")]
    assert at["a1"][NodeName("ax2")] == at["ax2"][NodeName("a1")]
    assert 49 == len({at["a1"][node.name] for node in FIFTY.node if node.name in at["a1"]})
    assert "a2" not in at["a1"]
    assert {} == shared_pairs(_topology("a1", mesh_of((Shape(1, 1),) * 4)))


def test_another_location_hears_of_the_common_pair_and_neighbours_hear_everything():
    """In any order of pairs: the window told to a node is the one that its pair is in."""
    topology = _topology("a1")
    told, pairs = windows_of(topology), shared_pairs(topology)
    parts = Parts(_banner(), told)

    for name, pair in pairs.items():
        assert pair in [active.pair for active in parts.windows[parts.window(name)].active]
        assert not parts.is_in_turn(name)
    assert IN_TURN == told[NodeName("a2")]
    heard = [parts.window(name) for _ in range(9) for name in (NodeName("a2"), NodeName("a3"))]
    assert list(range(9)) == heard[::2] == heard[1::2]
    assert {} == windows_of(_topology("a1", mesh_of((Shape(1, 1),) * 4)))


def test_neighbours_hear_news_first():
    """Pair 20 is on another path: every other packet says so for a while, and no window is starved meanwhile."""
    told, banner = windows_of(_topology("a1")), _banner()
    moved = tuple(
        ActivePath(pair=p.pair, rank=7 if p.pair == 20 else p.rank, generation=99) for p in banner.active[20:21]
    )
    parts = Parts(banner, told)
    parts = Parts(
        Banner(view_up=banner.view_up, active=(*banner.active[:20], *moved, *banner.active[21:])),
        told,
        Parts(Banner(view_up=banner.view_up, active=banner.active), told, parts),
    )
    said = [parts.window(NodeName("a2")) for _ in range(NEWS_TURNS)]

    assert [20 // 6] * (NEWS_TURNS // 2) == said[::2]
    assert set(range(9)) == set(said[1:19:2])
    assert set(range(9)) == {parts.window(NodeName("a2")) for _ in range(9)}
