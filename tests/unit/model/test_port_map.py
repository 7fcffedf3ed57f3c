"""Every port of ours has one purpose."""

from __future__ import annotations

from itertools import combinations

from meshwatchd.model import port_map
from meshwatchd.model.detour import DETOUR_PATHS
from meshwatchd.model.topology import MAX_LOCATIONS, RANKS_PER_PAIR

PORT = 18_618
PATHS = [port_map.path_port(PORT, number) for number in range(MAX_LOCATIONS * RANKS_PER_PAIR)]


def test_no_two_purposes_share_a_port():
    """A port that is listened on and sent from would let one socket take what another one waits for."""
    purposes = {
        "taps": [port_map.tap_port(PORT)],
        "hellos": [port_map.hello_port(PORT)],
        "segments": [PORT],
        "real traffic": [port_map.routed_port(PORT)],
        "paths": PATHS,
        "detours": [port_map.path_port(PORT, number) for number in DETOUR_PATHS],
        "known flows": list(port_map.known_flow_ports(PORT)),
        "ways": [port_map.direct_port(PORT), port_map.relayed_port(PORT)],
        "sizes": [port_map.size_source_port(PORT, may_fragment=each) for each in (False, True)],
    }
    assert all(len(ports) == len(set(ports)) for ports in purposes.values())
    shared = [(one, two) for one, two in combinations(purposes, 2) if {*purposes[one]} & {*purposes[two]}]
    assert [] == shared
    assert {port for ports in purposes.values() for port in ports} <= {*port_map.mesh_ports(PORT)}


def test_the_ports_are_those_of_the_map():
    """Nodes of two versions must find each other: a port that moves here moves on the wire."""
    assert (18_616, 18_617, 18_619) == (
        port_map.tap_port(PORT),
        port_map.hello_port(PORT),
        port_map.routed_port(PORT),
    )
    assert [18_620, 18_681, 18_690, 19_107] == [PATHS[0], PATHS[61], PATHS[62], PATHS[479]]
    assert (19_111, 19_112) == (port_map.direct_port(PORT), port_map.relayed_port(PORT))
    assert range(18_682, 18_690) == port_map.known_flow_ports(PORT)


def test_the_band_is_kept_free_of_fresh_flows():
    """But for the two ports below, whose packets are told from probes by their first bytes."""
    assert range(18_618, 19_130) == port_map.reserved_ports(PORT)
    assert range(18_616, 19_130) == port_map.mesh_ports(PORT)
    assert (1_026, 65_024) == (port_map.LEAST_PROBE_PORT, port_map.MOST_PROBE_PORT)
