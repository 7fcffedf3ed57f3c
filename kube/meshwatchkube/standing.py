"""Since when claims have stood without a break, by the own clock."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Standing:
    """The claims of the moment, each with the instant from which on it was made at every look."""

    def __init__(self) -> None:
        self._since: dict[Hashable, int] = {}

    def note(self, claims: Iterable[Hashable], now: int) -> None:
        """Take all claims that are made at this instant; those that are not made have ended."""
        self._since = {claim: self._since.get(claim, now) for claim in claims}

    def has_lasted(self, claim: Hashable, duration_ns: int, now: int) -> bool:
        """Whether a claim has stood for so many nanoseconds."""
        since = self._since.get(claim)
        return since is not None and now - since >= duration_ns

    def forget(self) -> None:
        """Begin anew: what was believed meanwhile may have been out of date."""
        self._since.clear()
