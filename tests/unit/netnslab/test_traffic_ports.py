import itertools

from netnslab.traffic_ports import FIRST_PORT, MAX_RATE, PORT_COUNT, PortWalk

SECOND = 1_000_000_000


def test_no_port_repeats_before_all_have_been_used():
    """The walk is a permutation of 1024-65535."""
    walk = PortWalk(0)
    ports = [walk.take() for _ in range(PORT_COUNT)]

    assert set(range(FIRST_PORT, 65_536)) == set(ports)


def test_a_full_round_lasts_longer_than_five_minutes():
    """At the highest rate of one protocol, no 5-tuple comes again while a middle box may remember it."""
    assert PORT_COUNT / MAX_RATE > 300


def test_a_restarted_source_goes_on_where_time_has_moved_to():
    """What a source used in its two seconds, its successor does not use in the next minutes."""
    first, second = PortWalk(1_000 * SECOND), PortWalk(1_002 * SECOND)
    used = {first.take() for _ in range(2 * MAX_RATE)}

    assert used.isdisjoint(second.take() for _ in range(300 * MAX_RATE))


def test_neighbours_in_time_are_far_apart_in_number():
    """Middle boxes that hash or range-match ports see no run of consecutive ones."""
    walk = PortWalk(0)
    ports = [walk.take() for _ in range(100)]

    assert all(abs(after - before) > 1_000 for before, after in itertools.pairwise(ports))
