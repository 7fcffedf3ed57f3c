"""What an audit has found is told once it has stood for its time, without what is only a consequence."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.underlay_faults import CARRIER_LOST

MAX_FINDINGS = 64
"""More say nothing new; the first are told."""


def without_consequences(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Those that no other finding at the same device, or at one below all, explains; one about a peer explains those
    about that peer.
    """
    every = tuple(findings)
    return tuple(each for each in every if not any(_explains(other, each) for other in every))


def _explains(cause: AuditFinding, effect: AuditFinding) -> bool:
    is_below = cause.code in CARRIER_LOST
    if not (is_below or cause.device == effect.device) or cause.code not in CATALOGUE[effect.code].depends_on:
        return False
    return cause.subject in (cause.device, effect.subject)


class Confirmation:
    """Findings over time: each is told once it has stood, and until it is gone."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, str], int] = {}
        self._stood: frozenset[tuple[str, str, str]] = frozenset()

    def observe(
        self, findings: Iterable[AuditFinding], now: int, known_until: int | None = None
    ) -> tuple[AuditFinding, ...]:
        """Take in what is found at this instant.

        Args:
            findings: all that one look has found.
            now: nanoseconds of a clock that never goes back.
            known_until: what is looked at is known to have been so until then; None means that it is so now. It holds
                back what is new, and ends nothing that has stood.

        Returns:
            what has stood for its time, without consequences of what has or has not.
        """
        found = {each.name: each for each in tuple(findings)[:MAX_FINDINGS]}
        self._since = {name: self._since.get(name, now) for name in found}
        until = now if known_until is None else known_until
        self._stood = frozenset(
            name for name, each in found.items() if name in self._stood or until - self._since[name] >= _patience(each)
        )
        return tuple(each for each in without_consequences(found.values()) if each.name in self._stood)

    def deadline(self, now: int) -> int | None:
        """The next instant at which something more may have stood long enough; None while nothing waits."""
        waiting = (since + CATALOGUE[FaultCode(name[0])].confirm_ns for name, since in self._since.items())
        return min((at for at in waiting if at > now), default=None)


def _patience(finding: AuditFinding) -> int:
    return CATALOGUE[finding.code].confirm_ns
