"""Meshes of the host, as Tailscale, NetBird and Nebula make them: one device each, below a mesh of the cluster.

    flannel-wg -> nebula1 -> eth0          kilo0 -> wt0 -> eth0          flannel.1 -> tailscale0 -> eth0

Such a device is a layer below and nothing else. NetBird's speaks WireGuard in the kernel, and is no mesh of the cluster
all the same: its peers are the host's. A device is known by its name and its kind; the names are the makers' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from meshwatchd.model.snapshot import Link, Snapshot


class HostMesh(msgspec.Struct, frozen=True, kw_only=True):
    """One maker.

    Attributes:
        kind: of the device's layer, as in `discovery.DeviceLayer`.
        name: as its makers write it.
        kinds: of its device, as in `snapshot.Link`.
        ask: the maker's own commands that tell whether it delivers.
        restart: the command that makes its device anew.
    """

    kind: str
    name: str
    kinds: frozenset[str]
    ask: str
    restart: str


_MAKERS: Mapping[str, HostMesh] = MappingProxyType(
    {
        "tailscale": HostMesh(
            kind="tailscale",
            name="Tailscale",
            kinds=frozenset(("tun",)),
            ask="tailscale status; tailscale ping PEER; systemctl status tailscaled",
            restart="systemctl restart tailscaled",
        ),
        "wt": HostMesh(
            kind="netbird",
            name="NetBird",
            kinds=frozenset(("wireguard", "tun")),
            ask="netbird status --detail; systemctl status netbird",
            restart="systemctl restart netbird",
        ),
        "nebula": HostMesh(
            kind="nebula",
            name="Nebula",
            kinds=frozenset(("tun",)),
            ask="systemctl status 'nebula*'; journalctl -u 'nebula*'; the sections tun and firewall of its config",
            restart="systemctl restart 'nebula*'",
        ),
    }
)
"""By the name of the device without its number: tailscale0 (tailscaled --tun), wt0 (NetBird's WireguardInterface), and
nebula1 (tun.dev of Nebula's sample configuration)."""

HOST_MESH_KINDS = frozenset(maker.kind for maker in _MAKERS.values())


def maker_of(device: str) -> HostMesh | None:
    """Whose device has this name; None for every other device."""
    name = device.rstrip("0123456789")
    return _MAKERS.get(name) if name != device else None


def host_mesh(link: Link | None) -> HostMesh | None:
    """Whose device this is, by its name and its kind; None for every other device."""
    maker = maker_of(link.name) if link is not None else None
    return maker if maker is not None and link is not None and link.kind in maker.kinds else None


def carrier_of(snapshot: Snapshot, *devices: str) -> Link | None:
    """The host mesh's device by which packets of the first of these devices leave that has any; None for none."""
    below = (snapshot.underlay(device) for device in devices if snapshot.link(device) is not None)
    return next((link for link in below if host_mesh(link) is not None), None)


def endpoints_of(snapshot: Snapshot, tunnel: str) -> frozenset[str]:
    """Where the peers of a WireGuard device are, without ports."""
    peers = (peer for state in snapshot.wireguard if state.device == tunnel for peer in state.peers)
    return frozenset(peer.host for peer in peers if peer.host)


def is_up(snapshot: Snapshot, device: str) -> bool:
    """Whether a device is there and up."""
    link = snapshot.link(device)
    return link is not None and link.is_up


def describe_carrier(device: str, tunnel: str) -> str:
    """That a layer of somebody else is below, and whom to ask; empty for a device that is no host mesh's."""
    maker = maker_of(device)
    if maker is None:
        return ""
    return f"the underlay of {tunnel} is {device} of {maker.name}: ask it at both ends ({maker.ask})"
