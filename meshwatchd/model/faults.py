"""The fault catalogue: every verdict there can be, with what to tell the operator; and the verdict itself.

The lines are in files by who finds them: `path_faults` by probes, `size_faults` by large ones, `device_faults` by
looking at the kernel, `service_faults` by canaries of kinds dns, tls and http, `cluster_faults` by what agents say too.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

import msgspec

from meshwatchd.model.cluster_faults import CLUSTER_FAULTS
from meshwatchd.model.device_faults import DEVICE_FAULTS
from meshwatchd.model.fault_codes import Fault, FaultCode, Severity, weight
from meshwatchd.model.ids import Layer
from meshwatchd.model.path_faults import PATH_FAULTS
from meshwatchd.model.service_faults import SERVICE_FAULTS
from meshwatchd.model.size_faults import SIZE_FAULTS

__all__ = [
    "BETWEEN_NODES",
    "CATALOGUE",
    "FOUND_BY_OTHERS",
    "FOUND_IN_A_KERNEL",
    "Direction",
    "Fault",
    "FaultCode",
    "Severity",
    "Verdict",
    "find_fault",
    "weight",
]

CATALOGUE = MappingProxyType(
    {fault.code: fault for fault in (*PATH_FAULTS, *DEVICE_FAULTS, *SIZE_FAULTS, *SERVICE_FAULTS, *CLUSTER_FAULTS)}
)
"""Every fault by its code; a test asserts that it is complete."""


def find_fault(code: str) -> Fault | None:
    """A line of the catalogue by what another node says, whose version may have codes that this one does not know."""
    return CATALOGUE[FaultCode(code)] if code in set(FaultCode) else None


FOUND_IN_A_KERNEL = frozenset(fault.code for fault in DEVICE_FAULTS)
"""Those of a node's own tables and devices: only that node can name the entry."""

BETWEEN_NODES = frozenset(
    (
        *(FaultCode.WIREGUARD_BLOCKED, FaultCode.ONE_WAY_BREAK),
        *(FaultCode.WIREGUARD_NO_HANDSHAKE, FaultCode.WIREGUARD_NO_DATA, FaultCode.NEXT_HOP_DEAD),
    )
)
"""Those of a tunnel that is silent: each end names the other, and no end can tell where the cause is."""

FOUND_BY_OTHERS = BETWEEN_NODES | {FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED}
"""Those that a node's neighbours find, not the node that is named."""


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
        told_by: the node whose word the name rests on; empty where this node has seen it itself. Only what a node has
            seen itself does it tell others.
    """

    fault: FaultCode
    layer: Layer
    severity: Severity
    pair: int
    culprit: str = ""
    direction: Direction = Direction.UNKNOWN
    because: tuple[str, ...] = ()
    log_likelihood: float = 0.0
    told_by: str = ""

    def is_same_fault(self, other: Verdict) -> bool:
        """Whether both name the same fault at the same place, whatever the evidence."""
        return (self.fault, self.pair, self.culprit) == (other.fault, other.pair, other.culprit)
