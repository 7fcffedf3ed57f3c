"""Each fault breaks what it says, nothing else, and heals without trace.

The rows are those of the seed's fault table: who still reaches whom when the cloud's leader b1 is sick.
"""

import json
import time

import pytest

from meshwatchd.model.faults import CATALOGUE, FaultCode
from netnslab import Lab, LabError, faults
from netnslab.waiting import wait_until
from tests.support.mesh import flow, fresh_flows_alive, pings

pytestmark = pytest.mark.lab

NEW_FLOWS = 40

# A new flow meets a remembered outer port with a probability of about 1/28232 for each flow remembered.
LUCKY_FLOWS = 2


@pytest.fixture(scope="module")
def mesh():
    """One mesh for all tests of this file."""
    with Lab.up("kilo-flannel") as lab:
        yield lab


@pytest.fixture
def lab(mesh):
    """The mesh, found healthy and left healthy."""
    assert is_healthy(mesh)
    yield mesh
    assert [] == faults.active(mesh)
    wait_until(lambda: is_healthy(mesh), timeout_s=15, what="the mesh to heal")


def is_healthy(lab):
    """New flows between far pods live."""
    return 5 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 5)


def the_leader_looks_well(lab):
    """What Kubernetes and people look at: leader from the other leader and from its own location."""
    return (
        pings(lab.node("a1"), "10.4.0.1"),
        pings(lab.node("a1"), "10.2.0.11"),
        pings(lab.node("b1"), "10.2.0.13"),
        pings(lab.node("b3"), "10.2.0.11"),
    )


def test_new_flows_die_while_known_flows_and_pings_live(lab):
    """The seed's fault: a connection that was open stays open, every new one is lost, the leader looks well."""
    fault = faults.overlay_black_hole_new_flows(lab, leader="b1", memory_s=2)
    with flow(lab.pod("a3"), lab.pod("b3")) as old, fault.armed():
        assert old.echoes_eventually()

        fault.inject()

        assert all(old.echoes() for _ in range(20))
        assert (True, True, True, True) == the_leader_looks_well(lab)
        assert fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), NEW_FLOWS) <= LUCKY_FLOWS
        assert fresh_flows_alive(lab.pod("b3"), lab.pod("a3"), NEW_FLOWS) <= LUCKY_FLOWS
        assert fresh_flows_alive(lab.node("b3"), lab.node("a3"), NEW_FLOWS) <= LUCKY_FLOWS
        assert NEW_FLOWS == fresh_flows_alive(lab.pod("a3"), lab.pod("b1"), NEW_FLOWS)
        assert fault.dropped_packets() >= 3 * (NEW_FLOWS - LUCKY_FLOWS)

        fault.heal()

        assert NEW_FLOWS == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), NEW_FLOWS)
        assert old.echoes()


def test_a_known_flow_keeps_itself_known_beyond_the_memory(lab):
    """Its packets renew it: five times the memory later it still lives, and a silent flow is forgotten."""
    fault = faults.overlay_black_hole_new_flows(lab, leader="b1", memory_s=0.5)
    with flow(lab.pod("a3"), lab.pod("b3")) as talking, flow(lab.pod("a3"), lab.pod("b3")) as silent, fault.armed():
        assert talking.echoes_eventually()
        assert silent.echoes_eventually()
        assert fault.remembered_flows() >= 2

        injected_ns = fault.inject()
        lost = 0

        def has_outlived_the_memory():
            nonlocal lost
            lost += not talking.echoes()
            return time.monotonic_ns() - injected_ns > 5 * 500_000_000

        wait_until(has_outlived_the_memory, timeout_s=10, what="five times the memory", poll_s=0.05)

        assert 0 == lost
        assert not silent.echoes()


def test_overlay_black_hole_spares_only_the_leader_itself(lab):
    """Known flows die as well; requests still get through towards the healthy side, answers do not come back."""
    with flow(lab.pod("a3"), lab.pod("b3")) as old, flow(lab.pod("b3"), lab.pod("a3")) as outbound:
        assert old.echoes_eventually()

        with faults.overlay_black_hole(lab, leader="b1"):
            assert not old.echoes()
            assert outbound.arrives()
            assert not outbound.echoes()
            assert 0 == fresh_flows_alive(lab.node("a3"), lab.node("b2"), 5)
            assert 5 == fresh_flows_alive(lab.pod("a3"), lab.pod("b1"), 5)
            assert (True, True, True, True) == the_leader_looks_well(lab)

        assert old.echoes_eventually()


def test_a_leader_that_stops_forwarding_answers_on_every_layer(lab):
    """Underlay, tunnel and overlay addresses of the leader answer; whatever should pass it is lost."""
    with faults.leader_stops_forwarding(lab, leader="b1") as fault:
        assert (True, True, True, True) == the_leader_looks_well(lab)
        assert pings(lab.node("b3"), "10.244.4.0")
        assert 0 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 5)
        assert 0 == fresh_flows_alive(lab.pod("b3"), lab.pod("a3"), 5)
        assert 0 == fresh_flows_alive(lab.pod("a3"), lab.pod("b1"), 5)
        assert 5 == fresh_flows_alive(lab.pod("b2"), lab.pod("b3"), 5)
        assert fault.dropped_packets() >= 15


def test_a_dead_leader_is_dead_to_all_and_nobody_is_told(lab):
    """No layer answers, no carrier drops; neighbours that do not need it go on."""
    with faults.leader_dead(lab, leader="b1"):
        assert (False, False, False, False) == the_leader_looks_well(lab)
        assert 0 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 5)
        assert 5 == fresh_flows_alive(lab.pod("b2"), lab.pod("b3"), 5)
        assert 5 == fresh_flows_alive(lab.pod("a2"), lab.pod("a3"), 5)
        for node in ("b1", "b3"):
            (link,) = json.loads(lab.node(node).run(["ip", "-j", "link", "show", "eth0"], check=True).stdout)
            assert "LOWER_UP" in link["flags"]


def test_a_blocked_wireguard_port_leaves_every_other_port_open(lab):
    """The tunnel is dead; another UDP port between the same public addresses passes, both ways."""
    leaders = lab.node("a1"), lab.node("b1")
    with faults.wireguard_port_blocked(lab, leader="b1"):
        assert not pings(lab.node("a1"), "10.4.0.1")
        assert not pings(lab.node("b1"), "10.4.0.2")
        assert 0 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 5)
        with flow(*leaders, via="198.51.100.21") as there, flow(*reversed(leaders), via="203.0.113.11") as back:
            assert there.echoes_eventually()
            assert back.echoes_eventually()
        assert pings(lab.node("b3"), "10.2.0.11")
        assert pings(lab.node("b3"), "10.244.4.0")


def test_random_loss_takes_the_share_it_was_told(lab):
    """Ten percent each way is nineteen percent of echoes: 1000 echoes, within five standard deviations."""
    with faults.random_loss(lab, "b3", ratio=0.1), flow(lab.node("b2"), lab.node("b3")) as datagrams:
        datagrams.near.settimeout(0.01)
        datagrams.far.settimeout(0.01)
        answered = sum(datagrams.echoes() for _ in range(1000))

    assert 810 - 62 <= answered <= 810 + 62


def test_a_port_can_be_blocked_alone(lab):
    """A second fault, on one standby link's port, spares everything else."""
    with faults.udp_port_blocked(lab, "b2", port=51830):
        with flow(lab.node("b3"), lab.node("b2"), port=51830) as blocked:
            assert not blocked.echoes_eventually()
        assert 5 == fresh_flows_alive(lab.node("b3"), lab.node("b2"), 5)


def test_another_process_finds_and_heals_a_fault(lab):
    """Faults are in the lab's record, not in the memory of whoever injected them."""
    faults.overlay_black_hole(lab, leader="b1").inject()

    found = faults.active(Lab.attach(lab.lab_id))
    assert [("overlay-black-hole", "b1")] == [(each.plan.kind, each.plan.node) for each, _ in found]
    for each, _ in found:
        each.remove()

    assert "fault_" not in lab.wan.run(["nft", "list", "tables"], check=True).stdout


def test_a_fault_that_spares_known_flows_must_be_armed_first(lab):
    """Injected without arming it would be another fault."""
    with pytest.raises(LabError, match="arm it while all is well"):
        faults.overlay_black_hole_new_flows(lab, leader="b1").inject()


@pytest.mark.parametrize(
    "make",
    [
        faults.overlay_black_hole_new_flows,
        faults.overlay_black_hole,
        faults.leader_stops_forwarding,
        faults.leader_dead,
        faults.wireguard_port_blocked,
    ],
)
def test_expected_verdicts_are_in_the_catalogue(lab, make):
    """The lab does not import the daemon, so this is where their words are compared."""
    expected = make(lab, leader="b1").expected

    assert expected.layer == CATALOGUE[FaultCode(expected.fault)].layer.name.lower()
    assert "b1" == expected.node
