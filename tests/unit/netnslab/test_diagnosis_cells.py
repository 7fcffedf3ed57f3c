"""The cells of bench-diagnosis: as many as promised, every fault of the lab, and canaries for all nodes."""

from typing import cast

import pytest

from netnslab import state_faults
from netnslab.diagnosis_cells import (
    SAID_BY_CHANCE,
    TOPOLOGIES,
    companions_of,
    patience_s,
    places_of,
    settings_for,
    settle_s,
    traffic_pairs,
    trials,
)
from netnslab.topology_file import load


def test_there_are_forty_cells_and_more_and_each_only_once():
    """Both topologies, every fault of a node's state and of filters."""
    cells = [(trial.topology, trial.fault) for trial in trials()]

    assert len(cells) >= 40
    assert len(set(cells)) == len(cells)
    assert set(TOPOLOGIES) == {topology for topology, _ in cells}
    assert set(state_faults.CATALOGUE) <= {fault for _, fault in cells}
    assert ("flannel-wg", "fragments-dropped") not in cells, "nothing is cut in pieces under wg0"


def test_where_pods_are_routed_into_wireguard_its_route_and_peers_are_tried():
    """Nothing of VXLAN is there; and what is there alone is tried nowhere else."""
    cells = {(trial.topology, trial.fault) for trial in trials()}
    native = {fault for topology, fault in cells if topology == "flannel-native"}

    assert {"cluster-route-missing", "allowed-ips-missing", "wireguard-endpoint-moved-swapped"} <= native
    assert not {each for each in native if each.startswith(("fdb", "neighbour", "vtep"))}
    assert ("flannel-wg", "cluster-route-missing") not in cells
    assert ("kilo-flannel", "cluster-route-missing") not in cells


def test_cells_of_one_topology_follow_each_other():
    """A mesh is built once for all of them."""
    order = [trial.topology for trial in trials()]

    assert order == sorted(order, key=TOPOLOGIES.index)


def test_every_node_has_a_pod_and_a_kubelet_and_some_an_api_server_that_are_asked():
    """By the address that control planes use: K3s's node-ip is the one on wg0."""
    declared = cast("list[dict[str, object]]", settings_for(load("flannel-wg"))["probe"]["canary"])
    canaries = {canary["name"]: canary for canary in declared}

    assert 14 == len(canaries)
    assert ("10.8.0.1", 6443) == (canaries["apiserver-c1"]["address"], canaries["apiserver-c1"]["port"])
    assert 14 == len(cast("list[object]", settings_for(load("kilo-flannel"))["probe"]["canary"])), "a daemon takes 16"
    assert "198.51.100.51" == canaries["host-d1"]["address"], "outside of the tunnel"
    assert "host-e1" not in canaries
    assert ("10.8.0.4", 10250) == (canaries["kubelet-e1"]["address"], canaries["kubelet-e1"]["port"])
    assert ("10.42.3.2", "bulk") == (canaries["pod-e1"]["address"], canaries["pod-e1"]["kind"])


def test_nothing_is_enforced_where_nobody_relays():
    """Repairs would heal what is to be diagnosed; under Kilo only enforcing makes standby links."""
    assert "observe" == settings_for(load("flannel-wg"))["daemon"]["mode"]
    assert "daemon" not in settings_for(load("kilo-flannel"))


def test_only_those_on_the_other_side_may_say_something_else():
    """The dead leader itself; and whose own state is well, what does not come back from the victim."""

    def of(fault):
        return companions_of(fault, victim="c1", peer="d1", culprit="c1", nodes=("c1", "c2", "d1"))

    assert {("c1", "local-fault", "c1")} == of("leader-dead")
    assert {("c2", "wireguard-blocked", "c1"), ("d1", "wireguard-blocked", "c1")} == of("one-way-break")
    assert {("c2", "overlay-black-hole", "c1"), ("d1", "overlay-black-hole", "c1")} == of("fdb-entry-missing")
    assert {("c2", "overlay-new-flows", "c1"), ("d1", "overlay-new-flows", "c1")} == of("conntrack-full")


@pytest.mark.parametrize(
    "fault",
    [
        *("mtu-black-hole", "mtu-misconfigured", "vtep-mac-changed", "overlay-device-missing", "overlay-emptied"),
        *("forwarding-off", "conntrack-invalid", "probe-port-blocked"),
    ],
)
def test_what_a_node_says_of_itself_is_said_by_all(fault):
    """Hellos tell the cause: whoever names a consequence has not listened."""
    assert not companions_of(fault, victim="c1", peer="d1", culprit="c1", nodes=("c1", "c2", "d1"))


@pytest.mark.parametrize("fault", ["wireguard-no-data", "wireguard-endpoint-moved", "wireguard-endpoint-moved-swapped"])
def test_of_a_filter_on_the_way_each_end_names_the_other(fault):
    """It is at neither, or at both; and a third node that says so is wrong."""
    found = companions_of(fault, victim="c1", peer="d1", culprit="c1", nodes=("c1", "c2", "d1"))

    assert ("c1", "wireguard-blocked", "d1") in found
    assert ("d1", "wireguard-blocked", "c1") in found
    assert ("c2", "wireguard-blocked", "d1") not in found


def test_who_is_relayed_for_says_of_a_silence_what_its_end_says():
    """The end that only answers handshakes never sees one completed: it knows the tunnel is blocked, and no more."""
    nodes = ("a1", "a3", "b1", "b3")
    places = places_of("wireguard-no-data", victim="b1", peer="a1", topology=load("kilo-flannel"))

    found = companions_of("wireguard-no-data", victim="b1", peer="a1", culprit="b1", nodes=nodes, places=places)

    assert ("b3", "wireguard-blocked", "a1") in found
    assert ("a3", "wireguard-blocked", "b1") in found
    assert ("b3", "wireguard-blocked", "b1") in found, "the other side of the culprit's tunnel"
    assert ("a3", "wireguard-blocked", "a1") not in found


def test_the_culprit_of_a_filter_on_the_way_is_the_other_end():
    """Who is relayed for says what its end says; of a node's own state everybody names that node."""
    flat, kilo = load("flannel-wg"), load("kilo-flannel")

    def relayed(fault):
        return dict(places_of(fault, victim="b1", peer="a1", topology=kilo) or ())

    assert frozenset((("c1", "d1"), ("d1", "c1"))) == places_of(
        "wireguard-no-data", victim="c1", peer="d1", topology=flat
    )
    ends = {**dict.fromkeys(("b1", "b2", "b3"), "a1"), **dict.fromkeys(("a1", "a2", "a3"), "b1")}
    assert ends == relayed("one-way-break") == relayed("mtu-black-hole") == relayed("wireguard-blocked")
    at_home = frozenset((node, end) for node in ("b1", "b2", "b3") for end in ("a1", "a2"))
    assert at_home | {(node, "b1") for node in ("a1", "a2", "a3")} == places_of(
        "standby-mtu-smaller", victim="b1", peer="a1", topology=kilo
    )


def test_who_is_not_relayed_names_the_relay_and_others_name_either():
    """It cannot name itself; whom it has told may name the relay, as it does."""
    places = places_of("pod-network-broken-way", victim="b1", peer="a3", topology=load("kilo-flannel"))
    assert places is not None

    assert {("a3", "b1"), ("b2", "a3"), ("b2", "b1")} <= places
    assert not {("a3", "a3"), ("b2", "b3")} & places


@pytest.mark.parametrize("fault", ["one-way-break-input", "one-way-break-output"])
def test_a_firewall_of_one_end_is_on_the_way_as_well(fault):
    """It closes the tunnel's port in one direction: for all others that is a break between two nodes."""
    nodes = ("a1", "a3", "b1", "b3")
    places = places_of(fault, victim="b1", peer="b3", topology=load("kilo-flannel"))
    assert places is not None
    assert {("a1", "b1"), ("a3", "b1"), ("b1", "a1"), ("b3", "a1")} <= places
    found = companions_of(fault, victim="b1", peer="b3", culprit="b1", nodes=nodes, places=places)

    assert {("b3", "wireguard-blocked", "a1"), ("a3", "wireguard-blocked", "b1")} <= found
    assert ("b3", "wireguard-blocked", "b1") not in found


@pytest.mark.parametrize(
    ("fault", "name"),
    [("forwarding-off", "kilo-flannel"), ("mtu-black-hole", "flannel-wg"), ("wireguard-blocked", "flannel-wg")],
)
def test_what_is_at_one_node_is_that_nodes(fault, name):
    """Also what all of its tunnels have in common, where it has several."""
    topology = load(name)
    victim, peer = ("b1", "a1") if name == "kilo-flannel" else ("c1", "d1")

    assert places_of(fault, victim=victim, peer=peer, topology=topology) is None


def test_two_endpoints_that_moved_are_at_both_ends():
    """Each kernel holds a wrong one; a third node is no place."""
    places = places_of("wireguard-endpoint-moved", victim="c1", peer="d1", topology=load("flannel-wg"))

    assert places is not None
    assert {("c1", "c1"), ("c1", "d1"), ("e1", "d1")} <= places
    assert ("c1", "e1") not in places


def test_pods_speak_where_faults_strike():
    """What a node forwards for its pods shows faults that its own packets do not meet."""
    assert [("c1", "d1"), ("d1", "c1")] == traffic_pairs(load("flannel-wg"))
    assert [("a3", "b3"), ("b3", "a3")] == traffic_pairs(load("kilo-flannel"))


def test_tunnels_are_waited_for_longer():
    """Their silence is told after handshakes in vain; probes find a one-way break themselves."""
    assert patience_s("wireguard-no-handshake") > patience_s("one-way-break") == patience_s("fdb-entry-missing")


def test_what_is_said_by_chance_is_the_kind_of_a_trial():
    """A name that no trial has would give nobody the time; whose frames are lost for good needs none."""
    kinds = {trial.fault for trial in trials()}

    assert {*SAID_BY_CHANCE} <= kinds
    assert all(settle_s(kind) > settle_s("leader-dead") for kind in SAID_BY_CHANCE)
    assert settle_s("mac-moved-loop") > settle_s("mac-moved")
