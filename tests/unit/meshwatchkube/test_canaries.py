"""What is printed goes into meshwatchd.toml as it is."""

from __future__ import annotations

import tomllib

import msgspec

from meshwatchd.config.shape import shape
from meshwatchd.model.settings import Settings
from meshwatchkube.canaries import CONTROL_PLANE, MOST, render
from meshwatchkube.cluster import Address, Node, NodeState
from tests.support.kube import address, node


def _master(name: str) -> Node:
    known = node(name)
    return msgspec.structs.replace(known, metadata=msgspec.structs.replace(known.metadata, labels={CONTROL_PLANE: ""}))


def _canaries(*nodes):
    return shape(tomllib.loads(render(nodes)), Settings).probe.canary


def test_api_servers_come_first_and_then_every_kubelet():
    """Nodes of the control plane have both."""
    found = _canaries(node("b1"), _master("a1"))
    assert [("apiserver-a1", 6443, "apiserver"), *((f"kubelet-{name}", 10250, "kubelet") for name in ("a1", "b1"))] == [
        (each.name, each.port, each.role) for each in found
    ]
    assert (address("b1"), "b1", "tcp") == (found[2].address, found[2].node, found[2].kind)


def test_a_refused_connection_is_no_answer():
    """What has stopped answers with RST, which proves the way and nothing more."""
    assert ["service"] * 2 == [each.expect for each in _canaries(_master("a1"))]


def test_no_more_than_a_daemon_takes():
    """What is left out is said."""
    nodes = [_master("a1"), *(node(f"b{number}") for number in range(10, 30))]
    assert MOST == len(_canaries(*nodes))
    assert "# kubelet-b24 is left out: a daemon takes 16." in render(nodes)


def test_a_node_without_an_address_has_no_canary():
    """A name is none."""
    bare = msgspec.structs.replace(node("b1"), status=NodeState(addresses=(Address(type="InternalIP", address="x"),)))
    assert () == _canaries(bare, msgspec.structs.replace(node("b2"), status=NodeState()))
