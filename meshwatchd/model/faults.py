"""The fault catalogue: every verdict the classifier can give, with what to tell the operator."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

import msgspec

from meshwatchd.model.ids import Layer


class FaultCode(StrEnum):
    """Stable names of faults, as they appear in verdicts, logs, metrics and tests."""

    NONE = "none"
    LOCAL = "local-fault"
    LEADER_DEAD = "leader-dead"
    WIREGUARD_BLOCKED = "wireguard-blocked"
    OVERLAY_NEW_FLOWS = "overlay-new-flows"
    OVERLAY_BLACK_HOLE = "overlay-black-hole"
    IPIP_BLACK_HOLE = "ipip-black-hole"
    RELAY_NOT_FORWARDING = "relay-not-forwarding"
    NODE_UNREACHABLE = "node-unreachable"
    ADDRESS_FAMILY_BROKEN = "address-family-broken"
    POD_UNREACHABLE = "pod-unreachable"
    KEY_MISMATCH = "key-mismatch"
    STANDBY_DOWN = "standby-down"
    MTU_BLACK_HOLE = "mtu-black-hole"
    MTU_MISCONFIGURED = "mtu-misconfigured"
    MTU_POISONED = "mtu-poisoned"
    STANDBY_MTU_SMALLER = "standby-mtu-smaller"
    FRAGMENTS_DROPPED = "fragments-dropped"
    ALL_PATHS_DOWN = "all-paths-down"
    UNDETERMINED = "undetermined"


class Severity(StrEnum):
    """How bad it is for traffic: `warning` degrades redundancy, `critical` loses packets."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the catalogue."""

    code: FaultCode
    layer: Layer
    severity: Severity
    title: str
    remedy: str


_LINES = (
    Fault(
        code=FaultCode.NONE,
        layer=Layer.SELF,
        severity=Severity.OK,
        title="every layer answers",
        remedy="nothing to do",
    ),
    Fault(
        code=FaultCode.LOCAL,
        layer=Layer.SELF,
        severity=Severity.CRITICAL,
        title="this node does not hear itself or reaches nobody: the fault is here",
        remedy="look at this node's NIC, firewall, loopback and load; no route is moved on its word",
    ),
    Fault(
        code=FaultCode.LEADER_DEAD,
        layer=Layer.UNDERLAY,
        severity=Severity.CRITICAL,
        title="the leader answers on no layer",
        remedy="bring the leader back or remove its Kilo leader annotation",
    ),
    Fault(
        code=FaultCode.WIREGUARD_BLOCKED,
        layer=Layer.WIREGUARD,
        severity=Severity.CRITICAL,
        title="the leaders' WireGuard tunnel passes nothing while both leaders are alive",
        remedy="look at UDP 51820 between the leaders' endpoints: security groups, NAT, keepalive",
    ),
    Fault(
        code=FaultCode.OVERLAY_NEW_FLOWS,
        layer=Layer.OVERLAY,
        severity=Severity.CRITICAL,
        title="new overlay flows die at the leader while remembered flows live",
        remedy="drain the leader; the fault lies between its overlay device and its NIC, or in the hypervisor",
    ),
    Fault(
        code=FaultCode.OVERLAY_BLACK_HOLE,
        layer=Layer.OVERLAY,
        severity=Severity.CRITICAL,
        title="no overlay packet passes the leader while its underlay answers",
        remedy="look at the overlay device, its FDB and neighbours, and filters for its UDP port on the leader",
    ),
    Fault(
        code=FaultCode.IPIP_BLACK_HOLE,
        layer=Layer.IPIP,
        severity=Severity.CRITICAL,
        title="no IPIP packet passes the leader while its overlay answers",
        remedy="look at the IPIP device, its rp_filter, and filters for IP protocol 4 on the leader",
    ),
    Fault(
        code=FaultCode.RELAY_NOT_FORWARDING,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the leader answers on every layer and forwards nothing",
        remedy="look at net.ipv4.ip_forward, FORWARD policy and rp_filter on the leader",
    ),
    Fault(
        code=FaultCode.NODE_UNREACHABLE,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="one remote node is silent while its neighbours answer over the same path",
        remedy="look at that node; no path is to blame",
    ),
    Fault(
        code=FaultCode.ADDRESS_FAMILY_BROKEN,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="only IPv6 is lost: IPv4 between the same nodes answers",
        remedy="look at IPv6 addresses, neighbours, routes and ip6tables; nothing is moved, standby routes are IPv4",
    ),
    Fault(
        code=FaultCode.POD_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a canary is silent while every layer of the mesh below it answers",
        remedy="look at the pod, its CNI link and network policies; no path is to blame",
    ),
    Fault(
        code=FaultCode.KEY_MISMATCH,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="a node and the others sign with different keys, and it answers nothing",
        remedy="compare the mesh keys ([auth]) of that node and of the others, then `systemctl reload meshwatchd`",
    ),
    Fault(
        code=FaultCode.STANDBY_DOWN,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="a standby path does not answer: redundancy is reduced",
        remedy="look at the standby link's handshake and at its UDP port between the two relays",
    ),
    Fault(
        code=FaultCode.MTU_BLACK_HOLE,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="large packets vanish while small ones pass",
        remedy="look at the MTUs on the way and at filters of ICMP; `meshwatchctl mtu` has the number to configure",
    ),
    Fault(
        code=FaultCode.MTU_MISCONFIGURED,
        layer=Layer.OVERLAY,
        severity=Severity.WARNING,
        title="a device's MTU is more than what is below it carries in one piece",
        remedy="lower the MTU of that device to the number that `meshwatchctl mtu` names",
    ),
    Fault(
        code=FaultCode.MTU_POISONED,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="the kernel believes in a path MTU that is smaller than what the path carries",
        remedy="ip route flush cache; if it comes back, look for whoever sends ICMP fragmentation-needed messages",
    ),
    Fault(
        code=FaultCode.STANDBY_MTU_SMALLER,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="a standby path carries less than the path in use: large packets would vanish after a failover",
        remedy="look at the MTUs between the standby's relays; `meshwatchctl mtu` has the number",
    ),
    Fault(
        code=FaultCode.FRAGMENTS_DROPPED,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="fragments are dropped while whole packets pass",
        remedy="admit IP fragments between the nodes, or keep every tunnel's MTU below what passes in one piece",
    ),
    Fault(
        code=FaultCode.ALL_PATHS_DOWN,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the path in use is broken and no standby is good",
        remedy="repair any of the paths; routes stay as they are",
    ),
    Fault(
        code=FaultCode.UNDETERMINED,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the path in use is broken and the layer is not yet known",
        remedy="wait for the segment probes, or look at `meshwatchctl explain`",
    ),
)

CATALOGUE = MappingProxyType({fault.code: fault for fault in _LINES})
"""Every fault by its code; a test asserts that it is complete."""


class Direction(StrEnum):
    """Which way packets are lost, seen from this node."""

    BOTH = "both"
    OUTBOUND = "outbound"
    INBOUND = "inbound"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is broken, where, and why we say so.

    Attributes:
        pair: the pair of locations whose traffic suffers.
        culprit: the node named by the evidence; empty when none is.
        because: one sentence for each piece of evidence, the strongest first.
        log_likelihood: of the sequential test behind it, in nats.
    """

    fault: FaultCode
    layer: Layer
    severity: Severity
    pair: int
    culprit: str = ""
    direction: Direction = Direction.UNKNOWN
    because: tuple[str, ...] = ()
    log_likelihood: float = 0.0

    def is_same_fault(self, other: Verdict) -> bool:
        """Whether both name the same fault at the same place, whatever the evidence."""
        return (self.fault, self.pair, self.culprit) == (other.fault, other.pair, other.culprit)
