"""A file of one version: replaced as a whole, and moved aside when it makes no sense.

`policy_file` and `mesh_file` keep one each in the state directory. What is in them is a convenience, so whatever is
wrong with a file is said, and the daemon starts without.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

Content = TypeVar("Content", bound=msgspec.Struct)


class _Version(msgspec.Struct, frozen=True):
    version: int


class Read(NamedTuple, Generic[Content]):
    """What was found; `problem` says why there is nothing although there was a file."""

    content: Content | None
    problem: str = ""


class VersionedFile(Generic[Content]):
    """One file.

    Args:
        path: of the file; its neighbours with the suffixes `.new` and `.corrupt` are its own as well.
        kind: of its content, which has a field `version`.
        version: the one that is understood.
        max_bytes: a larger one is no file of ours.
        mode: permissions.
    """

    def __init__(self, path: Path, kind: type[Content], *, version: int, max_bytes: int, mode: int) -> None:
        self._path, self._kind = path, kind
        self._version, self._max_bytes, self._mode = version, max_bytes, mode

    def save(self, content: Content, loss: str) -> str:
        """Replace the file; returns why it could not be done and what is lost by that, or nothing."""
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, self._mode
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(content))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            return f"{self._path}: {error.strerror or error}; {loss}"
        return ""

    def load(self) -> Read[Content]:
        """What an earlier process has left."""
        try:
            with self._path.open("rb") as file:
                data = file.read(self._max_bytes + 1)
        except FileNotFoundError:
            return Read(None)
        except OSError as error:
            return Read(None, f"{self._path}: {error.strerror or error}")
        if len(data) > self._max_bytes:
            return self.quarantine(f"larger than {self._max_bytes} bytes")
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version != self._version:
                return self.quarantine(f"version {version}, and this is a daemon for version {self._version}")
            return Read(msgspec.json.decode(data, type=self._kind))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return self.quarantine(f"not understood ({error})")

    def quarantine(self, why: str) -> Read[Content]:
        """Move the file aside for whoever wants to look."""
        aside = self._path.with_suffix(".corrupt")
        try:
            self._path.replace(aside)
        except OSError as error:
            return Read(None, f"{self._path}: {why}, and it cannot be moved aside: {error.strerror or error}")
        return Read(None, f"{self._path}: {why}; moved aside as {aside.name}, started without it")
