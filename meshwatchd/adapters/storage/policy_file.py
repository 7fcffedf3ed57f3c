"""The file in which policy outlives a process: versioned, replaced as a whole, and quarantined when it makes no sense.

What is in it is a convenience, never the truth: overrides are found by their marks in the kernel. So a file that
is corrupt, too large, or of another version is moved aside for whoever wants to look, and the daemon starts without.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

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


class _Version(msgspec.Struct, frozen=True):
    version: int


class Loaded(NamedTuple):
    """What was found; `problem` says why there is no state although there was a file."""

    state: PolicyState | None
    problem: str = ""


class StateFile:
    """Policy's file in the state directory.

    Args:
        folder: the state directory.
        monotonic_ns, wall_ns: the clocks.
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
        self._path = folder / FILE_NAME
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
        beside = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(stored))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            return f"{self._path}: {error.strerror or error}; moves and orders are forgotten at the next restart"
        return ""

    def load(self) -> Loaded:
        """What an earlier process has left, its instants as of this boot's clock."""
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return Loaded(None)
        except OSError as error:
            return Loaded(None, f"{self._path}: {error.strerror or error}")
        stored = _decode(content)
        if isinstance(stored, str):
            return Loaded(None, self._quarantine(stored))
        state = stored.state.shifted(self._shift_ns(stored))
        try:
            msgspec.msgpack.encode(state)
        except OverflowError as error:
            # JSON has numbers of any length, and the engine could not be told of them.
            return Loaded(None, self._quarantine(f"not understood ({error})"))
        return Loaded(state)

    def _shift_ns(self, stored: _Stored) -> int:
        """From the clock of the writer's boot to this one's, by the wall clock, which may have been set back."""
        if stored.boot == self._boot:
            return 0
        elapsed_ns = max(0, self._wall_ns() - stored.wall_ns)
        return self._monotonic_ns() - elapsed_ns - stored.monotonic_ns

    def _quarantine(self, why: str) -> str:
        aside = self._path.with_suffix(".corrupt")
        try:
            self._path.replace(aside)
        except OSError as error:
            return f"{self._path}: {why}, and it cannot be moved aside: {error.strerror or error}"
        return f"{self._path}: {why}; moved aside as {aside.name}, started without it"


def _decode(content: bytes) -> _Stored | str:
    """The file's content, or what is wrong with it."""
    if len(content) > MAX_BYTES:
        return f"larger than {MAX_BYTES} bytes"
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version != VERSION:
            return f"version {version}, and this is a daemon for version {VERSION}"
        return msgspec.json.decode(content, type=_Stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"not understood ({error})"


def read_boot() -> str:
    """The kernel's name for the running boot; empty where it tells none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
