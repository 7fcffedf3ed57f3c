"""Which mesh a node is in and why: the reply of Topology, and its part of the interface."""

from __future__ import annotations

import msgspec

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.status import PairStatus


class TopologyReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Topology; no pairs before the engine has reported."""

    view: LocalView
    pairs: tuple[PairStatus, ...]


TOPOLOGY = """\

# Why something was recognised, and where that was read.
type Finding (source: string, text: string)

# An address at which another node may be.
type Candidate (address: string, is_local: bool)

# A device of the mesh; `over`: the one its outer packets leave by.
type DeviceLayer (kind: string, device: string, mtu_bytes: int, over: string)

# What a node can tell of itself. Whatever nothing tells is empty.
type View (
  profiles: []string,
  node: string,
  location: string,
  leader: string,
  is_leader: bool,
  granularity: string,
  node_ip: string,
  pod_cidr: string, is_pod_cidr_in_kernel: bool,
  overlay_ip: string,
  wireguard_ip: string,
  node_ip6: string,
  overlay_ip6: string,
  wireguard_ip6: string,
  node_macs: []string,
  vtep_mac: string,
  vtep_port: int,
  vtep_vni: int,
  wireguard_device: string,
  overlay_device: string,
  ipip_device: string,
  wireguard_mtu_bytes: int,
  public_endpoint: string,
  layers: []DeviceLayer,
  candidates: []Candidate,
  why: []Finding, contradictions: []string
)

# Which mesh this node is in, what it is there, and why; no pairs before the engine has reported.
method Topology() -> (view: View, pairs: []Pair)
"""
