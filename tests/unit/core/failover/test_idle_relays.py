"""Which pairs a node could relay and does not, and between which prefixes."""

from __future__ import annotations

from msgspec.structs import replace

from meshwatchd.core.failover.idle_relays import idle_pairs, relayed_prefixes
from meshwatchd.model.ids import LocationName, NodeName
from tests.support.example_status import HEALTHY
from tests.support.lab_mesh import declared_mesh

PAIR = (LocationName("cloud"), LocationName("onprem"))


def _status(*, relays_ranks, active):
    """A status of a node that is a relay of some ranks, with traffic on one of them."""
    (pair,) = HEALTHY.pairs
    paths = tuple(
        replace(path, is_local_relay=path.rank in relays_ranks, is_active=path.rank == active) for path in pair.paths
    )
    return replace(HEALTHY, pairs=(replace(pair, paths=paths),))


def test_a_relay_of_a_path_that_is_not_in_use_is_idle():
    """b1 after traffic has left it."""
    assert {PAIR} == idle_pairs(_status(relays_ranks={0, 2}, active=1))


def test_a_relay_of_the_path_in_use_is_not_idle():
    """Whatever else it could relay."""
    assert frozenset() == idle_pairs(_status(relays_ranks={0, 2}, active=0))


def test_a_node_that_relays_nothing_is_not_idle():
    """b3 sees its own connections alone, and all of them."""
    assert frozenset() == idle_pairs(_status(relays_ranks=set(), active=1))


def test_prefixes_are_those_of_other_nodes_at_both_ends():
    """Connections of b1's own pods pass b1 on every path."""
    near, far = relayed_prefixes(declared_mesh(), NodeName("b1"), PAIR)

    assert {"10.244.5.0/24", "10.2.0.12/32", "10.244.6.0/24", "10.2.0.13/32"} == set(near)
    assert {"10.244.1.0/24", "192.168.100.11/32"} <= set(far)
    assert 6 == len(far)
