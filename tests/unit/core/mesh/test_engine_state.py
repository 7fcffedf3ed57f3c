"""What the engine's parts share, and the mesh of the moment."""

from __future__ import annotations

import msgspec

from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.topology import Location
from tests.support.bench import ready
from tests.support.lab_mesh import declared_mesh, snapshot_of


def test_a_mesh_brings_its_paths_and_voids_what_was_read_of_the_one_before():
    """Segments concern every pair; a path's sessions concern its own."""
    bench = ready("a3")
    state = bench.engine.state
    state.readings[NodeName("b1"), 0] = (ev.Banner(), ev.Banner())
    onprem, _ = declared_mesh().location
    fewer = Location(name=LocationName("cloud"), leader=NodeName("b1"))
    mesh = msgspec.structs.replace(declared_mesh(), location=(onprem, fewer))
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a3"), mesh=mesh)))

    assert state.topology is not None
    assert {NO_PATH, *(path.number for path in state.topology.local_paths())} == set(state.by_path)
    assert set(state.conductors.values()) == set(state.by_path[NO_PATH])
    assert {} == state.readings


def test_a_change_by_the_agent_of_the_mesh_is_announced_past_the_tunnel_once():
    """Neighbours and standby paths are probed at once, since their probes carry the banner."""
    bench = ready("a3")
    state = bench.engine.state
    first = list(state.note_topology_change("kilo0 went down", bench.now, is_rebuilding=False))
    second = list(state.note_topology_change("kilo0 went down", bench.now, is_rebuilding=False))

    assert [out.MeshUnsettled(what="kilo0 went down")] == first
    assert [] == second
    assert not state.is_told
    assert state.schedule.deadline() == bench.now, "the probes leave at once"
    assert state.schedule.select(layer=Layer.UNDERLAY)
