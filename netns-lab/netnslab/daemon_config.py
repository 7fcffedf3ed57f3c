"""The files a meshwatchd finds on its node: configuration, mesh key, key of its standby links.

The schema is the daemon's; it is written out here as plain tables because the lab judges the daemon from
outside and shares no code with it.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from netnslab import antrea, clustermesh, submariner, wg_quick
from netnslab.fabric import fabric_of
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair

CONFIGURATION = Path("/etc/meshwatchd/meshwatchd.toml")
MINIMAL = Path("/etc/meshwatchd/minimal.toml")
"""Says nothing of the mesh: where its key is, and how far the daemon may go."""
MESH_KEY = Path("/etc/meshwatchd/mesh.key")
STANDBY_KEY = Path("/var/lib/meshwatchd/standby.key")

MESH_KEY_BYTES = 32

# Without standby links the ports stay closed, but six pairs of nodes reserve 42 of them, and from the default on
# they would reach Cilium's WireGuard.
UNUSED_STANDBY_PORT = 51930

Table = dict[str, object]


def standby_nodes(topology: Topology) -> tuple[str, ...]:
    """The nodes that take part in standby links: every leader and every standby; nobody where nobody relays."""
    if fabric_of(topology).carries_overlay or topology.fabric == submariner.DEVICE:
        return ()
    return tuple(relay for location in topology.locations.values() for relay in location.relays)


def generate_mesh_key() -> str:
    """A secret all daemons of one mesh share: base64 of 32 random bytes."""
    return base64.b64encode(secrets.token_bytes(MESH_KEY_BYTES)).decode("ascii")


def render(
    topology: Topology, node: Node, *, overlay_device: str, ipip_device: str, standby_keys: Mapping[str, KeyPair]
) -> str:
    """The configuration file of one node, as TOML."""
    is_submariner, device = topology.fabric == submariner.DEVICE, fabric_of(topology).device
    is_named = topology.fabric in (submariner.DEVICE, antrea.NAME, clustermesh.NAME)
    # Cilium's own WireGuard is below the mesh, as a LAN would be.
    has_device = fabric_of(topology).has_device(topology, node) and topology.fabric != clustermesh.NAME
    document: Table = {
        "daemon": {"node": node.name, "mode": "enforce"},
        "auth": {"key_file": str(MESH_KEY)},
        "mesh": {
            "profile": topology.fabric if is_named else "kilo",
            "wireguard_device": device if has_device else "",
            "overlay_device": overlay_device,
            "ipip_device": ipip_device,
            **_members(topology, standby_keys),
        },
    }
    if fabric_of(topology).carries_overlay or is_submariner:
        document["standby"] = {"port": UNUSED_STANDBY_PORT}
    else:
        document["standby"] = {"private_key_file": str(STANDBY_KEY), "mtu": topology.wireguard.mtu_bytes}
    return tomli_w.dumps(document)


def render_minimal() -> str:
    """The least an operator has to write, as TOML: the node's name is the host's, the mesh is to be found out."""
    return tomli_w.dumps({"daemon": {"mode": "enforce"}, "auth": {"key_file": str(MESH_KEY)}})


def files(
    topology: Topology,
    node: Node,
    *,
    overlay_device: str,
    ipip_device: str = "",
    standby_keys: Mapping[str, KeyPair],
    mesh_key: str,
) -> dict[Path, str]:
    """What to write inside a node, by path. A node without standby links has no standby key."""
    texts = {
        CONFIGURATION: render(
            topology, node, overlay_device=overlay_device, ipip_device=ipip_device, standby_keys=standby_keys
        ),
        MINIMAL: render_minimal(),
        MESH_KEY: mesh_key + "\n",
    }
    if node.name in standby_keys:
        texts[STANDBY_KEY] = standby_keys[node.name].private + "\n"
    return texts


def write(texts: Mapping[Path, str]) -> None:
    """Write files only root can read; called inside the node's mount namespace."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")


def _members(topology: Topology, standby_keys: Mapping[str, KeyPair]) -> Table:
    """Locations and nodes. Where every node speaks WireGuard with every other, each is a location of its own.

    Such a node goes by its WireGuard address (K3s's `--node-ip`); the LAN between two of them carries nothing.
    """
    if fabric_of(topology).carries_overlay and topology.fabric != clustermesh.NAME:
        return {
            "location": [{"name": name, "leader": name} for name in topology.nodes],
            "node": [_direct_table(topology, node) for node in topology.nodes.values()],
        }
    return {
        "location": [
            {"name": location.name, "leader": location.leader, "standbys": list(location.standbys)}
            for location in topology.locations.values()
        ],
        "node": [_node_table(topology, each, standby_keys) for each in topology.nodes.values()],
    }


def _direct_table(topology: Topology, node: Node) -> Table:
    # Where pods are routed straight into the device its address is one of theirs, and no node's own.
    is_native = fabric_of(topology) is not wg_quick.WG_QUICK
    return {
        "name": node.name,
        "location": node.name,
        "node_ip": node.node_ip if is_native else wg_quick.address(node),
        "pod_cidr": node.pod_cidr,
        "overlay_ip": node.overlay_ip,
        "wireguard_ip": wg_quick.address(node),
    }


def _node_table(topology: Topology, node: Node, standby_keys: Mapping[str, KeyPair]) -> Table:
    table: Table = {
        "name": node.name,
        "location": node.location,
        # Submariner routes pods and services between clusters, and no node by its own address.
        "node_ip": node.pod_gateway_ip if topology.fabric == submariner.DEVICE else node.node_ip,
        "pod_cidr": node.pod_cidr,
        "overlay_ip": node.overlay_ip,
    }
    if topology.is_leader(node.name) and topology.fabric != clustermesh.NAME:
        table["wireguard_ip"] = topology.location_of(node.name).wireguard_ip
    if node.name in standby_keys:
        table["standby_public_key"] = standby_keys[node.name].public
        if node.public_ip is not None:
            table["standby_endpoint"] = node.public_ip
    return table
