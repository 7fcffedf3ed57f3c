"""What was known of the mesh, in a file: a node that boots alone still knows whom to watch and whom to believe.

Versioned, replaced as a whole, and moved aside when it makes no sense: hellos will tell all of it again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName

VERSION: Final = 1
FILE_NAME: Final = "mesh.json"
MAX_BYTES: Final = 8 * 1024 * 1024
"""2 048 nodes of 1 200 bytes, three times over."""


class KeptPeer(msgspec.Struct, frozen=True, kw_only=True):
    """One peer.

    Attributes:
        hello: its last word; None for one that was only proven.
        heard_ns: when, nanoseconds since 1970.
        epoch, counter: what was proven of it; hellos from before are refused.
    """

    name: NodeName
    hello: Hello | None
    heard_ns: int
    epoch: int
    counter: int


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The file.

    Attributes:
        node: whose it is; a copied disk brings somebody else's.
        saved_ns: nanoseconds since 1970.
        own: what this node last told.
        leaders: who led which location.
        watched: locations that had been part of the mesh for long.
    """

    version: int
    node: NodeName
    saved_ns: int
    own: Hello | None = None
    leaders: dict[LocationName, NodeName] = {}
    watched: tuple[LocationName, ...] = ()
    peers: tuple[KeptPeer, ...] = ()


class Loaded(NamedTuple):
    """What was found; `problem` says why there is nothing although there was a file."""

    kept: Kept | None
    problem: str = ""


class _Version(msgspec.Struct, frozen=True):
    version: int


def save(folder: Path, kept: Kept) -> str:
    """Replace the file; returns why it could not be done, or nothing."""
    path = folder / FILE_NAME
    draft = path.with_suffix(".new")
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(kept))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        return f"{path}: {error.strerror or error}; what is known of the mesh is forgotten at the next restart"
    return ""


def load(folder: Path, node: str) -> Loaded:
    """What an earlier process of this node has left."""
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Loaded(None)
    except OSError as error:
        return Loaded(None, f"{path}: {error.strerror or error}")
    read = _decode(content)
    if isinstance(read, str):
        return Loaded(None, _quarantine(path, read))
    if read.node != node:
        return Loaded(None, f"{path} is of node {read.node}, and this is {node}; started without it")
    return Loaded(read)


def _decode(content: bytes) -> Kept | str:
    if len(content) > MAX_BYTES:
        return f"larger than {MAX_BYTES} bytes"
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version != VERSION:
            return f"version {version}, and this is a daemon for version {VERSION}"
        return msgspec.json.decode(content, type=Kept)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"not understood ({error})"


def _quarantine(path: Path, why: str) -> str:
    aside = path.with_suffix(".corrupt")
    try:
        path.replace(aside)
    except OSError as error:
        return f"{path}: {why}, and it cannot be moved aside: {error.strerror or error}"
    return f"{path}: {why}; moved aside as {aside.name}, started without it"
