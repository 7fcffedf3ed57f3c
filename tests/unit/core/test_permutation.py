"""Fresh source ports: all of them once before any comes again, and none that belongs to somebody."""

from __future__ import annotations

import itertools
import random

import pytest

from meshwatchd.core.permutation import PortPermutation


def _walk(first, last, count, *, seed=1, reserved=range(0)):
    ports = PortPermutation(first, last, random.Random(seed), reserved)
    return [ports.next() for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("first", "last"), [(10_000, 29_999), (10_000, 10_006), (5, 5), (1, 12)])
def test_no_port_repeats_within_a_period(first, last, seed):
    """Whatever the size of the range and the seed: a full permutation, then the same again."""
    size = last - first + 1
    ports = _walk(first, last, 2 * size, seed=seed)

    assert list(range(first, last + 1)) == sorted(ports[:size])
    assert ports[:size] == ports[size:]


def test_reserved_ports_never_appear():
    """The selectors of paths match the ports of reflectors in either direction."""
    reserved = range(18_618, 19_618)
    ports = _walk(10_000, 29_999, 19_000, reserved=reserved)

    assert 19_000 == len(set(ports))
    assert not set(ports) & set(reserved)


def test_neighbouring_probes_lie_far_apart():
    """A network that hashes by the upper bits of the port sees different buckets."""
    ports = _walk(10_000, 29_999, 1_000)

    assert min(abs(one - other) for one, other in itertools.pairwise(ports)) > 1_000


def test_two_sessions_walk_differently():
    """Each draws its own start and stride."""
    assert _walk(10_000, 29_999, 50, seed=1) != _walk(10_000, 29_999, 50, seed=2)
