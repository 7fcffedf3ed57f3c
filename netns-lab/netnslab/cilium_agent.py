"""Stands for Cilium's agent at its socket: it answers with what lies in two files, which a fault may change.

GET /v1/cluster/nodes -> /run/cilium/nodes.json        GET /v1/healthz -> /run/cilium/healthz.json

python -m netnslab.cilium_agent
"""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterable, Mapping
from pathlib import Path

from netnslab.inhabitant import Inhabitant
from netnslab.topology import Node, Topology

FOLDER = Path("/run/cilium")
SOCKET, NODES, HEALTH = (FOLDER / name for name in ("cilium.sock", "nodes.json", "healthz.json"))

_FILES = {"/v1/cluster/nodes": NODES, "/v1/healthz": HEALTH}


def health_ip(node: Node) -> str:
    """Of a node's health endpoint, which is a pod."""
    return f"{node.pod_cidr.rpartition('.')[0]}.200"


def nodes_text(topology: Topology, node: Node) -> str:
    """What the agent of a node knows of all nodes; a location of the lab is a cluster."""
    elements = [
        {
            "name": f"{each.location}/{each.name}",
            "primary-address": {"ipv4": {"enabled": True, "ip": each.node_ip, "alloc-range": each.pod_cidr}},
            "secondary-addresses": [{"enabled": True, "ip": each.overlay_ip}],
            "health-endpoint-address": {"ipv4": {"enabled": True, "ip": health_ip(each)}},
        }
        for each in topology.nodes.values()
    ]
    return json.dumps({"client-id": 1, "nodes-added": elements, "self": f"{node.location}/{node.name}"})


def health_text(topology: Topology, node: Node) -> str:
    """What it says of other clusters, all of which it hears."""
    clusters = [
        {"name": each.name, "num-nodes": len(topology.members(each.name)), **_state(is_lost=False)}
        for each in topology.remote_locations(node.name)
    ]
    return json.dumps({"cilium": {"state": "Ok"}, "cluster-mesh": {"clusters": clusters, "num-global-services": 1}})


def change(place: Inhabitant, lines: Iterable[str]) -> None:
    """Have the agent of a node lose the control plane of a cluster (`lose west`), or find it again (`find west`)."""
    told = tuple(lines)
    place.space.call(lambda: HEALTH.write_text(changed(HEALTH.read_text(encoding="ascii"), told), encoding="ascii"))


def changed(text: str, lines: Iterable[str]) -> str:
    """The same health with the clusters that are lost, or found again."""
    told = json.loads(text)
    for word, cluster in (line.split() for line in lines):
        for each in told["cluster-mesh"]["clusters"]:
            if each["name"] == cluster:
                each.update(_state(is_lost=word == "lose"))
    return json.dumps(told)


def _state(*, is_lost: bool) -> Mapping[str, object]:
    return {
        "connected": not is_lost,
        "ready": not is_lost,
        "status": "etcd: not connected" if is_lost else "etcd: 1/1 connected, has-quorum=true",
        "num-failures": 7 if is_lost else 0,
    }


class _Handler(socketserver.StreamRequestHandler):
    """One question."""

    def handle(self) -> None:
        """Answer it."""
        _, target, _ = self.rfile.readline(1024).decode("ascii", errors="replace").split(" ", 2)
        file = _FILES.get(target)
        status, body = ("200 OK", file.read_bytes()) if file is not None else ("404 Not Found", b"{}")
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode("ascii") + body)


def main() -> None:
    """Answer for ever."""
    SOCKET.unlink(missing_ok=True)
    with socketserver.UnixStreamServer(str(SOCKET), _Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
