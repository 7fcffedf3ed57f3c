"""Small files of other programs, read whole and within bounds."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from meshwatchd.model.errors import DecodeError, KernelError

MAX_BYTES: Final = 64 * 1024


def read(path: Path) -> bytes | None:
    """A file's contents; None where there is none.

    Never waits: a pipe in a file's place is refused, not read.

    Raises:
        DecodeError: it is no regular file, or too long.
        KernelError: it must not or cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
            # Of a regular file, one read gives all there is.
            data = os.read(fd, MAX_BYTES + 1) if is_regular else b""
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KernelError(f"read {path}", error.errno or 0, str(error.strerror)) from error
    if not is_regular:
        raise DecodeError(str(path), "it is no regular file")
    if len(data) > MAX_BYTES:
        raise DecodeError(str(path), f"it is longer than {MAX_BYTES} bytes")
    return data


def names(directory: Path, suffix: str, *, most: int) -> tuple[Path, ...]:
    """Files of a directory with that suffix, by name, the first of them; none where the directory cannot be read."""
    try:
        found = [entry.name for entry in os.scandir(directory) if entry.name.endswith(suffix)]
    except OSError:
        return ()
    return tuple(directory / name for name in sorted(found)[:most])
