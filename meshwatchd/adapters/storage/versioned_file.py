"""A file of one version: replaced as a whole, and quarantined when it makes no sense.

Policy, the mesh, the links and the good state are kept in one each, in the state directory. What is in them is a
convenience, so a file that cannot be decoded is renamed to NAME.bad, and the daemon starts without.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError

Content = TypeVar("Content", bound=msgspec.Struct)


class _Version(msgspec.Struct, frozen=True):
    version: int = 1
    """Where a file says none, as the good state's does, it is the first."""


class Read(NamedTuple, Generic[Content]):
    """What was found; `problem` says why there is nothing although there was a file."""

    content: Content | None
    problem: str = ""


class VersionedFile(Generic[Content]):
    """One file.

    Args:
        path: of the file; `NAME.bad` and its neighbour with the suffix of `draft` are its own as well.
        kind: of its content, which has a field `version` where that is not 1 for ever.
        draft: suffix of what is written before it takes the file's place.
        is_durable: whether `save` waits until the disk has it, which may take long: outside of an event loop.
    """

    def __init__(
        self,
        path: Path,
        kind: type[Content],
        *,
        version: int,
        max_bytes: int,
        mode: int,
        draft: str = ".new",
        is_durable: bool = True,
    ) -> None:
        self._path, self._kind, self._draft, self._is_durable = path, kind, draft, is_durable
        self._version, self._max_bytes, self._mode = version, max_bytes, mode

    def save(self, content: Content, loss: str) -> str:
        """Replace the file; returns why it could not be done and what is lost by that, or nothing.

        What is larger than `load` takes does not replace what it takes.
        """
        data = msgspec.json.encode(content)
        if len(data) > self._max_bytes:
            return f"{self._path}: would be larger than {self._max_bytes} bytes; {loss}"
        draft = self._path.with_suffix(self._draft)
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, self._mode
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if self._is_durable:
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
        try:
            return Read(self._decode(data))
        except DecodeError as error:
            return self.quarantine(error.reason)

    def _decode(self, data: bytes) -> Content:
        name = self._path.name
        with Door(name, f"the daemon starts without it; look at {name}.bad, then remove that"):
            if len(data) > self._max_bytes:
                raise DecodeError(name, f"larger than {self._max_bytes} bytes")
            version = decode_json(data, _Version, Door(name)).version
            if version != self._version:
                raise DecodeError(name, f"version {version}, and this is a daemon for version {self._version}")
            return decode_json(data, self._kind, Door(name))

    def quarantine(self, why: str) -> Read[Content]:
        """Move the file aside for whoever wants to look."""
        aside = self._path.with_name(f"{self._path.name}.bad")
        try:
            self._path.replace(aside)
        except OSError as error:
            return Read(None, f"{self._path}: {why}, and it cannot be moved aside: {error.strerror or error}")
        return Read(None, f"{self._path}: {why}; moved aside as {aside.name}, started without it")
