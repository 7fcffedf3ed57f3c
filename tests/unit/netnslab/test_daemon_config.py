"""The daemon's file, in the schema of its documentation."""

import base64
import tomllib

from netnslab import daemon_config
from netnslab.topology_file import load
from netnslab.wireguard import KeyPair

TOPOLOGY = load("kilo-flannel")
KEYS = {
    name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in daemon_config.standby_nodes(TOPOLOGY)
}


def files(name):
    """All that is written on one node."""
    return daemon_config.files(
        TOPOLOGY, TOPOLOGY.nodes[name], overlay_device="flannel.1", standby_keys=KEYS, mesh_key="c2VjcmV0"
    )


def test_every_node_gets_the_same_mesh_under_its_own_name():
    """Only [daemon] differs."""
    one, other = (tomllib.loads(files(name)[daemon_config.CONFIGURATION]) for name in ("a3", "b1"))

    assert ("a3", "b1") == (one["daemon"]["node"], other["daemon"]["node"])
    assert one["mesh"] == other["mesh"]
    assert "enforce" == one["daemon"]["mode"]
    assert [
        {"name": "onprem", "leader": "a1", "standbys": ["a2"]},
        {"name": "cloud", "leader": "b1", "standbys": ["b2"]},
    ] == (one["mesh"]["location"])


def test_roles_decide_which_keys_a_node_has():
    """Leaders have a WireGuard address, leaders and standbys a standby key and an endpoint, others neither."""
    mesh = tomllib.loads(files("a1")[daemon_config.CONFIGURATION])["mesh"]
    leader, standby, other = (next(n for n in mesh["node"] if n["name"] == name) for name in ("b1", "b2", "b3"))

    assert ("10.4.0.1", "public-b1", "198.51.100.21") == (
        leader["wireguard_ip"],
        leader["standby_public_key"],
        leader["standby_endpoint"],
    )
    assert "wireguard_ip" not in standby
    assert "198.51.100.22" == standby["standby_endpoint"]
    assert not {"wireguard_ip", "standby_public_key", "standby_endpoint"} & set(other)
    assert "private-b2\n" == files("b2")[daemon_config.STANDBY_KEY]
    assert daemon_config.STANDBY_KEY not in files("b3")


def test_mesh_key_is_32_random_bytes():
    """Never the same twice."""
    first, second = daemon_config.generate_mesh_key(), daemon_config.generate_mesh_key()

    assert 32 == len(base64.b64decode(first, validate=True))
    assert first != second


def test_where_nobody_relays_each_node_is_a_location_of_its_own():
    """Nodes go by their WireGuard address, and no standby key is written."""
    topology = load("flannel-wg")
    texts = daemon_config.files(
        topology, topology.nodes["e1"], overlay_device="flannel.1", standby_keys={}, mesh_key="c2VjcmV0"
    )
    mesh = tomllib.loads(texts[daemon_config.CONFIGURATION])["mesh"]

    assert () == daemon_config.standby_nodes(topology)
    assert daemon_config.STANDBY_KEY not in texts
    assert "wg0" == mesh["wireguard_device"]
    assert [{"name": name, "leader": name} for name in ("c1", "c2", "d1", "e1")] == mesh["location"]
    assert "10.8.0.4" == mesh["node"][3]["node_ip"] == mesh["node"][3]["wireguard_ip"]


def test_where_pods_are_routed_into_wireguard_a_node_goes_by_its_own_address():
    """That in the tunnel is one of its pods', which the daemon refuses for a node."""
    topology = load("flannel-native")
    texts = daemon_config.files(
        topology, topology.nodes["c1"], overlay_device="flannel-wg", standby_keys={}, mesh_key="c2VjcmV0"
    )
    node = tomllib.loads(texts[daemon_config.CONFIGURATION])["mesh"]["node"][0]

    assert ("172.31.16.11", "10.42.0.0") == (node["node_ip"], node["wireguard_ip"])
