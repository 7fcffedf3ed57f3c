"""What the classifier's table is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


def where(holds: Callable[[Evidence], bool], rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """A section of the table, whose rules match only where that holds."""

    def within(matches: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
        return lambda e: holds(e) and matches(e)

    return tuple(msgspec.structs.replace(rule, matches=within(rule.matches)) for rule in rules)
