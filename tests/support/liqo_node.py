"""Node a2 of a cluster that Liqo joins with another one, as Liqo's fabric leaves its kernel."""

from __future__ import annotations

import msgspec

from meshwatchd.core.audit.liqo_devices import LiqoGood
from meshwatchd.model.liqo import liqo_links
from meshwatchd.model.snapshot import DestinationRule, DeviceRoute, Geneve, Link, Snapshot

DEVICE = "liqo.0a1b2c3d4e"
NODE, GATEWAY, POD = "10.80.0.12", "10.80.0.1", "10.244.1.2"
REMOTE = "10.71.0.0/16"
BEYOND = ("10.71.1.7", "10.71.2.7")
TABLE = 1_862_403_329
ROUTER = "192.168.100.1"

CARD = Link(
    name="eth0", index=2, kind="veth", is_up=True, mtu_bytes=1500, addresses=("192.168.100.12",), prefix_lengths=(24,)
)
BRIDGE = Link(
    name="cni0", index=3, kind="bridge", is_up=True, mtu_bytes=1500, addresses=("10.244.2.1",), prefix_lengths=(24,)
)
LINK = Link(
    name=DEVICE,
    index=5,
    kind="geneve",
    is_up=True,
    mtu_bytes=1340,
    addresses=(NODE,),
    prefix_lengths=(32,),
    lladdr="02:00:00:00:00:05",
    geneve=Geneve(vni=3, port=6091, remote=POD),
)
TO_GATEWAY = DeviceRoute(dst=f"{GATEWAY}/32", dev=DEVICE, table=TABLE, protocol=3, scope=253)
BY_GATEWAY = DeviceRoute(dst=REMOTE, dev=DEVICE, table=TABLE, protocol=3, via=GATEWAY)
RULES = (
    DestinationRule(priority=32764, to=f"{GATEWAY}/32", table=TABLE),
    DestinationRule(priority=32765, to=REMOTE, table=TABLE),
)
DEFAULT = DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via=ROUTER)


def snapshot(**changes: object) -> Snapshot:
    """Its kernel."""
    seen = Snapshot(
        links=(CARD, BRIDGE, LINK),
        device_routes=(BY_GATEWAY, TO_GATEWAY),
        default_routes=(DEFAULT,),
        destination_rules=RULES,
    )
    return msgspec.structs.replace(seen, **changes)


def with_link(seen: Snapshot, **changes: object) -> Snapshot:
    """The same with another state of Liqo's device."""
    links = (msgspec.structs.replace(link, **changes) if link.name == DEVICE else link for link in seen.links)
    return msgspec.structs.replace(seen, links=tuple(links))


def good(*answered: str) -> LiqoGood:
    """How it was while the gateway pod answered."""
    (link,) = liqo_links(snapshot())
    return LiqoGood(link=link, answered=answered or (GATEWAY, POD))
