"""A view as text; whole pages are in tests/golden."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.cli.render_topology import MAX_SHOWN, render_topology
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.discovery import Candidate, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from tests.support.example_status import HEALTHY


def shown(**fields):
    """The page of such a view."""
    view = LocalView(profiles=("kilo", "flannel"), node=NodeName("b3"), granularity="location")
    reply = TopologyReply(view=msgspec.structs.replace(view, **fields), pairs=())
    return render_topology(reply, paint=paint_nothing)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"location": LocationName("cloud"), "is_leader": True}, "b3 in cloud, leads it; kilo over flannel"),
        ({"leader": "10.244.4.0"}, "b3 in a location without a name, led by 10.244.4.0; kilo over flannel"),
        ({}, "b3 in a location without a name, no leader; kilo over flannel"),
        (
            {"granularity": "cross", "location": LocationName("cloud")},
            "b3 in cloud, every node leads itself (cross granularity); kilo over flannel",
        ),
        (
            {"granularity": "", "profiles": ("flannel", "wireguard")},
            "b3 in a mesh without locations; flannel over wireguard",
        ),
        (
            {"location": LocationName("cloud"), "profiles": ("kilo", "flannel", "liqo")},
            "b3 in cloud, no leader; kilo over flannel beside liqo",
        ),
        ({"granularity": "", "profiles": ("liqo",)}, "b3 in a mesh without locations; liqo"),
        ({"profiles": ()}, "NO MESH  nothing on b3 looks like one"),
    ],
)
def test_the_first_line_is_place_and_role(fields, line):
    """Enough for most questions."""
    assert line == shown(**fields).splitlines()[0]


def test_a_location_whose_name_was_agreed_on_is_named():
    """No source of this node tells it, and `status` says it too."""
    view = LocalView(profiles=("kilo",), node=NodeName("b3"), granularity="location", leader="10.244.4.0")
    told = render_topology(TopologyReply(view=view, pairs=HEALTHY.pairs), paint=paint_nothing)
    assert "b3 in cloud, led by 10.244.4.0; kilo" == told.splitlines()[0]


def test_of_many_nodes_a_few_are_shown():
    """A large mesh has hundreds."""
    told = tuple(Candidate(address=f"10.2.0.{number}") for number in range(1, MAX_SHOWN + 4))

    assert "elsewhere  10.2.0.1, 10.2.0.2, 10.2.0.3" in shown(candidates=told)
    assert f"10.2.0.{MAX_SHOWN} and 3 more\n" in shown(candidates=told)
