"""What the engine's parts share, and the mesh of the moment."""

from __future__ import annotations

import msgspec

from meshwatchd.core.failover.topology_change_hold import MAX_NS
from meshwatchd.core.mesh.engine_state import REPEAT_NS
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.settings import SECOND
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
    assert set(state.controllers.values()) == set(state.by_path[NO_PATH])
    assert {} == state.readings


def test_a_change_by_the_agent_of_the_mesh_is_announced_past_the_tunnel_once():
    """Neighbours and standby paths are probed at once, since their probes carry the banner."""
    bench = ready("a3")
    state = bench.engine.state
    stirred = ev.MeshStirred(what="kilo0 went down", is_rebuilding=False)
    first = list(state.note_topology_change(stirred, bench.now))
    second = list(state.note_topology_change(stirred, bench.now))

    assert [out.MeshUnsettled(what="kilo0 went down")] == first
    assert [] == second
    assert not state.is_told
    assert state.schedule.deadline() == bench.now, "the probes leave at once"
    assert state.schedule.select(layer=Layer.UNDERLAY)


def test_a_change_that_every_node_sees_for_itself_costs_no_packet():
    """Six agents write at once, on few processors: they are not to wait for thirty probes that say so."""
    bench = ready("a3")
    state = bench.engine.state
    due = state.schedule.deadline()
    stirred = ev.MeshStirred(what="routes were removed", is_rebuilding=False, is_seen_everywhere=True)

    assert [out.MeshUnsettled(what="routes were removed")] == list(state.note_topology_change(stirred, bench.now))

    assert not state.is_told, "packets that leave anyway say so"
    assert due == state.schedule.deadline()


def test_a_device_is_told_of_at_once_though_routes_went_before():
    """The other location sees the device's silence, and not the routes."""
    bench = ready("a3")
    state = bench.engine.state
    list(state.note_topology_change(ev.MeshStirred(what="r", is_rebuilding=False, is_seen_everywhere=True), bench.now))
    assert [] == list(state.note_topology_change(ev.MeshStirred(what="kilo0", is_rebuilding=False), bench.now))

    assert state.schedule.deadline() == bench.now, "the probes leave at once"


def test_a_device_that_flaps_without_end_is_told_of_no_more():
    """Patience is over after five seconds, and a probe would say nothing."""
    bench = ready("a3")
    state, stirred = bench.engine.state, ev.MeshStirred(what="kilo0", is_rebuilding=True)
    for at in range(0, MAX_NS, REPEAT_NS):
        list(state.note_topology_change(stirred, bench.now + at))
    state.is_told = True
    assert [] == list(state.note_topology_change(stirred, bench.now + MAX_NS + SECOND))

    assert not state.unrest.bits(bench.now + MAX_NS + SECOND)
    assert state.is_told, "nothing is spread that has to be told"
