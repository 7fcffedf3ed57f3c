"""The cells of bench-diagnosis: as many as promised, every fault of the lab, and canaries for all nodes."""

from typing import cast

from netnslab import state_faults
from netnslab.diagnosis_cells import TOPOLOGIES, companions_of, patience_s, settings_for, trials
from netnslab.topology_file import load


def test_there_are_forty_cells_and_more_and_each_only_once():
    """Both topologies, every fault of a node's state and of filters."""
    cells = [(trial.topology, trial.fault) for trial in trials()]

    assert len(cells) >= 40
    assert len(set(cells)) == len(cells)
    assert set(TOPOLOGIES) == {topology for topology, _ in cells}
    assert set(state_faults.CATALOGUE) <= {fault for _, fault in cells}


def test_cells_of_one_topology_follow_each_other():
    """A mesh is built once for all of them."""
    order = [trial.topology for trial in trials()]

    assert order == sorted(order, key=TOPOLOGIES.index)


def test_every_node_has_a_pod_and_a_kubelet_that_are_asked():
    """By the address that control planes use: K3s's node-ip is the one on wg0."""
    declared = cast("list[dict[str, object]]", settings_for(load("flannel-wg"))["probe"]["canary"])
    canaries = {canary["name"]: canary for canary in declared}

    assert 8 == len(canaries)
    assert ("10.8.0.4", 10250) == (canaries["kubelet-e1"]["address"], canaries["kubelet-e1"]["port"])
    assert "10.42.3.2" == canaries["pod-e1"]["address"]


def test_nothing_is_enforced_where_nobody_relays():
    """Repairs would heal what is to be diagnosed; under Kilo only enforcing makes standby links."""
    assert "observe" == settings_for(load("flannel-wg"))["daemon"]["mode"]
    assert "daemon" not in settings_for(load("kilo-flannel"))


def test_only_those_on_the_other_side_may_say_something_else():
    """The dead leader itself; and whose own state is well, what does not come back from the victim."""
    nodes = ("c1", "d1")

    assert (("c1", "local-fault"),) == companions_of("leader-dead", victim="c1", nodes=nodes)
    assert (("d1", "wireguard-blocked"),) == companions_of("one-way-break", victim="c1", nodes=nodes)
    assert (("d1", "overlay-black-hole"),) == companions_of("fdb-entry-missing", victim="c1", nodes=nodes)
    assert () == companions_of("mtu-black-hole", victim="c1", nodes=nodes)


def test_tunnels_are_waited_for_longer():
    """Their silence is told after handshakes in vain; probes find a one-way break themselves."""
    assert patience_s("wireguard-no-handshake") > patience_s("one-way-break") == patience_s("fdb-entry-missing")
