"""The objects of the API as far as they are read here, and the picture that they make.

Everything else in them is passed over: a thousand Nodes are read in one go, and most of each is of no interest.
Instants on the wire are RFC 3339 in UTC; durations of a Lease are seconds.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

TAINT_KEY = "meshwatchd.io/overlay-broken"
CORDON_ANNOTATION = "meshwatchd.io/cordoned"
"""On nodes that were marked unschedulable here: nobody else's cordon is ever taken back."""

DEGRADED, OVERLAY_UNAVAILABLE = "MeshDegraded", "OverlayUnavailable"
CONDITIONS = (DEGRADED, OVERLAY_UNAVAILABLE)


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is missing in an object, or null there, has the default."""


class Metadata(_Object, frozen=True, kw_only=True):
    """ObjectMeta (k8s.io/apimachinery meta/v1)."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Taint(_Object, frozen=True, kw_only=True):
    """core/v1 Taint."""

    key: str
    effect: str = ""
    value: str = ""
    time_added: str | None = None


class NodeSpec(_Object, frozen=True, kw_only=True):
    """core/v1 NodeSpec."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False
    pod_cidr: str = msgspec.field(default="", name="podCIDR")


class Condition(_Object, frozen=True, kw_only=True):
    """core/v1 NodeCondition."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class Address(_Object, frozen=True, kw_only=True):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class NodeState(_Object, frozen=True, kw_only=True):
    """core/v1 NodeStatus."""

    conditions: tuple[Condition, ...] | None = None
    addresses: tuple[Address, ...] | None = None


class Node(_Object, frozen=True, kw_only=True):
    """core/v1 Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeState = NodeState()

    @property
    def name(self) -> str:
        """Its name, which is the name of the mesh's node as well."""
        return self.metadata.name

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations; the API has null for none."""
        return self.metadata.annotations or {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Its taints, those of others too."""
        return self.spec.taints or ()

    @property
    def is_tainted(self) -> bool:
        """Whether it has our taint."""
        return any(taint.key == TAINT_KEY for taint in self.taints)

    @property
    def is_cordoned_here(self) -> bool:
        """Whether it is unschedulable by our doing."""
        return self.spec.unschedulable and CORDON_ANNOTATION in self.annotations

    @property
    def is_uncordoned(self) -> bool:
        """Whether somebody else has taken a cordon of ours back; kubectl leaves the annotation."""
        return CORDON_ANNOTATION in self.annotations and not self.spec.unschedulable

    @property
    def addresses(self) -> frozenset[str]:
        """Every address that the cluster or Kilo knows of it, without prefix lengths."""
        known = {each.address for each in self.status.addresses or ()}
        kilo = (self.annotations.get(f"kilo.squat.ai/{name}", "") for name in ("internal-ip", "force-internal-ip"))
        return frozenset(known | {text.partition("/")[0] for text in kilo if text not in ("", "-")})

    def has(self, address: str) -> bool:
        """Whether an address is this node's: one that the cluster or Kilo knows, or one among its pods.

        Submariner routes pods alone between locations, so its nodes go by the address that they have among theirs.
        """
        if address in self.addresses:
            return True
        try:
            return ipaddress.ip_address(address) in ipaddress.ip_network(self.spec.pod_cidr)
        except ValueError:
            return False  # a network plugin with pools of its own leaves podCIDR empty

    def condition(self, kind: str) -> Condition:
        """A condition of ours; one that was never set is False."""
        found = (each for each in self.status.conditions or () if each.type == kind)
        return next(found, Condition(type=kind, status="False"))


class LeaseSpec(_Object, frozen=True, kw_only=True):
    """coordination.k8s.io/v1 LeaseSpec; instants with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(_Object, frozen=True, kw_only=True):
    """coordination.k8s.io/v1 Lease."""

    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The API's side of the picture.

    Attributes:
        nodes: by name.
        is_fresh: the API has spoken lately, so `nodes` is what it has.
        is_writer: this process holds the Lease, and renewed it lately enough that nobody else may have taken it.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    is_fresh: bool = False
    is_writer: bool = False


def render_time(unix_ns: int) -> str:
    """RFC 3339 with microseconds, as a Lease wants it (meta/v1 MicroTime)."""
    moment = dt.datetime.fromtimestamp(unix_ns // 1_000_000_000, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_ns % 1_000_000_000 // 1000:06d}Z"


def render_seconds(unix_ns: int) -> str:
    """RFC 3339 with whole seconds (meta/v1 Time)."""
    return f"{dt.datetime.fromtimestamp(unix_ns // 1_000_000_000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
