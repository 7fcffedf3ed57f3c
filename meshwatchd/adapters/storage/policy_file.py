"""The file in which policy outlives a process: versioned, replaced as a whole, and quarantined when it makes no sense.

What is in it is a convenience, never the truth: overrides are found by their marks in the kernel. So a file that
is corrupt, too large, or of another version is moved aside for whoever wants to look, and the daemon starts without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.model.decoding import Door, passable
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.policy_state import PolicyState

VERSION = 1
MAX_BYTES = 1024 * 1024
"""A thousand locations with a day of moves each; ten times that is no file of ours."""

FILE_NAME = "policy.json"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file.

    Attributes:
        boot: the boot whose monotonic clock the instants are of.
        wall_ns, monotonic_ns: both clocks when it was written.
    """

    version: int
    boot: str
    wall_ns: int
    monotonic_ns: int
    state: PolicyState


class Loaded(NamedTuple):
    """What was found; `problem` says why there is no state although there was a file."""

    state: PolicyState | None
    problem: str = ""


class StateFile:
    """Policy's file in the state directory.

    Args:
        boot: tells two boots of one machine apart; read from the kernel if not given.
    """

    def __init__(
        self,
        folder: Path,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
        boot: str | None = None,
    ) -> None:
        self._file = VersionedFile(folder / FILE_NAME, _Stored, version=VERSION, max_bytes=MAX_BYTES, mode=0o640)
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self._boot = read_boot() if boot is None else boot

    def save(self, state: PolicyState) -> str:
        """Replace the file; returns why it could not be done, or nothing."""
        stored = _Stored(
            version=VERSION,
            boot=self._boot,
            wall_ns=self._wall_ns(),
            monotonic_ns=self._monotonic_ns(),
            state=state,
        )
        return self._file.save(stored, "moves and orders are forgotten at the next restart")

    def load(self) -> Loaded:
        """What an earlier process has left, its instants as of this boot's clock."""
        stored, problem = self._file.load()
        if stored is None:
            return Loaded(None, problem)
        try:
            return Loaded(passable(stored.state.shifted(self._shift_ns(stored)), Door(FILE_NAME)))
        except DecodeError as error:
            return Loaded(None, self._file.quarantine(error.reason).problem)

    def _shift_ns(self, stored: _Stored) -> int:
        """From the clock of the writer's boot to this one's, by the wall clock, which may have been set back."""
        if stored.boot == self._boot:
            return 0
        elapsed_ns = max(0, self._wall_ns() - stored.wall_ns)
        return self._monotonic_ns() - elapsed_ns - stored.monotonic_ns


def read_boot() -> str:
    """The kernel's name for the running boot; empty where it tells none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
