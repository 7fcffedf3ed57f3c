"""Numbers of ways around a leg."""

from __future__ import annotations

import msgspec

from meshwatchd.model.detour import DETOUR_PATHS, MAX_DETOURS, Detour, is_detour
from meshwatchd.model.ids import NO_PATH, NodeName
from meshwatchd.model.port_map import path_port, size_source_port
from meshwatchd.model.topology import MAX_LOCATIONS, RANKS_PER_PAIR

BY_A1 = Detour(place=0, relay=NodeName("a1"), via="192.168.100.11", device="eth0", prefixes=("10.245.0.0/16",))


def test_no_path_has_the_number_of_a_detour_and_no_port_of_theirs_serves_anything_else():
    """Paths of sixty locations end before, size probes begin behind."""
    assert MAX_LOCATIONS * RANKS_PER_PAIR == DETOUR_PATHS.start == BY_A1.number
    assert MAX_DETOURS == len(DETOUR_PATHS)
    assert [is_detour(each) for each in (479, 480, 482, 483, NO_PATH)] == [False, True, True, False, False]
    ports = [path_port(18618, number) for number in DETOUR_PATHS]
    assert [19108, 19109, 19110] == ports
    assert size_source_port(18618, may_fragment=False) > max(ports)


def test_a_detour_is_the_same_whatever_it_leads_to():
    """Its tables are rewritten; another relay, next hop, device or place is another detour."""
    assert BY_A1.key == msgspec.structs.replace(BY_A1, prefixes=()).key
    others = ({"relay": "a2"}, {"via": "192.168.100.12"}, {"device": "eth1"}, {"place": 1})
    assert all(BY_A1.key != msgspec.structs.replace(BY_A1, **other).key for other in others)
