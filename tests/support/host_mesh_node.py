"""A node of K3s whose flannel-wg runs over the device of a host mesh."""

from __future__ import annotations

import msgspec

from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, RouteLookup, Snapshot, WireGuardPeer, WireGuardState

ETH0 = Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("172.31.16.11",))
TUNNEL = Link(name="flannel-wg", index=6, kind="wireguard", is_up=True, mtu_bytes=1220, addresses=("10.42.0.0",))
MESH = MeshSettings(profile="flannel", wireguard_device="flannel-wg", overlay_device="flannel-wg")
WAY_OUT = DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via="172.31.16.1")


def carrier(name: str = "nebula1", kind: str = "tun", mtu_bytes: int = 1300) -> Link:
    """The host mesh's device."""
    link = Link(name=name, index=5, kind=kind, is_up=True, mtu_bytes=mtu_bytes, addresses=("10.99.0.1",))
    return msgspec.structs.replace(link, prefix_lengths=(24,))


def node(below: Link | None = None, *, peers: int = 3, tunnel: Link = TUNNEL, way: str = "") -> Snapshot:
    """Its kernel.

    Args:
        below: the host mesh's device, None where that is gone.
        peers: of flannel-wg, at addresses of the host mesh.
        tunnel: flannel-wg.
        way: the device by which the kernel sends to the peers; the host mesh's if that is up, else the network card.
    """
    hosts = [f"10.99.0.{2 + number}" for number in range(peers)]
    dev = way or (below.name if below is not None and below.is_up else "eth0")
    state = WireGuardState(
        device=tunnel.name,
        public_key="OWN",
        listen_port=51820,
        at_ns=0,
        peers=tuple(WireGuardPeer(public_key=f"K-{host}", endpoint=f"{host}:51820") for host in hosts),
    )
    return Snapshot(
        links=(ETH0, tunnel, *((below,) if below is not None else ())),
        default_routes=(WAY_OUT,),
        wireguard=(state,),
        lookups=tuple(RouteLookup(address=host, dev=dev) for host in hosts),
    )
