"""Keeps the verdict of one pair steady: a diagnosis is stated once it stands, and not changed on a whim."""

from __future__ import annotations

import msgspec

from meshwatchd.core.audit.peer_faults import EXPLAINS
from meshwatchd.core.session.cusum import TRIP_NATS
from meshwatchd.model.device_faults import DEVICE_FAULTS
from meshwatchd.model.faults import FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer
from meshwatchd.model.service_faults import SERVICE_FAULTS
from meshwatchd.model.settings import MS

SETTLE_NS = 400 * MS
"""A vague verdict is not stated before this: segment probes usually name the layer within it.

A node that was not run for a moment hears nobody, itself included, until it has read what waits in its sockets.
"""

REPLACE_NS = 300 * MS
"""A verdict that names a layer is replaced only by another that lasts this long.

While the path heals, legs recover one after the other and every order of them looks like some fault: then a new name
has to last as long as a side issue.
"""

SIDE_ISSUE_NS = 3_000 * MS
"""A lone silent node or standby is stated only when it lasts: often it is the first sign of something bigger."""

REMNANT_NS = 10_000 * MS
"""So long it lasts after this node has heard nobody: a device that flaps lets some through, and then none again.

And for so long after a name has given way to another of the same node it comes back only as a side issue would: where a
part of all packets is lost, legs look alive and dead by turns."""

_SIDE_ISSUES = frozenset(
    {
        FaultCode.NODE_UNREACHABLE,
        FaultCode.KEY_MISMATCH,
        FaultCode.ADDRESS_FAMILY_BROKEN,
        FaultCode.POD_NETWORK_BROKEN,
        FaultCode.POD_UNREACHABLE,
        FaultCode.KUBELET_UNREACHABLE,
        FaultCode.APISERVER_UNREACHABLE,
        FaultCode.PROBES_ONLY,
        FaultCode.OFFLOAD_FAULT,
        FaultCode.STANDBY_DOWN,
        *(fault.code for fault in SERVICE_FAULTS),
    }
)
_MEASURED = frozenset(
    {
        FaultCode.MTU_MISCONFIGURED,
        FaultCode.MTU_POISONED,
        FaultCode.STANDBY_MTU_SMALLER,
        FaultCode.FRAGMENTS_DROPPED,
    }
)
"""Warnings that rest on proofs: they give way at once."""

_ONE_BY_ONE = _MEASURED - {FaultCode.MTU_MISCONFIGURED}
"""Of these, the ones that sessions find one after the other: the first alone would name the wrong end, and so would the
last when it is over. What a kernel believes of a path may be the truth, which is being measured."""

_UNSETTLED = frozenset(
    {FaultCode.UNDETERMINED, FaultCode.ALL_PATHS_DOWN, FaultCode.LOCAL, FaultCode.PROBE_PORT_BLOCKED}
)

_HEARD_NOBODY = frozenset({FaultCode.ALL_PATHS_DOWN, FaultCode.LOCAL})

_FOUND = frozenset(fault.code for fault in DEVICE_FAULTS)
"""Causes that were found in a kernel: probes have said before that something is broken, and these say what."""

_VAGUE = _SIDE_ISSUES | _MEASURED | {FaultCode.UNDETERMINED}


class VerdictKeeper:
    """Filters the classifier's stream of verdicts."""

    def __init__(self, pair: int) -> None:
        self.current = Verdict(fault=FaultCode.NONE, layer=Layer.SELF, severity=Severity.OK, pair=pair)
        self._candidate = self._replaced = self.current
        self._since = self._replaced_at = 0

    def renumber(self, pair: int) -> None:
        """The pair has another index."""
        self.current = msgspec.structs.replace(self.current, pair=pair)
        self._candidate = msgspec.structs.replace(self._candidate, pair=pair)
        self._replaced = msgspec.structs.replace(self._replaced, pair=pair)

    def update(self, verdict: Verdict, now: int) -> tuple[Verdict, str] | None:
        """Take in the verdict of this instant; returns it with the previous fault's name when it is to be stated."""
        if verdict.is_same_fault(self.current):
            self.current = verdict
            self._candidate = verdict
            return None
        if not self._is_continued(verdict):
            self._since = now
        self._candidate = verdict
        if now - self._since < self._patience_ns(verdict, now):
            return None
        self._replaced, self._replaced_at, self.current = self.current, now, verdict
        return verdict, self._replaced.fault

    def _is_continued(self, verdict: Verdict) -> bool:
        """Whether this is the candidate still.

        A name for what had none is no new candidate, and while nothing is stated neither is a culprit that flickers.
        """
        may_be_named = self.current.fault is FaultCode.NONE or not self._candidate.culprit
        return verdict.is_same_fault(self._candidate) or (may_be_named and verdict.fault is self._candidate.fault)

    def _names_cause(self, verdict: Verdict) -> bool:
        """Whether this is the reason, told by whoever knows it, for what is stated already: nothing is named anew.

        It may also be the node that nobody could name before.
        """
        is_same_place = self.current.culprit in ("", verdict.culprit)
        return is_same_place and self.current.fault in EXPLAINS.get(verdict.fault, ())

    def _returns(self, verdict: Verdict, now: int) -> bool:
        """Whether it has just given way to what is stated, which is about the same node."""
        is_same_node = bool(verdict.culprit) and verdict.culprit == self.current.culprit
        is_recent = now - self._replaced_at <= REMNANT_NS
        return is_same_node and is_recent and verdict.is_same_fault(self._replaced)

    def _patience_ns(self, verdict: Verdict, now: int) -> int:
        if self._names_cause(verdict):
            return 0
        if verdict.fault in _SIDE_ISSUES:
            return REMNANT_NS if self.current.fault in _HEARD_NOBODY else SIDE_ISSUE_NS
        if verdict.fault is FaultCode.NONE or verdict.fault in _FOUND:
            return 0
        if self._returns(verdict, now):
            return SIDE_ISSUE_NS
        if verdict.fault in _UNSETTLED:
            return SETTLE_NS
        if verdict.fault in _ONE_BY_ONE and self.current.fault in (FaultCode.NONE, *_MEASURED):
            return SETTLE_NS
        if self.current.fault is FaultCode.NONE or self.current.fault in _VAGUE:
            return 0
        is_healing = verdict.log_likelihood < TRIP_NATS
        return SIDE_ISSUE_NS if is_healing else REPLACE_NS
