"""Where the mesh is known from."""

from __future__ import annotations

from meshwatchd.core.membership.roster import Roster
from meshwatchd.model.settings import DaemonSettings, MeshSettings, Settings
from meshwatchd.runtime.mesh_knowledge import SHOWN, describe_knowledge
from tests.support import hellos
from tests.support.lab_mesh import declared_mesh


def _roster(mesh: MeshSettings | None = None) -> Roster:
    return Roster(Settings(daemon=DaemonSettings(node="a1"), mesh=mesh or MeshSettings()))


def test_a_declared_mesh_is_declared_and_an_unknown_one_is_nothing():
    """The number of nodes includes this one; problems are bounded."""
    problems = tuple(str(number) for number in range(2 * SHOWN))
    declared = describe_knowledge(declared_mesh(), _roster(declared_mesh()), problems)
    assert ("declared", 1, SHOWN) == (declared.origin, declared.nodes, len(declared.problems))
    assert "nothing" == describe_knowledge(MeshSettings(), _roster(), ()).origin


def test_nodes_of_an_earlier_process_are_unheard():
    """Until they are heard."""
    roster = _roster()
    roster.restore(hellos.hello("b1"), 0)
    assert ("b1",) == describe_knowledge(MeshSettings(), roster, ()).unheard
    roster.hear(hellos.hello("b1"), 1)
    assert () == describe_knowledge(MeshSettings(), roster, ()).unheard
