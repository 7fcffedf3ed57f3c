"""Nodes found by name in what agents say."""

import pytest

from meshwatchd.model.sources import CiliumNode, CiliumNodes
from tests.support import node_states


def test_a_node_of_kilos_graph_is_found_by_its_name():
    """Or not at all."""
    found = node_states.graph().node("b2")

    assert found is not None
    assert "10.2.0.12" == found.node_ip
    assert node_states.graph().node("c1") is None


@pytest.mark.parametrize(("own_name", "address"), [("default/a1", "10.0.0.1"), ("a2", "10.0.0.2"), ("", None)])
def test_cilium_calls_this_node_with_or_without_its_cluster(own_name, address):
    """Depending on whether it has one; an agent that has just started says nothing."""
    nodes = (
        CiliumNode(name="a1", cluster="default", node_ip="10.0.0.1"),
        CiliumNode(name="a2", cluster="default", node_ip="10.0.0.2"),
    )

    own = CiliumNodes(own_name=own_name, nodes=nodes).own

    assert address == (None if own is None else own.node_ip)
