"""The nodes of the two-location mesh, as a daemon on b3 knows them."""

from __future__ import annotations

import meshwatchd
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.node_status import NodeStatus

_ROLES = {"1": "leader", "2": "standby", "3": "member"}


def node(name: str, *, heard_ago_ns: int | None = 4_000_000_000) -> NodeStatus:
    """A node of the lab's kilo-flannel."""
    is_cloud, number = name[0] == "b", int(name[1])
    pods = number + (3 if is_cloud else 0)
    return NodeStatus(
        name=NodeName(name),
        location=LocationName("cloud" if is_cloud else "onprem"),
        role=_ROLES[name[1]],
        version=meshwatchd.__version__,
        mode="enforce",
        node_ip=f"10.2.0.1{number}" if is_cloud else f"192.168.100.1{number}",
        pod_cidr=f"10.244.{pods}.0/24",
        overlay_ip=f"10.244.{pods}.0",
        wireguard_ip="" if number > 1 else "10.4.0.1" if is_cloud else "10.4.0.2",
        heard_ago_ns=heard_ago_ns,
    )


NODES = (
    *(node(name) for name in ("b1", "b2")),
    node("b3", heard_ago_ns=0),
    *(node(name) for name in ("a1", "a2", "a3")),
)
