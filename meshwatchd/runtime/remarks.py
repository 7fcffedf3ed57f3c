"""What discovery tells the operator: each thing once, and again only when it comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.runtime.sinks import Log

MAX_REMEMBERED: Final = 4096
"""Sentences that are remembered so as not to repeat ourselves."""

COMPLAINT_GAP_NS: Final = 600 * SECOND


class Remarks:
    """The log of what is found out, and of what is refused.

    Args:
        log: for operators.
        monotonic_ns: the clock by which the same complaint is made again.
    """

    def __init__(self, log: Log, monotonic_ns: Callable[[], int]) -> None:
        self._log, self._monotonic_ns = log, monotonic_ns
        self._complained: dict[str, int] = {}
        self._told_problems: tuple[str, ...] = ()

    def complain(self, who: str, reason: str) -> None:
        """A source or this node itself says what cannot be used; the same is said again after ten minutes."""
        now = self._monotonic_ns()
        text = f"{who}: {reason}"
        if now - self._complained.get(text, now - COMPLAINT_GAP_NS) < COMPLAINT_GAP_NS:
            return
        if len(self._complained) >= MAX_REMEMBERED:
            self._complained.clear()
        self._complained[text] = now
        self._log.warning("hello.rejected", source=who, reason=reason)

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
        """What stands in the way: each new one once; what was solved may come back as new.

        Args:
            problems: all there are at this moment, as sentences.
            is_found: a mesh is in force. While the first one is put together everything is missing, and nothing wrong.
        """
        if problems == self._told_problems:
            return
        if is_found:
            for problem in problems:
                if problem not in self._told_problems:
                    self._log.warning("mesh.incomplete", reason=problem)
        self._told_problems = problems if is_found else ()
