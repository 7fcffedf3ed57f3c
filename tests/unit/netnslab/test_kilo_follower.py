"""Kilo's rule of who leads, and that annotations are followed, once each."""

from __future__ import annotations

import pytest

from netnslab.kilo_follower import KiloFollower, leader_of
from netnslab.kube_api.objects import Object, part
from netnslab.kube_api.resources import NODES
from netnslab.kube_api.store import Store
from netnslab.topology_file import load
from netnslab.waiting import wait_until


def _node(name: str, endpoint: str, **notes: str) -> Object:
    annotations: Object = {"kilo.squat.ai/endpoint": endpoint}
    annotations |= {f"kilo.squat.ai/{key}": value for key, value in notes.items()}
    return {"metadata": {"name": name, "annotations": annotations}}


PRIVATE, PUBLIC = "10.2.0.1:51820", "203.0.113.1:51820"


@pytest.mark.parametrize(
    ("nodes", "leader"),
    [
        ([_node("b2", PRIVATE), _node("b1", PRIVATE)], "b1"),
        ([_node("b1", PRIVATE), _node("b2", PUBLIC)], "b2"),
        ([_node("b1", PUBLIC), _node("b2", PRIVATE, leader="false")], "b2"),
        ([_node("b1", PRIVATE, leader=""), _node("b2", PUBLIC, leader="")], "b2"),
        ([_node("b1", PUBLIC, leader=""), _node("b2", PUBLIC, leader="")], "b1"),
        ([], ""),
    ],
)
def test_kilo_takes_mark_then_public_endpoint_then_name(nodes, leader):
    """The value of the mark does not matter."""
    assert leader == leader_of(nodes)


class _Agents:
    def __init__(self):
        self.elected: list[str] = []

    def elect(self, leader):
        self.elected.append(leader)


def _mark(store, name, value):
    def marked(before):
        metadata = part(before, "metadata")
        notes = {**part(metadata, "annotations"), "kilo.squat.ai/leader": value}
        if value is None:
            del notes["kilo.squat.ai/leader"]
        return {**before, "metadata": {**metadata, "annotations": notes}}

    store.edit(NODES, name, "", marked)


def test_an_annotation_is_followed_and_so_is_its_end():
    """What changes nothing about the leader moves nobody."""
    store, agents = Store((NODES,)), _Agents()
    with KiloFollower(agents, load("kilo-flannel"), store) as follower:
        assert {"onprem": "a1", "cloud": "b1"} == follower.leaders
        _mark(store, "b2", "true")
        wait_until(lambda: ["b2"] == agents.elected, timeout_s=5, what="b2 to be elected", poll_s=0.01)
        _mark(store, "b2", "yes")
        _mark(store, "b2", None)
        wait_until(lambda: ["b2", "b1"] == agents.elected, timeout_s=5, what="b1 to be elected", poll_s=0.01)
        assert {"onprem": "a1", "cloud": "b1"} == follower.leaders
