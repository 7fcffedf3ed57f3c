"""What Kilo's agents do to one node when another leads: lines, and their order."""

import argparse
import random
from types import SimpleNamespace
from typing import Any

from netnslab import bench_leaders, kilo, kilo_agents
from netnslab.flannel import FLANNEL
from netnslab.topology_file import load

BEFORE = load("kilo-flannel")
AFTER = kilo_agents.led_by(BEFORE, "b2")


def _lines(name, *, before=BEFORE, after=AFTER, remembers=True):
    return kilo_agents.table_lines(before, after, BEFORE.nodes[name], FLANNEL, remembers=remembers)


def test_the_new_leader_gives_up_its_gateway_before_it_uses_kilo0():
    """b2: eight routes by b1 go, six over kilo0 come, with table 1107 and its rules."""
    lines = _lines("b2")
    assert 8 == sum(line.startswith("route del") and "via 10.244.4.0 dev flannel.1" in line for line in lines)
    assert all(line.startswith("route del") for line in lines[:8])
    assert set(lines[8:]) == set(kilo.route_lines(AFTER, AFTER.nodes["b2"], FLANNEL))


def test_the_former_leader_leaves_table_1107_and_what_has_gone_with_its_device():
    """b1: the routes over kilo0 went when it went down; rules are deleted, table 1107 is not."""
    lines = _lines("b1")
    assert ["rule del to 10.2.0.12 iif kilo0 lookup 1107", "rule del to 10.2.0.13 iif kilo0 lookup 1107"] == [
        line for line in lines if " del " in line
    ]
    assert "link set kilo0 down" == kilo_agents.state_line(AFTER, AFTER.nodes["b1"])


def test_an_agent_that_is_ended_takes_its_routes_and_rules_away_and_leaves_table_1107():
    """Each line that it has added, in that order; what delivers out of kilo0 stays without its rules."""
    lines = kilo_agents.deletions(kilo.route_lines(BEFORE, BEFORE.nodes["b1"], FLANNEL))
    assert 6 == sum(line.startswith("route del") and " dev kilo0 " in line for line in lines)
    assert ["rule del to 10.2.0.12 iif kilo0 lookup 1107", "rule del to 10.2.0.13 iif kilo0 lookup 1107"] == [
        line for line in lines if line.startswith("rule")
    ]
    assert 8 == len(lines)


def test_another_location_s_kernel_stays_what_it_was():
    """a1 has another peer behind the same address; a3 has the same leader."""
    assert ((), ()) == (_lines("a1"), _lines("a3"))
    assert AFTER.locations["cloud"].standbys == ("b1",)


def test_an_agent_that_was_started_later_deletes_nothing():
    """It deletes what it has added in its life, which is nothing."""
    assert not any(" del " in line for line in _lines("b3", remembers=False))
    assert 8 == len(_lines("b3", remembers=False))


def test_a_node_whose_agent_is_dead_is_no_node_of_the_mesh():
    """Nobody routes to b1, and the new leader delivers to b3 alone."""
    after = kilo_agents.led_by(kilo_agents.without(BEFORE, ["b1"]), "b2")
    gone = _lines("a1", after=after)
    assert {
        "route del 10.2.0.11 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink",
        "route del 10.244.4.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink",
    } == set(gone)
    assert ["rule add to 10.2.0.13 iif kilo0 lookup 1107"] == [
        line for line in _lines("b2", after=after) if "rule" in line
    ]
    assert () == after.locations["cloud"].standbys


def test_an_agent_that_knows_nobody_gives_its_leader_the_first_address():
    """a1 alone leads the only location there is; with both, onprem comes second."""
    alone = kilo_agents.only(BEFORE, BEFORE.nodes["a3"])
    assert ("a3", 1) == (alone.locations["onprem"].leader, len(alone.nodes))
    assert "10.4.0.1/16" == kilo_agents.first_address(BEFORE)
    assert "10.4.0.2/16" == kilo_agents.address_of(BEFORE, BEFORE.nodes["a1"])


def test_no_two_agents_write_at_one_instant():
    """Each hears of a change when it does; one that has just been started lists nodes first, however soon it hears."""
    chance = random.Random(1)
    pauses = {is_late: [_seconds(chance, is_late) for _ in range(20)] for is_late in (False, True)}
    started_s = kilo_agents.STARTED_TO_WRITING_NS / 1e9

    assert len(set(pauses[False])) > 10
    assert 0 <= min(pauses[False]) < max(pauses[False]) < kilo_agents.APART_NS / 1e9
    assert started_s <= min(pauses[True]) < max(pauses[True]) < started_s + kilo_agents.APART_NS / 1e9


def test_labs_that_are_dealt_the_same_lots_see_the_same_delays(monkeypatch):
    """Daemons and no daemons are compared change by change; other lots are other delays."""
    lab: Any = _Lab()
    unused: Any = None
    heard: list[dict[str, str]] = []
    monkeypatch.setattr(kilo_agents.KiloAgents, "_run", lambda _self, scripts: heard.append(scripts))
    for seed in (1, 1, 2):
        options = argparse.Namespace(agent=None, seed=seed)
        agents = bench_leaders._agents(lab, options, unused, unused)
        agents.elect("b2")
        agents.elect("b1")
    without, watched, other = heard[:2], heard[2:4], heard[4:]

    assert without == watched != other
    assert len({script.splitlines()[0] for scripts in without for script in scripts.values()}) > len(BEFORE.nodes)


class _Lab:
    """Nodes whose keys are read and nothing else."""

    topology, lab_id = BEFORE, "lab"

    def node(self, _name):
        return SimpleNamespace(run=lambda _command, *, check: SimpleNamespace(stdout="key\n"))


def _seconds(chance, is_late):
    word, seconds = kilo_agents.hearing(chance, is_late=is_late).split()
    assert "sleep" == word
    return float(seconds)
