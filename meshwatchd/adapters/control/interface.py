"""What can be asked of the daemon: parameters of each method, and the interface in Varlink's own language."""

from __future__ import annotations

from typing import Annotated

import msgspec

from meshwatchd.adapters.control.bisection import BISECTION
from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.forgetting import FORGETTING
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.status import FindingStatus, PairStatus, Status

SERVICE = "org.varlink.service"
CONTROL = "io.meshwatch.Control"
NOT_READY = f"{CONTROL}.NotReady"
NOT_ANSWERED = f"{CONTROL}.NotAnswered"
TOO_MANY_CLIENTS = f"{CONTROL}.TooManyClients"
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What Varlink's `int` holds, and what can be told to the engine; JSON has no such limit."""


class DescriptionParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of org.varlink.service.GetInterfaceDescription."""

    interface: str


class NoParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of methods that take none."""


class EventsParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Events.

    Attributes:
        since_ns: CLOCK_MONOTONIC instant of the earliest wanted.
        follow: keep telling; needs `more`.
    """

    since_ns: Number | None = None
    follow: bool | None = None


class FailoverParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Failover; without location the only one, without rank the best standby path."""

    location: str | None = None
    rank: Number | None = None
    dry_run: bool | None = None
    confirm_within_ns: Number | None = None


class OrderParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Pause, Drain, Pin and their ends, and of Confirm; each takes those that mean something to it.

    Attributes:
        location: the remote one; without it all of them, or for Pin the only one.
        rank: of Pin; the best standby path by default.
        name: whose order it is; without it an end is everybody's.
        duration_ns: an hour by default.
    """

    location: str | None = None
    rank: Number | None = None
    name: str | None = None
    reason: str | None = None
    duration_ns: Number | None = None
    dry_run: bool | None = None


class FailbackParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Failback; without location the only one."""

    location: str | None = None
    dry_run: bool | None = None


class StatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Status."""

    status: Status


class MtuParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Mtu; without node all of them."""

    node: str | None = None


class MtuReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Mtu.

    Attributes:
        paths: "relay-relay" by the decimal path number.
    """

    node: str
    at_ns: int
    paths: dict[str, str]
    sizes: tuple[SizeStatus, ...]


class ExplainReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Explain."""

    node: str
    mode: str
    at_ns: int
    explanations: tuple[Explanation, ...]
    findings: tuple[FindingStatus, ...] = ()


class TopologyReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Topology; no pairs before the engine has reported."""

    view: LocalView
    pairs: tuple[PairStatus, ...]


class EventsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Events."""

    events: tuple[dict[str, object], ...]


class OperateReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of everything that an operator asks for."""

    accepted: bool
    text: str
    operations: tuple[str, ...] = ()


DESCRIPTIONS = {
    SERVICE: """\
# The Varlink Service Interface is provided by every varlink service.
interface org.varlink.service

# Get a list of all the interfaces a service provides and information about the implementation.
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# Get the description of an interface that is implemented by this service.
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
""",
    CONTROL: """\
# What meshwatchd sees, why it thinks so, what it did, and what it is to do.
# Instants are nanoseconds of CLOCK_MONOTONIC, durations are nanoseconds.
interface io.meshwatch.Control

# One probe session. Layers: 0 self, 1 underlay, 2 wireguard, 3 ipip, 4 overlay, 5 relay, 6 effective, 7 pod,
# 8 pod_network.
type Session (
  peer: string,
  layer: int,
  path: int,
  flow: string,
  address: string,
  state: string,
  rtt_ns: int,
  sent: int,
  lost: int,
  last_heard_ns: int
)

# A pod or service that is asked beside the mesh. `depends_on`: the fault that explains its silence, or empty.
type Canary (
  name: string,
  node: string,
  kind: string,
  address: string,
  port: int,
  state: string,
  rtt_ns: int,
  sent: int,
  lost: int,
  last_heard_ns: int,
  depends_on: string
)

# How often sessions of one kind are probed; stretch: how many times slower than without probe.packets_per_second.
type Rate (
  layer: int,
  path: int,
  flow: string,
  sessions: int,
  interval_ns: int,
  stretch: float
)

# One path between two locations. States: good, suspect, down, unknown, unwatched (nobody probes it from here).
# penalty: 1000 for each time it was condemned, halving with policy.half_life; is_suppressed: not come back to for it.
type Path (
  number: int,
  rank: int,
  relays: []string,
  state: string,
  is_active: bool,
  is_local_relay: bool,
  penalty: int,
  is_suppressed: bool
)

# An operator's standing order. Kinds: pause, drain, pin, confirm. An empty location stands for all; the rank is of
# when the order was given, the relays say which path was meant.
type Order (
  kind: string,
  name: string,
  until_ns: int,
  location: string,
  rank: ?int,
  reason: string,
  relays: []string
)

# What is broken, where, and why we say so.
type Verdict (
  fault: string,
  layer: int,
  severity: string,
  pair: int,
  culprit: string,
  direction: string,
  because: []string,
  log_likelihood: float,
  told_by: string
)

# The traffic between this node's location and one other. Redundancy: full, reduced, none.
# is_chosen: an operator has moved traffic to the path in use; it does not come back by itself.
type Pair (
  pair: int,
  location: string,
  remote_location: string,
  active_rank: int,
  generation: int,
  verdict: Verdict,
  redundancy: string,
  paths: []Path,
  is_chosen: bool
)

# One peer of a WireGuard device, by its public key; no age before the first handshake.
type Tunnel (
  device: string,
  peer: string,
  endpoint: string,
  handshake_age_ns: ?int,
  rx_bytes: int,
  tx_bytes: int
)

# Where the mesh is known from. Origins: declared, hellos, cache, nothing.
type Knowledge (
  origin: string,
  nodes: int,
  unheard: []string,
  problems: []string
)

# What one layer of one path carries: whole IP packets in bytes. Directions: outbound, inbound, both, fragments.
# States: ok, searching, black-hole, misconfigured, fragments-dropped, poisoned, unreachable, unknown.
type Size (
  layer: int,
  peer: string,
  path: int,
  direction: string,
  expected_bytes: int,
  measured_bytes: int,
  state: string,
  advice: string
)

# A fault that a look at the kernel found. Repair: none, advised, started, verified, undone, held.
type Defect (
  fault: string,
  layer: int,
  severity: string,
  device: string,
  subject: string,
  peer: string,
  culprit: string,
  since_ns: int,
  because: []string,
  repair: string,
  commands: []string
)

# Severities: ok, warning, critical. Without pairs nothing is watched; while there are collisions nothing is changed.
type Snapshot (
  at_ns: int,
  node: string,
  location: string,
  role: string,
  mode: string,
  is_ready: bool,
  severity: string,
  pairs: []Pair,
  sessions: []Session,
  rates: []Rate,
  counters: [string]int,
  canaries: []Canary,
  tunnels: []Tunnel,
  knowledge: ?Knowledge,
  sizes: []Size,
  findings: []Defect,
  orders: []Order,
  drained: []string,
  rejected: string,
  collisions: []string
)

# A verdict in sentences: evidence, what was done about it, and what comes next.
type Explanation (
  location: string,
  remote_location: string,
  severity: string,
  fault: string,
  title: string,
  layer: string,
  culprit: string,
  direction: string,
  since_ns: ?int,
  because: []string,
  remedy: string,
  done: []Deed,
  next: []string
)

type Deed (at_ns: int, text: string)

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

method Status() -> (status: Snapshot)

# Which mesh this node is in, what it is there, and why; no pairs before the engine has reported.
method Topology() -> (view: View, pairs: []Pair)

# What size each layer of each path carries, towards one node or all; `paths`: relays by path number.
method Mtu(node: ?string) -> (node: string, at_ns: int, paths: [string]string, sizes: []Size)

method Explain() -> (
  node: string,
  mode: string,
  at_ns: int,
  explanations: []Explanation,
  findings: []Defect
)

# Events as flat objects; with `more`, in several replies. `follow` keeps telling and needs `more`.
method Events(since_ns: ?int, follow: ?bool) -> (events: []object)

# Move the traffic to a location to a standby path: the best one, or the one of that rank.
# Root only, but for `dry_run`, which tells the operations and changes nothing.
# With `confirm_within_ns` it is undone unless Confirm comes in time.
method Failover(location: ?string, rank: ?int, dry_run: ?bool, confirm_within_ns: ?int) -> (
  accepted: bool,
  text: string,
  operations: []string
)

# Move the traffic to a location back to the mesh's own path. Root only, but for `dry_run`.
method Failback(location: ?string, dry_run: ?bool) -> (
  accepted: bool,
  text: string,
  operations: []string
)

# Keep what Failover has done; root only, as are all standing orders, but for `dry_run`.
method Confirm(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# Move nothing to a location, or nothing at all, but what operators ask for.
method Pause(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# End pauses: of a location, of a name, or all.
method Resume(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# Take this node out of service: traffic moves off it first, and its silence is no fault.
method Drain(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# Put this node into service again.
method Undrain(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# Move traffic to a standby path and make it the one to come back to.
method Pin(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# End pins: of a location, of a name, or all.
method Unpin(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)

# The engine has not reported yet.
error NotReady (reason: string)

# The engine did not answer in time; whether it acted is to be seen in Status.
error NotAnswered (reason: string)

error TooManyClients (limit: int)
"""
    + FORGETTING
    + BISECTION,
}
