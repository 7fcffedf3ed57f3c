"""What discovery tells the operator: each thing once, and again only when it comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from meshwatchd.model.discovery import Finding
from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.runtime.sinks import Log

MAX_REMEMBERED: Final = 4096
"""Sentences that are remembered so as not to repeat ourselves."""

COMPLAINT_GAP_NS: Final = 600 * SECOND
MAX_WHO: Final = 64
SHOWN: Final = 16
"""Of what was refused lately; the log has all of it."""


class Remarks:
    """The log of what is found out, and of what is refused."""

    def __init__(self, log: Log, monotonic_ns: Callable[[], int]) -> None:
        self._log, self._monotonic_ns = log, monotonic_ns
        self._complained: dict[str, int] = {}
        self._refused: list[tuple[str, str, int]] = []
        self._told_problems: tuple[str, ...] = ()

    def complain(self, who: str, reason: str, *, event: str = "hello.rejected") -> None:
        """A source or this node itself says what cannot be used; the same is said again after ten minutes."""
        now = self._monotonic_ns()
        # A sender that is refused for its name has chosen it, and it goes to terminals.
        who = who if who.isprintable() and len(who) <= MAX_WHO else repr(who[:MAX_WHO])
        text = f"{who}: {reason}"
        if now - self._complained.get(text, now - COMPLAINT_GAP_NS) < COMPLAINT_GAP_NS:
            return
        self._complained.pop(text, None)
        if len(self._complained) >= MAX_REMEMBERED:
            oldest = next(iter(self._complained))
            if now - self._complained[oldest] < COMPLAINT_GAP_NS:
                # Whoever has the mesh key can make up names without end.
                return
            del self._complained[oldest]
        self._complained[text] = now
        self._refused = [*self._refused[1 - SHOWN :], (who, reason, now)]
        self._log.warning(event, source=who, reason=reason)

    def refused(self) -> tuple[Finding, ...]:
        """What was complained of in the last ten minutes, for `meshwatchctl topology --why`; the latest last."""
        least_ns = self._monotonic_ns() - COMPLAINT_GAP_NS
        return tuple(
            Finding(source=f"hello of {who}", text=f"rejected: {reason}; its last good word is kept")
            for who, reason, at_ns in self._refused
            if at_ns > least_ns
        )

    def found(self, mesh: MeshSettings, origin: str) -> None:
        """Another mesh is in force."""
        self._log.info(
            "mesh.found",
            nodes=len(mesh.node),
            leaders={location.name: location.leader for location in mesh.location},
            standbys=[name for location in mesh.location for name in location.standbys],
            origin=origin,
        )

    def problems(self, problems: tuple[str, ...], *, is_found: bool) -> None:
        """What stands in the way at this moment: each new one once; what was solved may come back as new. Until a mesh
        is found everything is missing, and nothing wrong.
        """
        if problems == self._told_problems:
            return
        if is_found:
            for problem in problems:
                if problem not in self._told_problems:
                    self._log.warning("mesh.incomplete", reason=problem)
        self._told_problems = problems if is_found else ()
