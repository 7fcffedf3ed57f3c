"""Whom Kilo takes for a leader, and what must be written for it to take another one."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchkube.leaders import (
    KILO_LEADER,
    KILO_READY_S,
    Mark,
    inverse,
    is_kilo_ready,
    kilo_leader,
    marks_for,
    stands,
)
from meshwatchkube.settings import LeaderKind
from tests.support.kube import NOW_S, node

PRIVATE, PUBLIC = "10.2.0.1:51820", "203.0.113.9:51820"


def _labelled(name, **labels):
    known = node(name)
    labels = {f"submariner.io/{key}": value for key, value in labels.items()}
    return msgspec.structs.replace(known, metadata=msgspec.structs.replace(known.metadata, labels=labels))


@pytest.mark.parametrize(
    ("nodes", "leader"),
    [
        ({"b1": {"endpoint": PRIVATE}, "b2": {"endpoint": PRIVATE}}, "b1"),
        ({"b1": {"endpoint": PRIVATE}, "b2": {"endpoint": PUBLIC}}, "b2"),
        ({"b1": {"endpoint": PUBLIC}, "b2": {"endpoint": PRIVATE, "leader": ""}}, "b2"),
        ({"b1": {"endpoint": PRIVATE, "leader": ""}, "b2": {"endpoint": PUBLIC, "leader": "false"}}, "b2"),
        ({"b1": {"endpoint": PRIVATE, "leader": ""}, "b2": {"endpoint": PRIVATE, "leader": "true"}}, "b1"),
        ({"b1": {"endpoint": PRIVATE, "force_endpoint": PUBLIC}, "b0": {"endpoint": PRIVATE}}, "b1"),
        ({"b1": {"endpoint": PUBLIC, "last_seen": "12"}, "b2": {"endpoint": PRIVATE}}, "b2"),
        ({"b1": {"endpoint": "gate.example.net:51820"}, "b2": {"endpoint": "100.64.0.1:51820"}}, "b2"),
        ({"b1": {"endpoint": "[fd00::1]:51820"}, "b2": {"endpoint": "[2001:db8::1]:51820"}}, "b2"),
        ({"b1": {"key": ""}}, ""),
    ],
)
def test_kilo_elects_by_mark_then_public_endpoint_then_name(nodes, leader):
    """The table of squat/kilo 0.7.0, findLeader: the value of the mark does not matter."""
    assert leader == kilo_leader((node(name, **notes) for name, notes in nodes.items()), NOW_S)


def test_kilo_counts_a_node_for_a_minute_after_its_agents_word():
    """Whatever the kubelet says."""
    assert is_kilo_ready(node("b1", last_seen=str(NOW_S - KILO_READY_S + 1)), NOW_S)
    assert not is_kilo_ready(node("b1", last_seen=str(NOW_S - KILO_READY_S)), NOW_S)
    assert not is_kilo_ready(node("b1", last_seen="soon"), NOW_S)


def test_kilo_takes_the_first_of_several_marks_so_the_others_go():
    """All of them come back with the way back."""
    nodes = {each.name: each for each in (node("b1", leader=""), node("b2"), node("b3", leader="x"))}
    marks = marks_for(LeaderKind.KILO, nodes.values(), former="b1", successor="b2")
    assert [("b2", "true"), ("b1", None), ("b3", None)] == [(mark.node, mark.value) for mark in marks]
    assert [("b3", "x"), ("b1", ""), ("b2", None)] == [(mark.node, mark.value) for mark in inverse(marks, nodes)]
    assert not stands(marks[0], nodes)
    assert stands(inverse(marks, nodes)[0], nodes)
    assert not stands(marks[0], {}), "a Node that is gone has no marks"


def test_submariner_keeps_its_other_gateways():
    """They are spare; the one that is broken gives its lease up when it has no label."""
    nodes = [_labelled("b1", gateway="true"), _labelled("b2", gateway="true"), _labelled("b3", gateway="true")]
    marks = marks_for(LeaderKind.SUBMARINER, nodes, former="b1", successor="b2")
    assert [Mark(node="b1", field="labels", key="submariner.io/gateway", value=None)] == list(marks)


def test_antrea_has_an_annotation_and_a_hook_has_nothing():
    """The successor is made a candidate first."""
    marks = marks_for(LeaderKind.ANTREA, [node("b1"), node("b2")], former="b1", successor="b2")
    assert [("annotations", "multicluster.antrea.io/gateway", "true")] == [(m.field, m.key, m.value) for m in marks]
    assert () == marks_for(LeaderKind.HOOK, [node("b1", leader="")], former="b1", successor="b2")


def test_a_successor_that_has_the_mark_needs_none():
    """Only the others lose theirs."""
    nodes = [node("b1", leader=""), node("b2", leader="true")]
    marks = marks_for(LeaderKind.KILO, nodes, former="b1", successor="b2")
    assert [("b1", KILO_LEADER, None)] == [(mark.node, mark.key, mark.value) for mark in marks]
