"""The text that builds Antrea's kernel state, without a kernel."""

from __future__ import annotations

import tomllib
from pathlib import Path

from netnslab import daemon_config
from netnslab.antrea import ANTREA, GATEWAY, TUNNEL
from netnslab.topology_file import load

TOPOLOGY = load("antrea")


def test_a_node_reaches_others_by_their_ports_through_one_tunnel():
    """A route, a neighbour and an FDB entry for each, and the port has the first address of the pods."""
    plan = ANTREA.plan(TOPOLOGY, TOPOLOGY.nodes["n1"], pod_network=Path("/run/pod"))

    assert f"address add 10.10.0.1/24 dev {GATEWAY}" in plan.ip
    assert f"route add 10.10.1.0/24 via 10.10.1.1 dev {GATEWAY} onlink" in plan.ip
    assert f"fdb append 02:4e:01:00:00:02 dev {TUNNEL} dst 10.79.1.12 self permanent" in plan.bridge
    assert 2 == len(plan.bridge)
    assert () == ANTREA.route_lines(TOPOLOGY, TOPOLOGY.nodes["n1"], ANTREA)


def test_each_node_is_a_location_and_has_no_wireguard():
    """Nobody relays, and the declared mesh is of Antrea's kind."""
    texts = daemon_config.files(
        TOPOLOGY, TOPOLOGY.nodes["n1"], overlay_device=GATEWAY, standby_keys={}, mesh_key="c2VjcmV0"
    )
    mesh = tomllib.loads(texts[daemon_config.CONFIGURATION])["mesh"]

    assert ("antrea", "", GATEWAY) == (mesh["profile"], mesh["wireguard_device"], mesh["overlay_device"])
    assert [{"name": name, "leader": name} for name in ("n1", "n2", "n3")] == mesh["location"]
    assert ("10.79.1.11", "10.10.0.1") == (mesh["node"][0]["node_ip"], mesh["node"][0]["overlay_ip"])
