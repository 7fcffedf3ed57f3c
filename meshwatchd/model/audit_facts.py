"""What is told of findings and of their repair."""

from __future__ import annotations

import msgspec

from meshwatchd.model.audit import RepairRung
from meshwatchd.model.fault_codes import FaultCode, Severity
from meshwatchd.model.ids import Layer


class FaultRaised(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A look at this node's kernel found a fault of the catalogue.

    Attributes:
        device, subject: where, and what of it.
        peer: the node at the other end, as far as known.
        culprit: the node that has the fault.
    """

    fault: FaultCode
    layer: Layer
    severity: Severity
    device: str
    subject: str
    peer: str
    culprit: str
    because: tuple[str, ...]


class FaultCleared(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A fault that was raised is gone."""

    fault: FaultCode
    device: str
    subject: str
    lasted_ns: int


class RepairAdvised(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """What would repair a fault, and why it is not done.

    Attributes:
        operations: netlink messages.
        commands: the same for a person to type.
    """

    fault: FaultCode
    device: str
    subject: str
    rung: RepairRung
    reason: str
    operations: tuple[str, ...]
    commands: tuple[str, ...]


class RepairStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A repair is on its way to the kernel; fields as in RepairAdvised."""

    fault: FaultCode
    device: str
    subject: str
    rung: RepairRung
    request: int
    commands: tuple[str, ...]


class RepairVerified(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The kernel holds what a repair has put."""

    fault: FaultCode
    device: str
    subject: str
    rung: RepairRung
    request: int
    took_ns: int


class RepairUndone(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A repair did not hold and was taken back."""

    fault: FaultCode
    device: str
    subject: str
    rung: RepairRung
    request: int
    reason: str


class RepairHeld(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A repair is enabled and left undone all the same: the budget, somebody who undoes it, a kernel that refuses."""

    fault: FaultCode
    device: str
    subject: str
    rung: RepairRung
    reason: str
