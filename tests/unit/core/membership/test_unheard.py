"""Whom others do not hear either: the word of the living, by majority."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.unheard import corroborated
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import FRESH_NS, NodeStatus, SilentPeer

DEAD = frozenset({NodeName("d1")})


def _reporter(name, *silent, age_ns=0, severity="critical", is_cut=False):
    peers = tuple(SilentPeer(peer=each, layer="wireguard") for each in silent)
    return NodeStatus(
        name=NodeName(name), heard_ago_ns=0, report_age_ns=age_ns, severity=severity, silent=peers, is_cut=is_cut
    )


@pytest.mark.parametrize(
    ("reporters", "is_dead"),
    [
        ((), False),
        ((_reporter("c2", "d1"),), True),
        ((_reporter("c2"),), False),
        ((_reporter("c2", "d1"), _reporter("c3")), False),
        ((_reporter("c2", "d1"), _reporter("c3", "d1"), _reporter("c4")), True),
        ((_reporter("c2", "d1"), _reporter("c3", is_cut=True)), True),
        ((_reporter("c2", is_cut=True),), False),
        ((_reporter("c2", "d1", age_ns=FRESH_NS + 1),), False),
        ((_reporter("c2", "d1"), _reporter("c3", severity="")), True),
        ((_reporter("c1", "d1"), _reporter("d1", "d1")), False),
    ],
    ids=[
        *("nobody", "all", "it answers", "as many", "most", "no room", "no room alone", "old", "watches nothing"),
        "itself and this node",
    ],
)
def test_a_node_is_dead_where_it_answers_few_of_the_living(reporters, is_dead):
    """A node whose peer was lost here alone answers all others."""
    assert (DEAD if is_dead else frozenset()) == corroborated(DEAD, reporters, "c1")
