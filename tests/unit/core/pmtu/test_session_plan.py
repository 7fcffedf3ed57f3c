"""Which paths are measured: each layer and path, few peers of each, ports of their own."""

from __future__ import annotations

from collections import Counter

from meshwatchd.core.pmtu.session_plan import MAX_PATH_PEERS, key_of, measured
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer
from tests.support.lab_mesh import planner_of, settings_for, topology_of, with_ip6, with_ipip


def _plans(name, planner=None):
    planner = planner or planner_of(name)
    return measured(lay_out(planner, has_standby=True), planner)


def test_a_leader_measures_neighbours_tunnel_and_the_paths_it_relays():
    """Underlay and overlay of its neighbours, the tunnel, and the paths that it relays, with their nodes."""
    keys = Counter((plan.layer, plan.path) for plan in _plans("b1") if not plan.may_fragment)

    assert 2 == keys[Layer.UNDERLAY, 0xFFFF] == keys[Layer.OVERLAY, 0xFFFF]
    assert 1 == keys[Layer.WIREGUARD, 0]
    assert {0, 2, 4} == {path for layer, path in keys if layer is Layer.RELAY}
    assert all(count <= MAX_PATH_PEERS for count in keys.values())


def test_a_member_measures_every_path_and_its_ipip_leg():
    """Primary and each standby, the remote relay first of all."""
    plans = _plans("b3", Planner(topology_of("b3"), with_ipip(settings_for("b3"))))

    assert {0, 1, 2, 3, 4} == {plan.path for plan in plans if plan.layer is Layer.RELAY}
    assert ["b1"] == [plan.peer for plan in plans if plan.layer is Layer.IPIP]
    assert "a1" == next(plan.peer for plan in plans if plan.layer is Layer.RELAY and plan.path == 0)


def test_each_is_measured_once():
    """Fresh and known flows and IPv6 twins of one path are one path."""
    plans = _plans("b3", Planner(topology_of("b3"), with_ip6(settings_for("b3"))))

    assert len(plans) == len({key_of(plan) for plan in plans})
    assert not [plan for plan in plans if ":" in plan.destination]


def test_source_ports_select_the_path_and_are_nobody_elses():
    """Within the band that rules select, where no reflector listens; fragments have one of their own."""
    plans = _plans("b3")

    assert {(False, 19128), (True, 19129)} == {(plan.may_fragment, plan.source_port) for plan in plans}
    assert {Layer.UNDERLAY} == {plan.layer for plan in plans if plan.may_fragment}
