"""Liqo on a host: for each other cluster a device that leads to the gateway pod, and a table behind two rules.

    liqo.0a1b2c3d4e  geneve id N remote POD dstport 6091, 10.80.0.5/32     on every node
    rule to 10.80.0.1 lookup T           10.80.0.1 dev liqo.0a1b2c3d4e     the gateway pod, inside of Geneve
    rule to 10.71.0.0/16 lookup T        10.71.0.0/16 via 10.80.0.1        what is behind it: the other cluster's pods

The gateway pod has the tunnel to the other cluster in a network namespace of its own, which is not looked into.
Addresses of the other cluster are as this one sees them: Liqo gives it another prefix where both have the same.

Source: liqo 1.x, pkg/fabric, pkg/route, pkg/utils/network/geneve.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from meshwatchd.model.snapshot import DestinationRule, DeviceRoute, Link, Snapshot

DEVICE_PREFIX = "liqo."
"""The gateway pod's own device, liqo-tunnel, is not on the host."""

RESTART_FABRIC = "kubectl -n liqo delete pod -l app.kubernetes.io/name=fabric --field-selector spec.nodeName={}"
"""Has Liqo make devices, addresses, routes and rules of a node anew."""
GATEWAY_PODS = "networking.liqo.io/component=gateway"
"""The label of gateway pods and of their deployments."""
RESTART_GATEWAY = (
    f"kubectl -n liqo-tenant-CLUSTER rollout restart deployment -l {GATEWAY_PODS}, of the cluster whose gateway pod is"
    " at {}; kubectl cordon its node first where that is at fault"
)

_MAIN_TABLE = 254


class LiqoLink(msgspec.Struct, frozen=True, kw_only=True):
    """One device of Liqo's, and what leads there.

    Attributes:
        index: of the device; one that was made anew has another.
        vni: of Geneve: one number for this node and this cluster.
        remote: the gateway pod's address among pods.
        address: this node's inside of Geneve; empty while the device has none.
        gateway: the gateway pod's inside of Geneve; empty while no route names it.
        table: that its routes are in; 0 while there are none.
        routes: into the device, that to the gateway first: the others need it.
        rules: that lead to the table.
    """

    device: str
    index: int
    is_up: bool
    mtu_bytes: int
    vni: int
    port: int
    remote: str
    address: str = ""
    gateway: str = ""
    table: int = 0
    routes: tuple[DeviceRoute, ...] = ()
    rules: tuple[DestinationRule, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What is behind the gateway, as this cluster sees it."""
        return tuple(route.dst for route in self.routes if route.via)

    def is_whole(self) -> bool:
        """Whether packets for the gateway, and for something behind it, get into the device with an address."""
        led = {rule.to for rule in self.rules}
        is_led = f"{self.gateway}/32" in led and not led.isdisjoint(self.prefixes)
        return bool(self.is_up and self.address and self.gateway and is_led)


def liqo_links(snapshot: Snapshot) -> tuple[LiqoLink, ...]:
    """Liqo's devices on this node, by name; none where Liqo does not run."""
    found = (link for link in snapshot.links if is_liqos(link))
    return tuple(_look(snapshot, link) for link in sorted(found, key=lambda link: link.name))


def is_liqos(link: Link) -> bool:
    """By name, and by having one far end; whether that is Geneve's or VXLAN's decides nothing here."""
    return link.name.startswith(DEVICE_PREFIX) and bool(_remote(link))


def rules_to(snapshot: Snapshot, tables: Collection[int]) -> tuple[DestinationRule, ...]:
    """The rules by destination that look these tables up."""
    return tuple(rule for rule in snapshot.destination_rules if rule.table in tables)


def _look(snapshot: Snapshot, link: Link) -> LiqoLink:
    own = [each for each in snapshot.device_routes if each.dev == link.name and ":" not in each.dst]
    routes = sorted((each for each in own if each.table != _MAIN_TABLE), key=lambda each: (bool(each.via), each.dst))
    gateways = [route.dst.removesuffix("/32") for route in routes if not route.via and route.dst.endswith("/32")]
    vias = [route.via for route in routes if route.via]
    gateway = next((each for each in gateways if each in vias), next(iter(gateways), ""))
    tables = {route.table for route in routes}
    kind = link.geneve or link.vxlan
    assert kind is not None, "it has a far end"
    return LiqoLink(
        device=link.name,
        index=link.index,
        is_up=link.is_up,
        mtu_bytes=link.mtu_bytes,
        vni=kind.vni,
        port=kind.port,
        remote=_remote(link),
        address=next(iter(link.addresses), ""),
        gateway=gateway,
        table=routes[0].table if routes else 0,
        routes=tuple(routes),
        rules=rules_to(snapshot, tables),
    )


def _remote(link: Link) -> str:
    kind = link.geneve or link.vxlan
    return kind.remote if kind is not None else ""
