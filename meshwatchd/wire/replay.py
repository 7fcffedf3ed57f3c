"""Protection against replayed requests: a confirmed boot epoch and a window of sequence numbers.

STAMP's signatures do not age (RFC 8972 section 6). A receiver therefore remembers, for each peer, the epoch
of its running engine and which numbers it has seen:

    - An epoch is believed only after the peer proved that it lives: it answered a probe of ours, with our
      sequence number and timestamp, in a packet of that epoch. Recorded packets cannot do that.
    - Under a believed epoch each number counts once. Numbers more than 1 023 behind the highest are not
      tracked and count as seen.

An unconfirmed request may be answered, or two nodes that start together would never confirm each other, but
nothing in it may be acted upon. Each is answered once: a node of a large location is asked by nodes that it does not
ask, and whoever sends again what such a peer has sent would use up its share of answers. Answers need no window: each
must match an outstanding request of ours.

Source: the window is that of RFC 4303 section 3.4.3, without wrap: an engine restarts its numbers with a
new epoch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

WINDOW: Final = 1024
_MASK: Final = (1 << WINDOW) - 1
MAX_SESSIONS: Final = 4096
"""Sequence spaces remembered for one peer; a peer has one for each path and layer, tens at most."""
MAX_UNPROVEN: Final = 512
"""The same beyond the proven epoch, for one peer: those used last."""
FIRST_SERIES: Final = 0xC000
SERIES_SIZE: Final = 1000
"""A bisection runs under an epoch of its own, which nothing proves, and sends several series of probes at once, each of
which begins a thousand numbers after another. Its session identifiers begin here."""


class ReplayVerdict(StrEnum):
    """What a signed request's epoch and number say about its age; only FRESH may change anything."""

    FRESH = "fresh"
    DUPLICATE = "duplicate"
    TOO_OLD = "too-old"
    OLD_EPOCH = "old-epoch"
    UNCONFIRMED_EPOCH = "unconfirmed-epoch"


class _Window:
    """Numbers seen in one session: bit i of `seen` stands for `highest - i`."""

    __slots__ = ("highest", "seen")

    def __init__(self) -> None:
        self.highest = -1
        self.seen = 0

    def accept(self, sequence: int) -> ReplayVerdict:
        ahead = sequence - self.highest
        if ahead > 0:
            # A jump past the whole window would shift by up to 2**32 bits: a packet must not cost 512 MiB.
            self.seen = (self.seen << ahead & _MASK if ahead < WINDOW else 0) | 1
            self.highest = sequence
            return ReplayVerdict.FRESH
        if -ahead >= WINDOW:
            return ReplayVerdict.TOO_OLD
        bit = 1 << -ahead
        if self.seen & bit:
            return ReplayVerdict.DUPLICATE
        self.seen |= bit
        return ReplayVerdict.FRESH


class ReplayGuard:
    """What one peer's requests may still be; ask only after both tags were verified."""

    __slots__ = ("_epoch", "_retired", "_unproven", "_windows")

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._retired: int | None = None
        self._windows: dict[int, _Window] = {}
        self._unproven: dict[tuple[int, int, int], _Window] = {}

    @property
    def epoch(self) -> int | None:
        """The peer's proven epoch."""
        return self._epoch

    def accept(self, epoch: int, sequence: int, *, session: int = 0) -> ReplayVerdict:
        """Judge one request and remember it."""
        if epoch != self._epoch:
            if self._epoch is not None and epoch < self._epoch:
                return ReplayVerdict.OLD_EPOCH
            verdict = self._unproven_window(epoch, session, sequence).accept(sequence)
            return ReplayVerdict.UNCONFIRMED_EPOCH if verdict is ReplayVerdict.FRESH else verdict
        window = self._windows.get(session)
        if window is None:
            if len(self._windows) >= MAX_SESSIONS:
                return ReplayVerdict.TOO_OLD
            window = self._windows[session] = _Window()
        return window.accept(sequence)

    def confirm(self, epoch: int) -> bool:
        """The peer answered a probe of ours under this epoch; True when that is news: the peer restarted.

        A smaller epoch is believed too: the peer's clock may have been set back, and it proved that it
        lives. The one before the present is not: an answer overtaken by the restart would reopen the
        windows.
        """
        if epoch in {self._epoch, self._retired}:
            return False
        self._retired, self._epoch = self._epoch, epoch
        self._windows.clear()
        self._unproven.clear()
        return True

    def _unproven_window(self, epoch: int, session: int, sequence: int) -> _Window:
        key = epoch, session, sequence // SERIES_SIZE if session >= FIRST_SERIES else 0
        windows = self._unproven
        window = windows.pop(key) if key in windows else _Window()
        windows[key] = window
        if len(windows) > MAX_UNPROVEN:
            del windows[next(iter(windows))]
        return window
