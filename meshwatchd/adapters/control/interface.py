"""What can be asked of the daemon: parameters of each method, and the interface in Varlink's own language."""

from __future__ import annotations

import msgspec

from meshwatchd.adapters.control.bisection import BISECTION
from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.forgetting import FORGETTING
from meshwatchd.adapters.control.incidents import INCIDENTS
from meshwatchd.adapters.control.nodes import NODES
from meshwatchd.adapters.control.operator_requests import OPERATOR_REQUESTS
from meshwatchd.adapters.control.topology import TOPOLOGY
from meshwatchd.adapters.control.varlink import Number
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.status import FindingStatus

SERVICE = "org.varlink.service"
CONTROL = "io.meshwatch.Control"
NOT_READY = f"{CONTROL}.NotReady"
NOT_ANSWERED = f"{CONTROL}.NotAnswered"
TOO_MANY_CLIENTS = f"{CONTROL}.TooManyClients"


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


class EventsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Events."""

    events: tuple[dict[str, object], ...]


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
# is_next: traffic would move here if the path in use broke.
type Path (
  number: int,
  rank: int,
  relays: []string,
  state: string,
  is_active: bool,
  is_local_relay: bool,
  penalty: int,
  is_suppressed: bool,
  is_next: bool
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
  collisions: []string,
  reported: []ReportedFault,
  remarks: []string
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

method Status() -> (status: Snapshot)

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

# The engine has not reported yet.
error NotReady (reason: string)

# The engine did not answer in time; whether it acted is to be seen in Status.
error NotAnswered (reason: string)

error TooManyClients (limit: int)
"""
    + TOPOLOGY
    + OPERATOR_REQUESTS
    + FORGETTING
    + NODES
    + BISECTION
    + INCIDENTS,
}
