"""What the classifier's table is made of."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from meshwatchd.core.diagnosis.evidence import Evidence
from meshwatchd.model.faults import FaultCode


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        culprit: the node at fault; nobody where the line names none.
    """

    fault: FaultCode
    matches: Callable[[Evidence], bool]
    because: Callable[[Evidence], tuple[str, ...]]
    culprit: Callable[[Evidence], str] = lambda _: ""
