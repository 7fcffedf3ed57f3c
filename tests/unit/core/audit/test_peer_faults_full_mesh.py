"""What nodes tell each other where every node has tunnels of its own and nobody relays."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from tests.support import example_status, hellos

BLOCKED = ToldFault(FaultCode.WIREGUARD_BLOCKED, NodeName("b1"))
GONE = ToldFault(FaultCode.WIREGUARD_DEVICE_MISSING, NodeName("b1"))


def _mesh(*, is_flat=True, **told):
    """Everybody's hellos; where it is flat everybody leads himself."""
    mesh = {}
    for name, hello in hellos.whole_mesh().items():
        view = msgspec.structs.replace(hello.view, is_leader=is_flat or hello.view.is_leader)
        mesh[name] = msgspec.structs.replace(hello, view=view, faults=told.get(name, ()))
    return mesh


@pytest.mark.parametrize(("is_flat", "told"), [(True, (BLOCKED,)), (False, ())])
def test_that_a_host_lives_behind_a_silent_tunnel_is_told_where_nobody_relays(is_flat, told):
    """Where somebody relays it is a matter of the two leaders."""
    status = example_status.status(example_status.verdict(FaultCode.WIREGUARD_BLOCKED, culprit="b1"))

    assert told == confess(status, _mesh(is_flat=is_flat))


@pytest.mark.parametrize(
    ("told", "verdict", "expected"),
    [
        ({"a1": (BLOCKED,)}, FaultCode.LEADER_DEAD, FaultCode.WIREGUARD_BLOCKED),
        ({"a1": (BLOCKED,)}, FaultCode.ONE_WAY_BREAK, FaultCode.ONE_WAY_BREAK),
        ({"a1": (BLOCKED,), "b1": (GONE,)}, FaultCode.LEADER_DEAD, FaultCode.WIREGUARD_DEVICE_MISSING),
    ],
)
def test_who_has_nothing_but_the_tunnel_believes_who_has_seen_the_host(told, verdict, expected):
    """A dead host and a dead tunnel look alike there; what the node itself has found goes before both."""
    explained = explain(example_status.verdict(verdict, culprit="b1"), believe(_mesh(**told), "a2"))

    assert (expected, "b1") == (explained.fault, explained.culprit)


@pytest.mark.parametrize(
    ("node", "blamed", "expected"),
    [
        ("b1", "a2", ("pod-network-broken", "b1")),
        ("a2", "b1", ("pod-network-broken", "b1")),
        ("a2", "b2", ("pod-unreachable", "b2")),
    ],
    ids=["the one that loses it", "who asks its pod", "about others"],
)
def test_a_pod_that_does_not_answer_is_among_those_that_somebody_misses(node, blamed, expected):
    """The node that loses what goes between pods asks the next one's in vain, and each of the others asks its own."""
    word = ToldFault(FaultCode.POD_NETWORK_BROKEN, NodeName("b1"))
    said = example_status.verdict(FaultCode.POD_UNREACHABLE, culprit=blamed)
    explained = explain(said, believe(_mesh(a1=(word,)), node), node=node)

    assert expected == (explained.fault, explained.culprit)
