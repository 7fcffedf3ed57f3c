"""The file that says where rules of ours stand, and where they have stood.

Without it a daemon that starts anew, and `meshwatchctl sweep`, would not know rules outside the window that is
configured at that moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.model.rule_window import RuleWindow

VERSION = 1
FILE_NAME = "rules.json"
MAX_BYTES = 64 * 1024
MAX_WINDOWS = 16


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    windows: tuple[RuleWindow, ...]


class Loaded(NamedTuple):
    """Windows, the one in use first; `problem` says why there are none although there was a file."""

    windows: tuple[RuleWindow, ...]
    problem: str = ""


class WindowFile:
    """The file in the state directory."""

    def __init__(self, folder: Path) -> None:
        # No fsync: it may take longer than the event loop can spare, and a power cut ends the rules it tells of.
        self._file = VersionedFile(
            folder / FILE_NAME, _Stored, version=VERSION, max_bytes=MAX_BYTES, mode=0o640, is_durable=False
        )

    def save(self, windows: tuple[RuleWindow, ...]) -> str:
        """Replace the file; returns why it could not be done, or nothing."""
        stored = _Stored(version=VERSION, windows=windows[:MAX_WINDOWS])
        return self._file.save(stored, "after a restart rules of ours are not known as such")

    def load(self) -> Loaded:
        """What was written last."""
        stored, problem = self._file.load()
        return Loaded(stored.windows if stored is not None else (), problem)
