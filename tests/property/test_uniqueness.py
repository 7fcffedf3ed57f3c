"""Tables, priorities and ports: whatever the mesh, no two purposes of a node share one."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.core.routes.planner import DELIVERY_SLOT, EMPTY_SLOT, Planner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.plan import FIRST_TABLES, TABLES
from meshwatchd.model.topology import COUNTED_LOCATIONS, Topology
from meshwatchd.profiles import OVERLAY_MESH
from tests.sim.random_mesh import Shape, mesh_of
from tests.support.lab_mesh import settings_for, snapshot_of

SHAPES = st.tuples(st.sampled_from([2, 3, 4, 5, 6, 7, 12, 50, 60]), st.integers(0, 1), st.sampled_from(["b1", "b2"]))


def _planner(locations: int, standbys: int, node: str) -> Planner:
    mesh = mesh_of((Shape(standbys, 1),) * locations)
    topology = OVERLAY_MESH.recognise(snapshot_of(node, mesh=mesh), mesh, NodeName(node))
    assert isinstance(topology, Topology)
    return Planner(topology, msgspec.structs.replace(settings_for(node), mesh=mesh))


@settings(max_examples=12, deadline=None)
@given(SHAPES)
def test_no_two_purposes_share_a_table_a_priority_or_a_port(shape):
    """A table of traffic that were also one of probes would let the probes of one path vouch for another."""
    locations, standbys, node = shape
    planner = _planner(locations, standbys, node)
    kernel, provision = planner.settings.kernel, planner.provision()
    tables = [kernel.table_base + DELIVERY_SLOT, kernel.table_base + EMPTY_SLOT]
    tables += [planner.place_of(path)[1] for path in planner.paths]
    tables += [planner._probe_table(path) for path in planner.paths]
    assert len(tables) == len(set(tables))
    size = FIRST_TABLES if locations <= COUNTED_LOCATIONS else TABLES
    assert {*tables} <= {*range(kernel.table_base, kernel.table_base + size)}

    bands = {
        "deliveries": {rule.priority for rule in provision.rules if rule.iif},
        "selectors": {rule.priority for rule in provision.rules if rule.dport},
        "policy rules": {rule.priority for path in planner.paths for rule in planner.override(path)},
        "landing": {rule.priority for rule in provision.rules if not rule.iif and not rule.dport},
    }
    assert [] == [(one, two) for one, two in combinations(bands, 2) if bands[one] & bands[two]]
    assert set().union(*bands.values()) <= {*range(kernel.priority_base, kernel.priority_base + 100)}
    assert len(provision.rules) == len(set(provision.rules))

    ports = [planner.probe_port(path) for path in planner.paths]
    assert len(ports) == len(set(ports))
