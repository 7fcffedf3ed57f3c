"""Topology files: what is right becomes frozen data, what is wrong is named with file, key and remedy."""

import dataclasses

import pytest

from netnslab.errors import TopologyError
from netnslab.topology_file import TOPOLOGY_DIRECTORY, available, load, parse

TEXT = (TOPOLOGY_DIRECTORY / "kilo-flannel.toml").read_text(encoding="utf-8")


def test_kilo_flannel_is_the_mesh_of_the_design():
    """Two locations of three; leaders, standbys and addresses as documented."""
    topology = load("kilo-flannel")

    assert ["a1", "a2", "a3", "b1", "b2", "b3"] == list(topology.nodes)
    assert ("a1", "a2") == topology.locations["onprem"].relays
    assert ("b1", "b2") == topology.locations["cloud"].relays
    b3 = topology.nodes["b3"]
    assert ("10.2.0.13", "10.244.6.0", "10.244.6.1", "10.244.6.2") == (
        b3.node_ip,
        b3.overlay_ip,
        b3.pod_gateway_ip,
        b3.pod_ip,
    )
    assert b3.public_ip is None
    assert "b3-eth0" == b3.switch_port


def test_questions_about_neighbourhood_are_answered():
    """Who leads, who is near, who is far."""
    topology = load("kilo-flannel")

    assert topology.is_leader("b1")
    assert not topology.is_leader("b2")
    assert ["b1", "b2"] == [node.name for node in topology.neighbours("b3")]
    assert ["onprem"] == [location.name for location in topology.remote_locations("b3")]


@pytest.mark.parametrize("name", available())
def test_every_topology_that_comes_with_the_lab_is_valid(name):
    """And its name is that of its file."""
    assert name == load(name).name


def test_topologies_are_frozen():
    """Nobody changes a lab's plan while it runs."""
    node = load("kilo-flannel").nodes["a1"]

    with pytest.raises(dataclasses.FrozenInstanceError):
        node.node_ip = "1.2.3.4"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'pod_cidr = "10.244.1.0/24"',
            'pod_cdir = "10.244.1.0/24"',
            r"node\[0\]: unknown key pod_cdir; did you mean pod_",
        ),
        ('node_ip = "10.2.0.13"', "node_ip = 7", r"node\[5\]\.node_ip: Expected `str`, got `int`"),
        (
            'node_ip = "10.2.0.13"',
            'node_ip = "10.3.0.13"',
            r"node\[5\]\.node_ip: 10\.3\.0\.13 is not in 10\.2\.0\.0/24",
        ),
        ('node_ip = "10.2.0.13"', 'node_ip = "10.2.0.300"', r"node\[5\]\.node_ip: .* expected an address"),
        ('pod_cidr = "10.244.6.0/24"', 'pod_cidr = "10.244.5.0/24"', r"10\.244\.5\.0/24 overlaps 10\.244\.5\.0/24"),
        ('pod_cidr = "10.244.6.0/24"', 'pod_cidr = "10.244.6.1/24"', r"node\[5\]\.pod_cidr: .* has host bits set"),
        ('pod_cidr = "10.244.6.0/24"', 'pod_cidr = "10.244.6.0/30"', r"too small; use /28 or larger"),
        ('standbys = ["b2"]', 'standbys = ["a2"]', r"location\[1\]\.leader/standbys: a2 is not a node of cloud"),
        ('standbys = ["b2"]', 'standbys = ["b1"]', r"location\[1\]\.leader/standbys: b1 is there more than once"),
        ('name = "b3"', 'name = "b2"', r"node: b2 is there more than once"),
        ('name = "b3"', 'name = "B3"', r"node\[5\]\.name: 'B3' does not match"),
        (
            'wireguard_ip = "10.4.0.1"',
            'wireguard_ip = "10.5.0.1"',
            r"location\[1\]\.wireguard_ip: 10\.5\.0\.1 is not in",
        ),
        ('cidr = "10.4.0.0/16"', "cidr =", r"syntax: "),
    ],
)
def test_what_is_wrong_is_named(old, new, message):
    """One fault in an otherwise good file: the error says where and what."""
    assert old in TEXT

    with pytest.raises(TopologyError, match=message) as caught:
        parse(TEXT.replace(old, new, 1), path="my.toml")

    assert str(caught.value).startswith("my.toml: ")


def test_unknown_topology_lists_the_known_ones():
    """A typing error is answered with what there is."""
    with pytest.raises(TopologyError, match=r"known topologies: .*kilo-flannel"):
        load("kilo-flanel")
