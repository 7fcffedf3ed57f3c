"""The words of the fault catalogue: stable codes, severities, and the shape of one line."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

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
    POD_NETWORK_BROKEN = "pod-network-broken"
    POD_UNREACHABLE = "pod-unreachable"
    KEY_MISMATCH = "key-mismatch"
    STANDBY_DOWN = "standby-down"
    ALL_PATHS_DOWN = "all-paths-down"
    UNDETERMINED = "undetermined"
    ONE_WAY_BREAK = "one-way-break"
    KUBELET_UNREACHABLE = "kubelet-unreachable"
    APISERVER_UNREACHABLE = "apiserver-unreachable"
    PROBE_PORT_BLOCKED = "probe-port-blocked"
    PROBES_ONLY = "probes-only"
    NEXT_HOP_DEAD = "next-hop-dead"
    OVERLAY_DEVICE_MISSING = "overlay-device-missing"
    OVERLAY_DEVICE_DOWN = "overlay-device-down"
    OVERLAY_EMPTIED = "overlay-emptied"
    OVERLAY_MISMATCH = "overlay-mismatch"
    VTEP_MAC_CHANGED = "vtep-mac-changed"
    FDB_ENTRY_MISSING = "fdb-entry-missing"
    FDB_ENTRY_WRONG = "fdb-entry-wrong"
    NEIGHBOUR_MISSING = "neighbour-missing"
    NEIGHBOUR_NOT_PERMANENT = "neighbour-not-permanent"
    NEIGHBOUR_WRONG_MAC = "neighbour-wrong-mac"
    POD_ROUTE_MISSING = "pod-route-missing"
    POD_ROUTE_ESCAPED = "pod-route-escaped"
    CLUSTER_ROUTE_MISSING = "cluster-route-missing"
    WIREGUARD_DEVICE_MISSING = "wireguard-device-missing"
    WIREGUARD_PEER_MISSING = "wireguard-peer-missing"
    WIREGUARD_NO_HANDSHAKE = "wireguard-no-handshake"
    WIREGUARD_NO_DATA = "wireguard-no-data"
    WIREGUARD_KEY_MISMATCH = "wireguard-key-mismatch"
    ALLOWED_IPS_STOLEN = "allowed-ips-stolen"
    ALLOWED_IPS_MISSING = "allowed-ips-missing"
    WIREGUARD_ENDPOINT_MOVED = "wireguard-endpoint-moved"
    KEEPALIVE_MISSING = "keepalive-missing"
    WIREGUARD_PEER_DUPLICATE = "wireguard-peer-duplicate"
    BGP_ROUTE_ESCAPED = "bgp-route-escaped"
    RP_FILTER_STRICT = "rp-filter-strict"
    FORWARDING_OFF = "forwarding-off"
    POD_ROUTE_DIVERTED = "pod-route-diverted"
    CONNTRACK_FULL = "conntrack-full"
    CONNTRACK_INVALID = "conntrack-invalid"
    OFFLOAD_FAULT = "offload-fault"
    DUPLICATE_ADDRESS = "duplicate-address"
    MAC_MOVED = "mac-moved"
    NEIGHBOUR_WRONG = "neighbour-wrong"
    NODE_ROUTE_BLOCKED = "node-route-blocked"
    UNDERLAY_DEVICE_MISSING = "underlay-device-missing"
    UNDERLAY_DEVICE_DOWN = "underlay-device-down"
    UNDERLAY_SILENT = "underlay-silent"
    DUPLICATE_NODE_NAME = "duplicate-node-name"
    LIQO_FABRIC_ADDRESS_MISSING = "liqo-fabric-address-missing"
    LIQO_ROUTE_MISSING = "liqo-route-missing"
    LIQO_GATEWAY_STALE = "liqo-gateway-stale"
    LIQO_GATEWAY_LEG = "liqo-gateway-leg"
    LIQO_TUNNEL_DEAD = "liqo-tunnel-dead"
    MTU_BLACK_HOLE = "mtu-black-hole"
    MTU_MISCONFIGURED = "mtu-misconfigured"
    MTU_POISONED = "mtu-poisoned"
    STANDBY_MTU_SMALLER = "standby-mtu-smaller"
    FRAGMENTS_DROPPED = "fragments-dropped"
    DNS_UNREACHABLE = "dns-unreachable"
    DNS_FORWARD_BROKEN = "dns-forward-broken"
    DOMAIN_NOT_SERVED = "domain-not-served"
    NOT_SYNCED = "not-synced"
    NOT_EXPORTED = "not-exported"
    EXPORTER_UNHEALTHY = "exporter-unhealthy"
    POLICY_OR_BACKEND = "policy-or-backend"
    ENDPOINT_REFUSED = "endpoint-refused"
    IDENTITY = "identity"
    SNI_REJECTED = "sni-rejected"
    GATEWAY_NOT_READY = "gateway-not-ready"
    CLUSTERMESH_DATAPATH_CUT = "clustermesh-datapath-cut"
    CLUSTER_BACKENDS_UNREACHABLE = "cluster-backends-unreachable"
    CLUSTERMESH_CONTROL_CUT = "clustermesh-control-cut"
    OUTER_WAY_BROKEN = "outer-way-broken"


class Severity(StrEnum):
    """How bad it is for traffic: `warning` degrades redundancy, `critical` loses packets."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


_WEIGHTS: Final = MappingProxyType({severity.value: place for place, severity in enumerate(Severity)})


def weight(severity: str) -> int:
    """How bad a severity is: the worse, the larger; a word of another version counts as `ok`."""
    return _WEIGHTS.get(severity, 0)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the catalogue.

    Attributes:
        depends_on: faults of which this one is a consequence: while one of them stands at the same device, this is
            not told.
        confirm_ns: how long it has to stand before it is told; 0 where a sequential test has confirmed it already.
        about: what it is, how it shows and what else looks like it, for `meshwatchctl explain CODE`.
    """

    code: FaultCode
    layer: Layer
    severity: Severity = Severity.CRITICAL
    title: str
    remedy: str
    depends_on: tuple[FaultCode, ...] = ()
    confirm_ns: int = 0
    about: str = ""
