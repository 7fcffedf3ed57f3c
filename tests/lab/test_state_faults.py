"""Each fault of the catalogue does to packets what it says, and healing restores the node's state to the letter."""

import pytest

from netnslab import Lab, node_state, state_faults
from netnslab.cluster_plans import CLUSTER_PLANS
from netnslab.errors import LabError
from netnslab.native_plans import NATIVE_PLANS
from netnslab.waiting import wait_until
from tests.support.witness import WITNESSES, reaches

pytestmark = pytest.mark.lab

# Under Kilo without NAT there is no mapping to lose, and its device is not wg-quick's. Where pods are routed straight
# into WireGuard there are further forms, and clusters are joined by Cluster Mesh alone. All others are tried under
# Kilo; `make bench-diagnosis` tries them elsewhere.
ELSEWHERE = {
    "keepalive-missing": "flannel-wg",
    "wireguard-device-missing": "flannel-wg",
    **dict.fromkeys(NATIVE_PLANS, "flannel-native"),
    **dict.fromkeys(CLUSTER_PLANS, "cilium-clustermesh"),
}
CELLS = [(ELSEWHERE.get(kind, "kilo-flannel"), kind) for kind in state_faults.CATALOGUE]


@pytest.fixture(scope="module")
def labs():
    """One mesh of each topology, built when it is first asked for."""
    built = {}

    def lab_of(name):
        if name not in built:
            built[name] = Lab.up(name)
        return built[name]

    yield lab_of
    for lab in built.values():
        lab.down()


@pytest.fixture(scope="module")
def was():
    """The literal state of each lab after the last fault in it: with a hundred faults, each look is taken once."""
    return {}


def dumps(lab):
    """The literal state of every node."""
    return {name: dict(node_state.dump(lab.node(name))) for name in lab.topology.nodes}


@pytest.mark.parametrize(("topology", "kind"), CELLS)
def test_fault_does_what_it_says_and_heals_without_trace(labs, was, topology, kind):
    """Healthy before, broken as its witness knows, and literally the same state afterwards."""
    lab = labs(topology)
    victim, peer = state_faults.usual_place(lab.topology, kind)
    # A peer that the fault before has taken away has a handshake before it, and WireGuard tries one every five seconds.
    wait_until(lambda: reaches(lab, victim, peer), timeout_s=15, what=f"{victim} to reach {peer}")
    before = was.pop(topology, None) or dumps(lab)

    with state_faults.make(lab, kind) as fault:
        WITNESSES[kind](lab, victim, peer)
        assert state_faults.FORMS.get(kind, kind) == fault.expected.fault
        assert victim == fault.node

    assert reaches(lab, victim, peer)
    assert reaches(lab, peer, victim)
    after = dumps(lab)
    assert [] == node_state.differences(before, after)
    was[topology] = after


def test_a_fault_is_not_injected_twice(labs):
    """The second would remember the first as the state to restore."""
    lab = labs("flannel-wg")
    with state_faults.make(lab, "fdb-entry-missing") as fault, pytest.raises(LabError, match="is there already"):
        fault.inject()


def test_another_process_can_heal_by_the_record(labs):
    """What undoes a fault is in the lab's record, not in the object that made it."""
    lab = labs("flannel-wg")
    before = dumps(lab)
    state_faults.make(lab, "overlay-emptied").inject()

    state_faults.make(Lab.attach(lab.lab_id), "overlay-emptied").heal()

    assert [] == node_state.differences(before, dumps(lab))
