"""Source ports: all of a band once before any comes again, by the clock, and none that belongs to somebody."""

from __future__ import annotations

import itertools

import pytest

from meshwatchd.core.session.source_ports import FreshPorts, KnownPorts, PortWalk
from meshwatchd.model.port_map import reserved_ports
from meshwatchd.model.settings import MS, SECOND, ProbeSettings
from meshwatchd.model.source_ports import PortBand, split_ports

NOW = 5_000 * SECOND


def _band(first, last, *, round_ns=50 * MS, lead=4):
    return PortBand(below=range(first, last + 1), above=range(0), round_ns=round_ns, lead=lead)


def _fresh(*, now=NOW, lead=4):
    return FreshPorts(PortWalk(_band(10_000, 10_999, lead=lead), "a1"), PortWalk(_band(20_000, 20_099), "a1"), now)


@pytest.mark.parametrize("name", ["a1", "b2", "a-node-with-a-long-name", ""])
@pytest.mark.parametrize(("first", "last"), [(10_000, 29_999), (10_000, 10_006), (5, 5), (1, 12)])
def test_no_port_repeats_within_a_period(first, last, name):
    """Whatever the width of the band and the name: every port once, then the same again."""
    walk, count = PortWalk(_band(first, last), name), last - first + 1
    ports = [walk.port(index) for index in range(2 * count)]

    assert list(range(first, last + 1)) == sorted(ports[:count])
    assert ports[:count] == ports[count:]


@pytest.mark.parametrize("band", split_ports(ProbeSettings()))
def test_reserved_ports_never_appear(band):
    """The selectors of paths match the ports of reflectors in either direction; the others come one to one."""
    port = ProbeSettings().port
    walk = PortWalk(band, "a1")
    ports = [walk.port(index) for index in range(band.count)]

    assert band.count == len(set(ports))
    assert not set(ports) & set(reserved_ports(port))


def test_neighbouring_rounds_lie_far_apart():
    """A network that hashes by the upper bits of the port sees different buckets."""
    walk = PortWalk(_band(10_000, 29_999), "a1")
    ports = [walk.port(index) for index in range(1_000)]

    assert min(abs(one - other) for one, other in itertools.pairwise(ports)) > 1_000


def test_flows_that_begin_together_share_where_they_began():
    """Of thousands each keeps two indices; one that begins in another round has its own beginning."""
    walk = PortWalk(_band(10_000, 10_999), "a1")
    lane = walk.lane(NOW, is_apart=False)

    assert lane is walk.lane(NOW + 1, is_apart=False)
    assert lane is not walk.lane(NOW, is_apart=True)
    assert lane is not walk.lane(NOW + 50 * MS, is_apart=False)
    assert ("_at_burst", "_at_regular", "_burst", "_regular") == FreshPorts.__slots__


def test_flows_that_share_a_beginning_keep_places_of_their_own():
    """What one takes leaves the other where it is."""
    walks = PortWalk(_band(10_000, 10_999), "a1"), PortWalk(_band(20_000, 20_099), "a1")
    one, other = FreshPorts(*walks, NOW), FreshPorts(*walks, NOW)
    ports = [one.take(NOW, is_burst=False) for _ in range(3)]

    assert ports == [other.take(NOW, is_burst=False) for _ in range(3)]
    assert one.take(NOW, is_burst=True) == other.take(NOW, is_burst=True)


def test_nodes_walk_differently():
    """Each derives its own start and stride from its name, and the same ones each time."""
    band = _band(10_000, 29_999)
    walks = [[PortWalk(band, name).port(index) for index in range(50)] for name in ("a1", "b1", "a1")]

    assert walks[0] != walks[1]
    assert walks[0] == walks[2]


def test_flows_share_the_port_of_a_round():
    """So that one socket serves them all, however rarely each of them sends."""
    one, other = _fresh(), _fresh()
    for turn in range(20):
        one.take(NOW + turn * 100 * MS, is_burst=False)
    later = NOW + 2 * SECOND + 5 * MS

    assert one.take(later, is_burst=False) == other.take(later + 40 * MS, is_burst=False)


def test_within_one_round_the_next_ports_are_taken():
    """A retry on a busy port gets another one, as long as the flow does not run too far ahead."""
    flow = _fresh()
    ports = [flow.take(NOW, is_burst=False) for _ in range(6)]

    assert [None, None] == ports[4:]
    assert 4 == len(set(ports[:4]))


def test_what_was_used_ahead_of_the_clock_is_earned_again_by_time():
    """A round later there is one more port; a message takes one whatever was used."""
    flow = _fresh()
    used = [flow.take(NOW, is_burst=False) for _ in range(4)]
    forced = flow.take(NOW, is_burst=False, is_forced=True)

    assert forced not in [*used, None]
    assert flow.take(NOW + 5 * 50 * MS, is_burst=False) is None
    assert flow.take(NOW + 6 * 50 * MS, is_burst=False) not in [*used, forced, None]


def test_bursts_leave_the_regular_ports_alone():
    """They walk through a band of their own."""
    flow = _fresh()

    assert flow.take(NOW, is_burst=True) in range(20_000, 20_100)
    assert flow.take(NOW, is_burst=False) in range(10_000, 11_000)


def test_a_process_that_begins_skips_what_its_predecessor_may_have_used():
    """The one before it may have been ahead of the clock by the lead."""
    before = _fresh(now=NOW - SECOND)
    used = {before.take(NOW - SECOND + turn * 50 * MS, is_burst=False) for turn in range(20)}
    used |= {before.take(NOW, is_burst=False) for _ in range(4)}
    after = _fresh(now=NOW + 50 * MS)

    anew = {after.take(NOW + (turn + 1) * 50 * MS, is_burst=False) for turn in range(900)}

    assert len(anew) > 800
    assert used & anew <= {None}


def test_known_flows_cycle_over_few_ports():
    """In bursts as well as at rest; two sessions may begin with different ones."""
    flow = KnownPorts(range(100, 108), 50 * MS)
    ports = [flow.take(NOW, is_burst=bool(turn % 2)) for turn in range(16)]

    assert set(range(100, 108)) == set(ports[:8])
    assert ports[:8] == ports[8:]


def test_known_flows_of_all_sessions_share_the_port_whose_turn_it_is():
    """What is due together leaves by one socket; the next turn is the next port's."""
    flows = [KnownPorts(range(100, 108), 50 * MS) for _ in range(3)]
    turns = [{flow.take(NOW + turn * 50 * MS + 7 * MS, is_burst=False) for flow in flows} for turn in range(8)]

    assert [1] * 8 == [len(ports) for ports in turns]
    assert set(range(100, 108)) == set.union(*turns)
