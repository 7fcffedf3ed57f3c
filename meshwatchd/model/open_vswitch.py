"""Pod networks of Open vSwitch: what their ports are called, what their tunnels cost, and what their makers would type.

    pod -- br-int -- antrea-gw0, ovn0, ovn-k8s-mp0     the switch's own port, by which the host reaches pods
             |
          genev_sys_6081 -- eth0                       the tunnel's port: each packet carries its destination

Source: antrea 2 pkg/agent/{config,route,wireguard}, multicluster/controllers; kube-ovn 1.14 pkg/{daemon,util};
ovn-kubernetes go-controller/pkg/{node,types}; Open vSwitch 3 lib/dpif-netlink-rtnl.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from meshwatchd.model.snapshot import Link, Snapshot

ANTREA_WIREGUARD = "antrea-wg0"
"""Carries pods in the tunnel's place where Antrea encrypts; its routes lead there, and it has the gateway's address."""
ANTREA_MULTICLUSTER = "antrea-mc-wg0"
"""On the node that is the gateway of its cluster to others."""

TUNNELS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "genev_sys_": ("geneve", 50),
        "vxlan_sys_": ("vxlan", 50),
        "gre_sys": ("gre", 38),
        "stt_sys_": ("stt", 72),
    }
)
"""How the names of Open vSwitch's tunnel devices begin (the UDP port follows), and the bytes of the outer headers over
IPv4, those of the inner frame included. Geneve's options come on top."""

USERSPACE: Final = "tun"
"""The kind of a port of the switch where its data path is a process: that one has no tunnel device."""


class SwitchMesh(msgspec.Struct, frozen=True, kw_only=True):
    """One maker's.

    Attributes:
        gateway: the switch's port in the host, with the node's address among pods.
        is_shared: the network of that address is one for all nodes, and so are those of pods: none is a node's own.
        option_bytes: of Geneve, in each packet.
        words: what its agents do about their devices and routes, and the command that has them made anew on a node.
    """

    gateway: str
    is_shared: bool = False
    option_bytes: int = 0
    words: str


SWITCH_MESHES: Mapping[str, SwitchMesh] = MappingProxyType(
    {
        "antrea": SwitchMesh(
            gateway="antrea-gw0",
            words="antrea-agent makes its ports when it starts and looks at its routes once a minute: kubectl -n"
            " kube-system delete pod -l app=antrea,component=antrea-agent --field-selector spec.nodeName={}, makes them"
            " anew",
        ),
        "kube-ovn": SwitchMesh(
            gateway="ovn0",
            is_shared=True,
            option_bytes=8,
            words="kube-ovn-cni looks at ovn0 and its routes every few seconds, ovn-controller makes the tunnels:"
            " kubectl -n kube-system delete pod -l 'app in (ovs,kube-ovn-cni)' --field-selector spec.nodeName={}, makes"
            " them anew",
        ),
        "ovn-kubernetes": SwitchMesh(
            gateway="ovn-k8s-mp0",
            option_bytes=8,
            words="ovnkube-node makes its port and its routes, ovn-controller the tunnels: kubectl -n ovn-kubernetes"
            " (OpenShift: openshift-ovn-kubernetes) delete pod -l app=ovnkube-node --field-selector spec.nodeName={},"
            " makes them anew",
        ),
    }
)
"""By the name of the kind of mesh."""

GATEWAYS = frozenset(each.gateway for each in SWITCH_MESHES.values())

CHECKSUM_WORDS = (
    "some network cards and hypervisors spoil checksums inside of tunnels: on that node ethtool -K {} tx off, and the"
    " same for the tunnel's device (ip -br link show type geneve)"
)
"""About the switch's port."""


def tunnel_of(snapshot: Snapshot) -> Link | None:
    """The tunnel's device; None where there is none."""
    return next((link for link in snapshot.links if link.name.startswith(tuple(TUNNELS))), None)


def tunnel_kind(name: str) -> str:
    """Of a tunnel's device: "geneve", "vxlan", "gre" or "stt"."""
    return next(kind for start, (kind, _) in TUNNELS.items() if name.startswith(start))


def switch_mesh_of(device: str) -> SwitchMesh | None:
    """Whose a device is that packets to pods leave by; None where it is none of these."""
    gateway = SWITCH_MESHES["antrea"].gateway if device == ANTREA_WIREGUARD else device
    return next((each for each in SWITCH_MESHES.values() if each.gateway == gateway), None)


def outer_bytes(snapshot: Snapshot, device: str) -> int:
    """What the tunnel adds to a packet that leaves by the switch's port; 0 for other devices, and without a tunnel."""
    mesh, tunnel = switch_mesh_of(device), tunnel_of(snapshot)
    if mesh is None or tunnel is None or device != mesh.gateway:
        return 0
    kind, size = next(each for start, each in TUNNELS.items() if tunnel.name.startswith(start))
    return size + (mesh.option_bytes if kind == "geneve" else 0)
