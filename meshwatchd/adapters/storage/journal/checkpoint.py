"""A whole engine as bytes.

Only for the same program: a checkpoint holds the engine's insides, and another version has others. It is read by
unpickling, which runs what it is told to: `load` takes only files that nobody else can have written, and whose bytes
are those that were written.
"""

from __future__ import annotations

import io
import os
import pickle
import stat
import struct
from pathlib import Path
from typing import Final

import msgspec

import meshwatchd
from meshwatchd.core.engine import Engine
from meshwatchd.model.decoding import Door, decode_frame
from meshwatchd.model.digest import blake2b
from meshwatchd.model.errors import DecodeError, JournalError
from meshwatchd.profiles import PROFILES

MAGIC: Final = b"MWJ2"
"""A digest of the rest of the file follows, then the header's length, the header and the pickled engine."""
_DIGEST_BYTES: Final = 16
_LENGTH: Final = struct.Struct("<I")
_PROFILES: Final = "profiles"
"""Stands for the registry of profiles, which is code and not state."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What can be known of a checkpoint without loading it.

    Attributes:
        program: version of the daemon.
        at_ns: CLOCK_MONOTONIC of the engine.
        wall_ns: CLOCK_REALTIME then, for people.
    """

    program: str
    node: str
    at_ns: int
    wall_ns: int


_DECODER: Final = msgspec.msgpack.Decoder(Header)


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> str | None:
        return _PROFILES if obj is PROFILES else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: object) -> object:
        if pid != _PROFILES:
            raise pickle.UnpicklingError(f"no object is called {pid}")
        return PROFILES


def dump(engine: object, *, at_ns: int, wall_ns: int) -> bytes:
    """The engine as it is."""
    assert isinstance(engine, Engine), "only the core is worth a journal"
    header = msgspec.msgpack.encode(
        Header(program=meshwatchd.__version__, node=engine.state.node, at_ns=at_ns, wall_ns=wall_ns)
    )
    body = io.BytesIO()
    _Pickler(body, protocol=5).dump(engine)
    content = _LENGTH.pack(len(header)) + header + body.getvalue()
    return MAGIC + _digest(content) + content


def load(path: Path) -> tuple[Header, Engine]:
    """The engine of a file.

    Raises:
        JournalError: somebody else could have written the file, it is no checkpoint, or one of another version.
    """
    content = _read(path)
    header, body = _split(path, content)
    if header.program != meshwatchd.__version__:
        raise JournalError(path, f"written by meshwatchd {header.program}", "replay it with that version")
    # Unpickling fails in every way there is.
    try:
        engine = _Unpickler(io.BytesIO(body)).load()
    except Exception as error:
        raise JournalError(path, f"the checkpoint is damaged ({error})", "begin with a later segment") from error
    if not isinstance(engine, Engine):
        raise JournalError(path, "the checkpoint holds no engine", "begin with another segment")
    return header, engine


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in {0, os.geteuid()} or stat.S_IMODE(found.st_mode) & 0o022:
                remedy = f"replay it as its owner: sudo -u '#{found.st_uid}' meshwatchctl replay; or chmod go-w"
                raise JournalError(path, "others can write to it, and it would be run as a program", remedy)
            return file.read()
    except OSError as error:
        raise JournalError(path, error.strerror or str(error), "name a journal-*.state file, or its folder") from error


def _split(path: Path, content: bytes) -> tuple[Header, bytes]:
    digest_end = len(MAGIC) + _DIGEST_BYTES
    start = digest_end + _LENGTH.size
    if content[: len(MAGIC)] != MAGIC or len(content) < start:
        raise JournalError(path, "it is no checkpoint of a journal", "name a journal-*.state file, or its folder")
    if content[len(MAGIC) : digest_end] != _digest(content[digest_end:]):
        raise JournalError(path, "its bytes are not those that were written", "begin with another segment")
    (length,) = _LENGTH.unpack_from(content, digest_end)
    try:
        return decode_frame(content[start : start + length], _DECODER, Door("journal")), content[start + length :]
    except DecodeError as error:
        raise JournalError(path, f"its header is damaged ({error.reason})", "begin with a later segment") from error


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
