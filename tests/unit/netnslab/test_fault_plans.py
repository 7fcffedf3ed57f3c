"""Faults as nftables text: each has a table of its own and changes phase in one transaction."""

import pytest

from netnslab.errors import LabError
from netnslab.fault_plans import PLANS
from netnslab.topology_file import load

TOPOLOGY = load("kilo-flannel")
PARAMETERS = {"memory_s": 2.5, "ratio": 0.25, "port": 51830.0, "bytes": 1400.0}


def plan_of(kind):
    """A fault at b1."""
    return PLANS[kind](TOPOLOGY, "b1", PARAMETERS)


@pytest.mark.parametrize("kind", PLANS)
def test_each_fault_touches_only_its_own_table(kind):
    """Whatever the phase, no line names another table."""
    plan = plan_of(kind)

    assert kind == plan.kind
    for text in (plan.arm_text(), plan.inject_text(), plan.heal_text(), plan.remove_text()):
        for line in text.splitlines():
            if line.startswith(("table", "delete", "flush", "add")):
                assert plan.table in line


@pytest.mark.parametrize("kind", PLANS)
def test_faults_of_the_network_strike_at_the_switch(kind):
    """Never at the leader, where it would notice; only forwarding is its own."""
    plan = plan_of(kind)

    assert ("b1" if kind == "relay-not-forwarding" else "wan") == plan.place
    assert (kind == "relay-not-forwarding") != ('device "b1-eth0"' in plan.inject_text())


def test_injecting_keeps_the_memory_and_arming_empties_it():
    """The set is declared again, which leaves its elements; only arming deletes the table first."""
    plan = plan_of("overlay-new-flows")

    assert "delete table" in plan.arm_text()
    assert "delete table" not in plan.inject_text()
    assert "delete table" not in plan.heal_text()
    assert "timeout 2500ms" in plan.inject_text()


def test_new_flows_of_another_overlay_die_both_ways():
    """Submariner's gateway takes by UDP 4800 what it never answers by it."""
    plan = PLANS["overlay-new-flows"](TOPOLOGY, "b1", {"port": 4800.0})

    assert ["from_node", "from_node", "to_node", "to_node"] == [chain for chain, _ in plan.faulty]
    assert all(action.startswith("udp dport 4800 ") for _, action in (*plan.healthy, *plan.faulty))
    assert "4800" in plan.table
    assert {"from_node"} == {chain for chain, _ in PLANS["overlay-new-flows"](TOPOLOGY, "b1", {}).faulty}


def test_unprepared_faults_heal_by_removal():
    """Nothing to remember, nothing to leave."""
    plan = plan_of("leader-dead")

    assert not plan.has_memory
    assert plan.remove_text() == plan.heal_text()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("random-loss", {}),
        ("random-loss", {"ratio": 1.5}),
        ("udp-port-blocked", {}),
        ("mtu-black-hole", {}),
        ("mtu-black-hole", {"bytes": 100.0}),
        ("overlay-some-flows", {"share": 30.0}),
    ],
)
def test_missing_parameters_are_refused(kind, parameters):
    """A disturbance without its measure is a mistake."""
    with pytest.raises(LabError, match=kind):
        PLANS[kind](TOPOLOGY, "b1", parameters)


def test_disturbances_expect_no_verdict():
    """Faults of the catalogue name their verdict; loss and single ports do not."""
    without = {kind for kind in PLANS if plan_of(kind).expected is None}

    assert {"random-loss", "udp-port-blocked"} == without


def test_a_black_hole_of_one_way_spares_what_comes():
    """Only the chain of what leaves the node exists."""
    both = PLANS["mtu-black-hole"](TOPOLOGY, "b1", {"bytes": 1400.0})
    one = PLANS["mtu-black-hole"](TOPOLOGY, "b1", {"bytes": 1400.0, "one_way": 1.0})

    assert ["from_node", "to_node"] == [chain for chain, _ in both.faulty]
    assert ["from_node"] == [chain for chain, _ in one.faulty] == list(one.chains)
    assert "ip length > 1400" in one.inject_text()
