"""Liqo, which joins this cluster with others: on each node a device for each of them, beside the mesh of the nodes.

    liqo.0a1b2c3d4e   Geneve to the gateway pod, 10.80.0.5/32     rules to 10.80.0.1 and to 10.71.0.0/16 lookup T

It runs over any CNI and is none: it tells neither locations nor leaders, names no node, and no failover of ours has to
do with it. What it tells of a node are its devices. Their state is looked at on each node by itself, watched or not
(`core.audit.liqo_devices`), and so is who answers through them (`core.audit.liqo_legs`).

Where both clusters have the same prefix Liqo gives the other one another here, and nodes there know themselves by
addresses that lead nowhere from here. So nobody is looked for there; `core.membership.translation` refuses whom Liqo
has given another address.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.discovery import Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.liqo import DEVICE_PREFIX, LiqoLink, liqo_links
from meshwatchd.model.mesh_profile import LIQO
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What Liqo's devices, rules and routes say of this node; see `profiles.compose`."""
    del sources, declared
    links = liqo_links(snapshot)
    if not links:
        text = f"there is no device {DEVICE_PREFIX}*: Liqo joins this cluster with no other"
        return LocalView(profiles=(), node=node, why=(Finding(source="links", text=text),))
    return LocalView(profiles=(LIQO,), node=node, why=tuple(each for link in links for each in _reasons(link)))


def _reasons(link: LiqoLink) -> Iterator[Finding]:
    own = f"this node is {link.address} in there" if link.address else "it has no address of this node"
    text = (
        f"{link.device} is Liqo's: number {link.vni} to the gateway pod at {link.remote}, UDP {link.port}, MTU"
        f" {link.mtu_bytes}; {own}"
    )
    yield Finding(source=f"link {link.device}", text=text)
    if not link.prefixes:
        text = f"no route leads to another cluster by {link.device}"
        yield Finding(source=f"routes into {link.device}", text=text)
        return
    rules = ", ".join(str(rule.priority) for rule in link.rules) or "none"
    text = (
        f"{', '.join(link.prefixes)} of another cluster are behind {link.gateway}, as this cluster sees them;"
        f" rules that lead to table {link.table}: {rules}"
    )
    yield Finding(source=f"table {link.table}", text=text)
    text = "this mesh is not moved: Liqo has one gateway pod for each cluster; what breaks is named"
    yield Finding(source=f"link {link.device}", text=text)
