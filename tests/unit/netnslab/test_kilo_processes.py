"""What Kilo's own agents are started with and find in the API."""

from pathlib import Path

from netnslab.kilo_processes import agent_command, node_object
from netnslab.topology_file import load

TOPOLOGY = load("kilo-flannel")


def _annotations(name):
    metadata = node_object(TOPOLOGY, TOPOLOGY.nodes[name])["metadata"]
    assert isinstance(metadata, dict)
    assert name == metadata["name"]
    return metadata["annotations"]


def test_a_node_object_says_what_an_operator_says():
    """Location, leadership, the address by which it is reached, the keepalive of its location; and its pods."""
    assert {
        "kilo.squat.ai/location": "cloud",
        "kilo.squat.ai/force-endpoint": "198.51.100.21:51820",
        "kilo.squat.ai/persistent-keepalive": "20",
        "kilo.squat.ai/leader": "true",
    } == _annotations("b1")
    assert {"kilo.squat.ai/location": "onprem"} == _annotations("a3")
    assert {"podCIDR": "10.244.4.0/24"} == node_object(TOPOLOGY, TOPOLOGY.nodes["b1"])["spec"]


def test_an_agent_finds_its_node_its_overlay_and_its_address():
    """As kg's flags name them."""
    command = agent_command(Path("/opt/kg"), TOPOLOGY, TOPOLOGY.nodes["a2"])

    assert "/opt/kg" == command[0]
    assert {
        "--hostname=a2",
        "--compatibility=flannel",
        "--internal-cidr=192.168.100.12/32",
        "--subnet=10.4.0.0/16",
        "--mtu=1420",
        "--create-interface=false",
        "--local=false",
    } <= set(command)
